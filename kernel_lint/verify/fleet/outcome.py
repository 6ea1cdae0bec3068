"""What a task came to, as the worker says it and the journal keeps it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

from kernel_lint.diagnostics import Reason, StageResult, StageStatus
from kernel_lint.verify.report import Verdict, VerifyReport

# Faults of the machine or of ours: no verdict, so a run that goes on tries them again.
NOT_FINAL = (Reason.HARNESS_ERROR, Reason.ENV_ERROR)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The stage results of one task. ``place`` says where it was judged; ``lost`` how each worker
    ended that took it and did not come back."""

    key: str
    stages: tuple[StageResult, ...]
    isolation: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    place: str = ""
    lost: tuple[str, ...] = ()

    @property
    def final(self) -> bool:
        """Whether it is a verdict on the candidate or the task, and not a fault of the machine."""
        return not any(stage.reason in NOT_FINAL for stage in self.stages)

    @property
    def failure(self) -> StageResult | None:
        """The first stage that failed, if any."""
        bad = (StageStatus.FAILED, StageStatus.ERROR)
        return next((stage for stage in self.stages if stage.status in bad), None)

    @property
    def opens_shapes(self) -> bool:
        """Whether an outcome of the file as a whole lets the shapes have their turn."""
        passed = {stage.stage for stage in self.stages if stage.status is StageStatus.PASSED}
        return {"import", "signature"} <= passed

    def as_report(self) -> VerifyReport:
        """Return the part of a report that it stands for."""
        return VerifyReport(
            Verdict.INCOMPLETE, "", "", "", "", (), (), self.stages,
            isolation=self.isolation, environment=self.environment, notes=self.notes, seconds=self.seconds,
        )  # fmt: skip

    def to_text(self) -> str:
        """Return it as one line of JSON."""
        value = {
            "key": self.key,
            "stages": [stage.to_json() for stage in self.stages],
            "isolation": self.isolation,
            "notes": self.notes,
            "environment": self.environment,
            "seconds": round(self.seconds, 3),
            "place": self.place,
            "lost": self.lost,
        }
        return json.dumps(value, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> Outcome:
        """Undo :meth:`to_text`; raises ValueError, KeyError or TypeError for anything else."""
        value = json.loads(text)
        return cls(
            str(value["key"]),
            tuple(map(_stage, value["stages"])),
            dict(value["isolation"]),
            tuple(value["notes"]),
            dict(value["environment"]),
            float(value["seconds"]),
            str(value["place"]),
            tuple(value["lost"]),
        )


def _stage(value: dict[str, Any]) -> StageResult:
    reason = Reason(value["reason"]) if value["reason"] else None
    status = StageStatus(value["status"])
    where = (value["shape"], value["target"])
    return StageResult(
        value["stage"], status, *where, reason, value["message"], value["seconds"], dict(value["data"])
    )


def slim(stage: StageResult) -> StageResult:
    """Leave out the comparison of each case that matched: of 16 kB a shape only a line is of use later."""
    if stage.status is not StageStatus.PASSED or "cases" not in stage.data:
        return stage
    return replace(stage, data={k: v for k, v in stage.data.items() if k != "cases"})
