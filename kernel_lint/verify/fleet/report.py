"""The outcome of a fleet, and its JSON form (``docs/schemas/fleet.schema.json``)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from kernel_lint import __version__
from kernel_lint.diagnostics import StageStatus
from kernel_lint.verify.backends import load_backend
from kernel_lint.verify.report import VerifyReport

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class FleetReport:
    """Every candidate's report, in the order in which they were named.

    ``executor`` says who judged; ``judged`` counts the tasks of this run, ``resumed`` those that an
    interrupted one had finished, ``retried`` those of which the executor tells that a worker was lost (what
    Ray tries again by itself it does not tell). Candidates with the same text and the same task share
    their tasks. ``finished`` False: the run has not reached its end.
    """

    reports: tuple[VerifyReport, ...]
    executor: str = ""
    judged: int = 0
    resumed: int = 0
    retried: int = 0
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    finished: bool = True

    @property
    def exit_code(self) -> int:
        """0 when every candidate passed; 2 when a task or the machine was at fault anywhere; else 1."""
        if not self.finished or not self.reports:
            return 1
        return max(report.exit_code for report in self.reports)

    @property
    def counts(self) -> dict[str, int]:
        """How many candidates have each verdict."""
        return dict(sorted(Counter(str(report.verdict.value) for report in self.reports).items()))

    @property
    def headline(self) -> str:
        """The outcome in one line."""
        if not self.finished:
            return "INCOMPLETE: the run has not finished"
        counts = ", ".join(f"{count} {verdict}" for verdict, count in self.counts.items())
        resumed = f" and {self.resumed} taken from the interrupted run" if self.resumed else ""
        again = (
            f", {self.retried} of them more than once because their worker was lost" if self.retried else ""
        )
        return f"{counts}; {self.judged} tasks judged{again}{resumed}, in {self.seconds:.1f} s"

    def to_json(self) -> dict[str, Any]:
        """Return the report as its JSON object."""
        return {
            "schema_version": SCHEMA_VERSION,
            "kernel_lint": __version__,
            "finished": self.finished,
            "exit_code": self.exit_code,
            "headline": self.headline,
            "executor": self.executor,
            "counts": self.counts,
            "tasks": {"judged": self.judged, "resumed": self.resumed, "retried": self.retried},
            "seconds": round(self.seconds, 3),
            "notes": list(self.notes),
            "candidates": [report.to_json() for report in self.reports],
        }


def shapes_passed(report: VerifyReport) -> int:
    """Return how many of a report's shapes have every required stage passed on every target."""
    required = load_backend(report.backend).stages() - {"performance"}
    passed = {(r.stage, r.shape, r.target) for r in report.stages if r.status is StageStatus.PASSED}
    bad = {r.shape for r in report.stages if r.status in (StageStatus.FAILED, StageStatus.ERROR)}
    return sum(
        shape not in bad
        and all((stage, shape, target) in passed for stage in required for target in report.targets)
        for shape in report.shapes
    )
