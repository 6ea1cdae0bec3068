"""What every backend that runs FlyDSL sets up: modules, environment, and the report of launches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from kernel_lint.verify.backends import (
    MAXIMUM_LISTED,
    Artifact,
    BackendContext,
    Finding,
    Launch,
    Observation,
    require_modules,
)

# Importing them starts no thread and touches no GPU.
COMPILER_MODULES = ("torch", "flydsl.compiler", "flydsl.expr")
EMULATOR_MODULES = (*COMPILER_MODULES, "kernel_lint.emulator", "kernel_lint.emulator.registry")


class _Launched(Protocol):
    @property
    def kernel(self) -> str: ...

    @property
    def grid(self) -> tuple[int, int, int]: ...

    @property
    def block(self) -> tuple[int, int, int]: ...


def require_flydsl() -> None:
    """Raise :class:`BackendUnavailableError` when FlyDSL or what it runs with is missing.

    numpy is among them: FlyDSL's wheel needs it and does not declare it.
    """
    require_modules("torch", "flydsl", "numpy")


def flydsl_environment(context: BackendContext) -> dict[str, str]:
    """Return FlyDSL's settings (``flydsl/utils/env.py``): the architecture, and caches inside ``scratch``."""
    return {
        "ARCH": context.target,
        "FLYDSL_GPU_ARCH": context.target,
        "FLYDSL_RUNTIME_ENABLE_CACHE": "0",
        "FLYDSL_RUNTIME_CACHE_DIR": str(context.scratch / "flydsl-cache"),
        "FLYDSL_DUMP_DIR": str(context.scratch / "flydsl-dump"),
        "FLYDSL_AUTOTUNE_CACHE_DIR": str(context.scratch / "flydsl-autotune"),
    }


def observed(launches: Sequence[_Launched], target: str, findings: Iterable[Finding] = ()) -> Observation:
    """Return an observation of launches of whose kernels only the names are known."""
    kernels = dict.fromkeys(launch.kernel for launch in launches)
    return Observation(
        tuple(Artifact(kernel, target) for kernel in kernels),
        tuple(Launch(x.kernel, x.grid, x.block) for x in launches[:MAXIMUM_LISTED]),
        len(launches),
        tuple(findings),
    )
