"""Backend ``nvptx``: FlyDSL kernels run on an NVIDIA GPU, through :mod:`kernel_lint.nvptx`.

Numbers and launches are real; times say how the kernel does on this GPU, not how on an AMD GPU. A kernel with
operations that only AMD GPUs have is refused, naming the operation and its line.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kernel_lint.verify.backends import BackendContext, BackendUnavailableError, Observation, Observer
from kernel_lint.verify.backends.device import DeviceBackend
from kernel_lint.verify.backends.flydsl import (
    EMULATOR_MODULES,
    flydsl_environment,
    observed,
    require_flydsl,
)

if TYPE_CHECKING:
    from kernel_lint.nvptx.session import NvptxSession


# What torch says of a kernel that touched memory which is not there.
_FAULTS = ("illegal memory access", "misaligned address", "address out of range")


class NvptxBackend(DeviceBackend):
    """See the module's docstring; the protocol is :class:`kernel_lint.verify.backends.Backend`."""

    name = "nvptx"

    def check(self) -> None:
        """Raise when FlyDSL, cuda-bindings or an NVIDIA GPU is missing."""
        require_flydsl()
        if importlib.util.find_spec("cuda") is None:
            raise BackendUnavailableError("cuda-bindings is not installed", "pip install cuda-bindings")
        super().check()
        import torch

        if torch.version.hip is not None:
            raise BackendUnavailableError("this GPU is AMD's", "use --backend rocm: it runs FlyDSL natively")

    def default_targets(self) -> tuple[str, ...]:
        """Return CDNA3: the architecture that kernels are traced for."""
        return ("gfx942",)

    def describe(self, target: str) -> str:
        """Return what ran where."""
        return f"{target} kernels as PTX on an NVIDIA GPU"

    def preload(self) -> tuple[str, ...]:
        """Return FlyDSL's modules, the emulator's and this backend's."""
        return (*EMULATOR_MODULES, "kernel_lint.nvptx.session")

    def environment(self, context: BackendContext) -> dict[str, str]:
        """Return FlyDSL's settings for the target."""
        return flydsl_environment(context)

    def install(self, context: BackendContext) -> Observer:
        """Create the device's context, and have FlyDSL launch there."""
        from kernel_lint.nvptx.session import install_on_gpu

        return NvptxObserver(install_on_gpu(context.target), context.target)

    def times(self, options: Mapping[str, str]) -> bool:
        """Take times: of this GPU, as the report says."""
        return True


class NvptxObserver:
    """Reports the launches between two calls."""

    def __init__(self, session: NvptxSession, target: str) -> None:
        import torch

        self._session, self._target = session, target
        self._synchronize = torch.cuda.synchronize

    def begin(self) -> None:
        """Forget what was seen so far."""
        self._session.launches.clear()

    def synchronize(self) -> None:
        """Wait for the device; says what a fault of a kernel may come from."""
        try:
            self._synchronize()
        except RuntimeError as error:
            first = str(error).partition("\n")[0]
            if not any(words in first for words in _FAULTS):
                raise
            raise RuntimeError(
                f"{first}; an AMD GPU reads zero past the end of LDS where this one faults: "
                "--backend emulate names the kernel, the line and the address"
            ) from error

    def end(self) -> Observation:
        """Return the launches since :meth:`begin`."""
        return observed(self._session.launches, self._target)


BACKEND = NvptxBackend()
