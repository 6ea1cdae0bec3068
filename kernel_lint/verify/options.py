"""The settings of a verify run; what the command line's options become."""

from __future__ import annotations

import difflib
import importlib.metadata
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from kernel_lint import __version__
from kernel_lint.errors import KernelLintError
from kernel_lint.verify.isolation import Limits

# Draws per shape; fewer than this could be learned by heart (DESIGN: at least 5).
DEFAULT_SEEDS = 5
# The contract's limit for one case (clause B3).
DEFAULT_TIMEOUT = 30.0
# The task is trusted and may be slow (large inputs, float64): this keeps a hung one from hanging the judge.
DEFAULT_TASK_TIMEOUT = 300.0
# The share of the reference's work that torch operators may do as "glue" (clause P2).
DEFAULT_TORCH_SHARE = 0.05
# What -O may set: of the backends, and of the measurement of times (docs/performance.md).
BACKEND_OPTIONS = frozenset(
    ("device", "checks", "load_errors", "timing", "rounds", "samples", "compiled", "flops", "bytes")
)
# Lint is run again each time.
_NOT_DECISIVE = ("progress", "resume", "state_dir", "keep", "seed", "shapes", "lint")


def _silent(_message: str) -> None:
    """Report no progress."""


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """How to verify.

    ``targets`` empty means the backend's own. ``timeout`` bounds, in seconds, each thing that
    is asked of the candidate (construction, one forward call); None means the backend's own
    limit. ``task_timeout`` does the same for what is asked of the task (its import, the draws of a
    shape, one call of the reference with its float64 runs). ``seed`` makes all draws replayable; by
    default it is secret and new.
    ``framework`` is the kernel language that the linter expects, None what the configuration says.
    ``require_launch`` False, for candidates that are ordinary torch modules, is written into
    the report. ``nondeterministic`` declares that two runs may differ in bits. ``threads`` is
    torch's number of CPU threads in each worker.
    """

    backend: str = "compile"
    targets: tuple[str, ...] = ()
    tolerance: str = "calibrated"
    seeds: int = DEFAULT_SEEDS
    seed: int = field(default_factory=lambda: secrets.randbits(63))
    shapes: tuple[str, ...] = ()
    variants: bool = True
    timeout: float | None = None
    import_timeout: float = 60.0
    task_timeout: float = DEFAULT_TASK_TIMEOUT
    lint: bool = True
    framework: str | None = None
    require_launch: bool = True
    torch_share: float = DEFAULT_TORCH_SHARE
    nondeterministic: bool = False
    isolate: bool = True
    threads: int = 1
    limits: Limits = field(default_factory=Limits)
    backend_options: dict[str, str] = field(default_factory=dict)
    resume: bool = False
    state_dir: Path | None = None
    keep: Path | None = None
    progress: Callable[[str], None] = _silent

    def __post_init__(self) -> None:
        for name in ("timeout", "import_timeout", "task_timeout"):
            seconds = getattr(self, name)
            if seconds is not None and not seconds > 0:
                raise KernelLintError(f"{name} is {seconds}: no number of seconds", "give a positive number")
        for name in self.backend_options:
            if name not in BACKEND_OPTIONS:
                near = difflib.get_close_matches(name, BACKEND_OPTIONS, 1)
                hint = (
                    f"did you mean {near[0]}?"
                    if near
                    else f"choose among {', '.join(sorted(BACKEND_OPTIONS))}"
                )
                raise KernelLintError(f"no backend has an option {name!r} (-O)", hint)
        if abs(self.seed) >= 1 << 127:
            raise KernelLintError("the seed has more than 127 bits", "give one that an earlier run printed")
        if self.keep is not None and self.keep.exists() and not self.keep.is_dir():
            raise KernelLintError(f"{self.keep} is not a folder", "name a folder: --keep DIR")

    @property
    def call_seconds(self) -> float:
        """The limit of one call, settled."""
        return DEFAULT_TIMEOUT if self.timeout is None else self.timeout

    def identity(self) -> dict[str, Any]:
        """Return what decides the outcome of a shape, for the key under which finished shapes are kept.

        All settings but those that say where things go or which shapes to judge, and the versions of the
        packages that judge and run.
        """
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {
            "kernel_lint": __version__,
            **{name: _version(name) for name in ("torch", "flydsl")},
            **{name: value for name, value in values.items() if name not in _NOT_DECISIVE},
            "limits": asdict(self.limits),
        }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
