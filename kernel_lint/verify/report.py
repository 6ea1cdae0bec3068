"""The outcome of a verify run, and its JSON form (``docs/schemas/verify.schema.json``)."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

from kernel_lint import __version__
from kernel_lint.diagnostics import Reason, StageResult, StageStatus
from kernel_lint.verify.wording import counted, visible

SCHEMA_VERSION = 1
STAGES = ("lint", "import", "signature", "compile", "correctness", "integrity", "performance")
# Whose fault it is decides the exit code: these are not the candidate's.
_NOT_THE_CANDIDATE = (Reason.HARNESS_ERROR, Reason.ENV_ERROR, Reason.INVALID_TASK)
# Of several failures the one that explains the others comes first.
_WEIGHTIEST = (
    Reason.INVALID_TASK,
    Reason.HARNESS_ERROR,
    Reason.ENV_ERROR,
    Reason.TAMPERING,
    Reason.FILE_ACCESS,
    Reason.OUT_OF_BOUNDS,
    Reason.INPUT_MUTATED,
)


class Verdict(str, enum.Enum):
    """The word at the end. Only ``PASS`` and ``COMPILED`` exit with 0.

    ``COMPILED`` is what a backend that runs nothing can say; ``INCOMPLETE`` what a report
    says until its run has finished.
    """

    PASS = "PASS"
    COMPILED = "COMPILED"
    FAIL = "FAIL"
    ERROR = "ERROR"
    INVALID_TASK = "INVALID_TASK"
    INCOMPLETE = "INCOMPLETE"


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """Everything that a run found out; all of it plain data."""

    verdict: Verdict
    candidate: str
    task: str
    backend: str
    description: str
    targets: tuple[str, ...]
    shapes: tuple[str, ...]
    stages: tuple[StageResult, ...]
    tolerance: str = "calibrated"
    isolation: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    relaxed: tuple[str, ...] = ()
    replay: str = ""
    seconds: float = 0.0

    @property
    def exit_code(self) -> int:
        """0 when everything required passed, 1 when the candidate failed, 2 for all else."""
        if self.verdict in (Verdict.PASS, Verdict.COMPILED):
            return 0
        return 1 if self.verdict in (Verdict.FAIL, Verdict.INCOMPLETE) else 2

    @property
    def passed(self) -> bool:
        """Whether the candidate was found right (``PASS``)."""
        return self.verdict is Verdict.PASS

    @property
    def failure(self) -> StageResult | None:
        """The stage result that best explains why the run did not pass."""
        failures = [r for r in self.stages if r.status in (StageStatus.FAILED, StageStatus.ERROR)]
        if self.verdict is Verdict.FAIL:
            failures = [r for r in failures if r.reason not in _NOT_THE_CANDIDATE]
        for reason in _WEIGHTIEST:
            for result in failures:
                if result.reason is reason:
                    return result
        return failures[0] if failures else None

    @property
    def reason(self) -> Reason | None:
        """The typed reason of :attr:`failure`."""
        return self.failure.reason if self.failure else None

    @property
    def headline(self) -> str:
        """The verdict in one sentence, fit for a terminal."""
        return visible(self._headline())

    def _headline(self) -> str:
        failure = self.failure
        if failure is not None:
            where = f" (shape {failure.shape})" if failure.shape else ""
            if failure.reason is Reason.INVALID_TASK:
                # The message names file and field; in which stage that came out is no help.
                named = not failure.shape or f'"{failure.shape}"' in failure.message
                return f"{self.verdict.value}: {failure.message}{'' if named else where}"
            reason = str(failure.reason.value if failure.reason else failure.status.value)
            return f"{self.verdict.value}: {failure.stage}{where}: {reason}: {failure.message}"
        if self.verdict is Verdict.PASS:
            shapes = counted(len(self.shapes), "shape")
            return f"PASS: correct on {shapes}; {self.description}{self._unmeasured()}{self._untold()}"
        if self.verdict is Verdict.COMPILED:
            return f"COMPILED: {self.description}; correctness and performance UNMEASURED"
        return str(self.verdict.value)

    def _unmeasured(self) -> str:
        measured = any(r.stage == "performance" and r.status is StageStatus.PASSED for r in self.stages)
        return "" if measured else "; performance UNMEASURED"

    def _untold(self) -> str:
        """Say where nothing but zeros was asked for: that is no evidence of a right kernel."""
        shapes = [str(r.shape) for r in self.stages if r.stage == "correctness" and r.data.get("untold")]
        if not shapes:
            return ""
        return f"; not told from zeros in shape {', '.join(dict.fromkeys(shapes))}"

    def to_json(self) -> dict[str, Any]:
        """Return the report as its JSON object."""
        return {
            "schema_version": SCHEMA_VERSION,
            "kernel_lint": __version__,
            "verdict": self.verdict.value,
            "exit_code": self.exit_code,
            "reason": self.reason.value if self.reason else None,
            "headline": self.headline,
            "candidate": self.candidate,
            "task": self.task,
            "backend": self.backend,
            "description": self.description,
            "targets": list(self.targets),
            "shapes": list(self.shapes),
            "tolerance": self.tolerance,
            "stages": [result.to_json() for result in self.stages],
            "isolation": self.isolation,
            "environment": self.environment,
            "notes": list(self.notes),
            "relaxed": list(self.relaxed),
            "replay": self.replay,
            "seconds": round(self.seconds, 3),
        }


def decide(
    stages: tuple[StageResult, ...],
    shapes: tuple[str, ...],
    required: frozenset[str],
    targets: tuple[str, ...],
) -> Verdict:
    """Return the verdict: every required stage passed on every shape and target, or not.

    A shape that a required stage says nothing about is a failure of the run.
    """
    bad = [r for r in stages if r.status in (StageStatus.FAILED, StageStatus.ERROR)]
    if any(r.reason is Reason.INVALID_TASK for r in bad):
        return Verdict.INVALID_TASK
    if bad:
        faults = [r for r in bad if r.reason not in _NOT_THE_CANDIDATE]
        return Verdict.FAIL if faults else Verdict.ERROR
    passed = {(r.stage, r.shape, r.target) for r in stages if r.status is StageStatus.PASSED}
    for stage in required:
        if any((stage, shape, target) not in passed for shape in shapes for target in targets):
            return Verdict.FAIL
    if not shapes or any((stage, None, None) not in passed for stage in ("import", "signature")):
        return Verdict.FAIL
    return Verdict.PASS if "correctness" in required else Verdict.COMPILED
