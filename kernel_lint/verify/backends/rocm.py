"""Backend ``rocm``: the candidate runs on an AMD GPU, as it will where it is used.

Launches and compiled kernels are observed where FlyDSL's launchers pass by. Times are taken as under
``device``: torch for ROCm answers to ``torch.cuda``, events and graphs included. No AMD GPU has run this yet.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernel_lint.verify.backends import BackendContext, BackendUnavailableError, Observer
from kernel_lint.verify.backends.compile import CompileObserver
from kernel_lint.verify.backends.flydsl import COMPILER_MODULES, flydsl_environment, require_flydsl


class RocmBackend:
    """See the module's docstring; the protocol is :class:`kernel_lint.verify.backends.Backend`."""

    name = "rocm"

    def stages(self) -> frozenset[str]:
        """Return all stages."""
        return frozenset({"compile", "correctness", "integrity", "performance"})

    def limitation(self) -> str:
        """Say why there are no times: only when they are switched off."""
        return "times were switched off (-O timing=off)"

    def times(self, options: Mapping[str, str]) -> bool:
        """Take times with device events, on the device only."""
        return self.device(options) != "cpu"

    def check(self) -> None:
        """Raise when torch for ROCm, FlyDSL or the GPU is missing."""
        require_flydsl()
        import torch

        if not torch.version.hip or not torch.cuda.is_available():
            raise BackendUnavailableError(
                f"torch {torch.__version__} sees no AMD GPU",
                "run where an AMD GPU and torch for ROCm are present, or use --backend emulate",
            )

    def default_targets(self) -> tuple[str, ...]:
        """Return the architecture of the first GPU; CDNA3 where none can be asked."""
        if importlib.util.find_spec("torch") is None:
            return ("gfx942",)
        import torch

        if not torch.version.hip or not torch.cuda.is_available():
            return ("gfx942",)
        return (str(torch.cuda.get_device_properties(0).gcnArchName).split(":", 1)[0],)

    def device(self, options: Mapping[str, str]) -> str:
        """Return ``cuda``, which is what torch calls a ROCm device."""
        return options.get("device", "cuda")

    def describe(self, target: str) -> str:
        """Return the target and that it was real."""
        return f"run on {target}"

    def preload(self) -> tuple[str, ...]:
        """Return FlyDSL's modules; the GPU must not be touched before the fork, and is not."""
        return COMPILER_MODULES

    def environment(self, context: BackendContext) -> dict[str, str]:
        """Return FlyDSL's settings for the target."""
        return flydsl_environment(context)

    def readable(self) -> tuple[Path, ...]:
        """Return nothing beyond the libraries and the device's own paths."""
        return ()

    def install(self, context: BackendContext) -> Observer:
        """Hook FlyDSL's launchers in this process."""
        observer = DeviceObserver(context.target)
        observer.hook(link=True)
        observer.hook_compiled_calls()
        return observer


class DeviceObserver(CompileObserver):
    """Counts launches that really happen, and waits for them."""

    def hook_compiled_calls(self) -> None:
        """Count calls of launchers that ``flyc.compile`` returned, where the release has them."""
        from flydsl.compiler import jit_function

        compiled = getattr(jit_function, "CompiledFunction", None)
        if compiled is None:
            return
        original = compiled.__call__

        def call_and_count(function: Any, *args: Any) -> Any:
            self._note_launch("compiled")
            return original(function, *args)

        compiled.__call__ = call_and_count

    def synchronize(self) -> None:
        """Wait for the device."""
        import torch

        torch.cuda.synchronize()


BACKEND = RocmBackend()
