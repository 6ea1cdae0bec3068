"""Backend ``emulate``: the candidate's kernels run in :mod:`kernel_lint.emulator`, without an AMD GPU.

Numbers, launches and what a GPU hides (accesses out of bounds, races, uninitialised reads, barriers in
divergent flow) are judged; time is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kernel_lint.errors import KernelLintError
from kernel_lint.verify.backends import (
    BackendContext,
    BackendUnavailableError,
    Finding,
    Observation,
    Observer,
)
from kernel_lint.verify.backends.flydsl import (
    EMULATOR_MODULES,
    flydsl_environment,
    observed,
    require_flydsl,
)

if TYPE_CHECKING:
    from kernel_lint.emulator.findings import Finding as EmulatorFinding
    from kernel_lint.emulator.session import Session


class EmulateBackend:
    """See the module's docstring; the protocol is :class:`kernel_lint.verify.backends.Backend`.

    Options (``-O key=value``): ``device`` (``cpu`` or ``cuda``), ``checks`` (``all``, ``none`` or names
    separated
    by commas), ``load_errors`` (``1`` counts buffer loads past a tensor as errors).
    """

    name = "emulate"
    # It can let launches pass without running them.
    skips_launches = True
    # Seconds for one call: interpreting takes far longer than a GPU.
    default_timeout = 300.0

    def stages(self) -> frozenset[str]:
        """Return everything but performance."""
        return frozenset({"compile", "correctness", "integrity"})

    def limitation(self) -> str:
        """Say why there is no time."""
        return "an emulated kernel's time says nothing about a GPU; measure with --backend rocm"

    def check(self) -> None:
        """Raise when FlyDSL or torch is missing."""
        require_flydsl()

    def check_options(self, targets: tuple[str, ...], options: Mapping[str, str]) -> None:
        """Raise :class:`KernelLintError` for a target or an option that the emulator does not know.

        Raises :class:`BackendUnavailableError` for a device that this machine lacks.
        """
        from kernel_lint.emulator.options import EmulatorOptions

        for target in targets:
            EmulatorOptions(target, checks=options.get("checks", "all"))
        device = self.device(options)
        if device.partition(":")[0] not in ("cpu", "cuda"):
            raise KernelLintError(f"the emulator has no device {device!r}", "choose -O device=cpu or cuda")
        if device != "cpu":
            import torch

            if not torch.cuda.is_available():
                raise BackendUnavailableError(
                    f"torch {torch.__version__} sees no GPU for -O device={device}",
                    "leave it out to emulate on the CPU",
                )

    def default_targets(self) -> tuple[str, ...]:
        """Return CDNA3."""
        return ("gfx942",)

    def device(self, options: Mapping[str, str]) -> str:
        """Return the torch device that emulates."""
        return options.get("device", "cpu")

    def describe(self, target: str) -> str:
        """Return ``emulated gfx942``."""
        return f"emulated {target}"

    def preload(self) -> tuple[str, ...]:
        """Return FlyDSL's modules and the emulator's; importing them starts no thread."""
        return EMULATOR_MODULES

    def environment(self, context: BackendContext) -> dict[str, str]:
        """Return FlyDSL's settings for the target, and one torch thread: more are slower on small
        operations."""
        return {**flydsl_environment(context), "OMP_NUM_THREADS": "1"}

    def readable(self) -> tuple[Path, ...]:
        """Return nothing beyond the libraries."""
        return ()

    def install(self, context: BackendContext) -> Observer:
        """Hook the emulator into FlyDSL in this process."""
        from kernel_lint.emulator import EmulatorOptions, install
        from kernel_lint.emulator.registry import load_all
        from kernel_lint.verify.backends.standin import install_cuda_standins

        device = self.device(context.options)
        if device == "cpu":
            install_cuda_standins(context.target)
        load_all()
        options = EmulatorOptions(
            target=context.target,
            device=device,
            checks=context.options.get("checks", "all"),
            load_errors=context.options.get("load_errors", "0") == "1",
        )
        return EmulateObserver(install(options), context.target)


class EmulateObserver:
    """Reports what the session collected between two calls."""

    def __init__(self, session: Session, target: str) -> None:
        self._session, self._target = session, target

    def begin(self) -> None:
        """Forget what was seen so far."""
        self._session.clear()

    def idle(self, on: bool) -> None:
        """Note launches and run no kernel, until told otherwise."""
        self._session.idle = on

    def synchronize(self) -> None:
        """Return at once: a launch has finished when it returns."""

    def end(self) -> Observation:
        """Return the launches and findings since :meth:`begin`."""
        return observed(self._session.launches, self._target, map(_finding, self._session.found()))


def _finding(found: EmulatorFinding) -> Finding:
    evidence = found.to_json()
    data = {key: evidence[key] for key in ("workgroup", "lane", "address", "buffer", "count", "chain")}
    fatal = found.severity.value == "error"
    return Finding(
        found.reason,
        found.message,
        found.kernel,
        found.place.file or None,
        found.place.line or None,
        fatal,
        data,
    )


BACKEND = EmulateBackend()
