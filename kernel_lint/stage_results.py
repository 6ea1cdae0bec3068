"""What the stages of packaging and verifying say; :mod:`kernel_lint.diagnostics` offers it too.

It stands apart because linting, which starts more often than anything, has no need of it.
"""

from __future__ import annotations

import enum

from kernel_lint import TYPE_CHECKING
from kernel_lint.records import dataclass, field

if TYPE_CHECKING:
    from typing import Any


class StageStatus(str, enum.Enum):
    """How a stage ended. Only ``passed`` is a pass; ``skipped`` says why in its message."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    ERROR = "error"


class Reason(str, enum.Enum):
    """Why a stage did not pass; the machine-readable half of a :class:`StageResult`."""

    SYNTAX = "SYNTAX"
    LINT = "LINT"
    IMPORT_ERROR = "IMPORT_ERROR"
    SIGNATURE = "SIGNATURE"
    COMPILE_ERROR = "COMPILE_ERROR"
    RUNTIME_ERROR = "RUNTIME_ERROR"
    CRASH = "CRASH"
    TIMEOUT = "TIMEOUT"
    OOM = "OOM"
    STRUCTURE = "STRUCTURE"
    DTYPE = "DTYPE"
    SHAPE = "SHAPE"
    DEVICE = "DEVICE"
    VALUE = "VALUE"
    NONFINITE = "NONFINITE"
    INPUT_MUTATED = "INPUT_MUTATED"
    NONDETERMINISTIC = "NONDETERMINISTIC"
    UNWRITTEN = "UNWRITTEN"
    OUT_OF_BOUNDS = "OUT_OF_BOUNDS"
    UNINITIALIZED = "UNINITIALIZED"
    MISALIGNED = "MISALIGNED"
    BARRIER = "BARRIER"
    RACE = "RACE"
    NO_LAUNCH = "NO_LAUNCH"
    TORCH_COMPUTE = "TORCH_COMPUTE"
    FILE_ACCESS = "FILE_ACCESS"
    TAMPERING = "TAMPERING"
    INVALID_TIMING = "INVALID_TIMING"
    HARNESS_ERROR = "HARNESS_ERROR"
    ENV_ERROR = "ENV_ERROR"
    INVALID_TASK = "INVALID_TASK"
    UNMEASURED = "UNMEASURED"


@dataclass(frozen=True, slots=True)
class StageResult:
    """What one stage found out about one shape (or about the file, when ``shape`` is None).

    ``data`` holds the evidence as plain JSON values: registers, errors, times...
    """

    stage: str
    status: StageStatus
    shape: str | None = None
    target: str | None = None
    reason: Reason | None = None
    message: str = ""
    seconds: float = 0.0
    data: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the result as its JSON object."""
        return {
            "stage": self.stage,
            "status": self.status.value,
            "shape": self.shape,
            "target": self.target,
            "reason": self.reason.value if self.reason else None,
            "message": self.message,
            "seconds": round(self.seconds, 6),
            "data": self.data,
        }
