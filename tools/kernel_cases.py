"""The cases of a kernel test, and what a verify report says about one of them.

A case is one shape under one seed; the base seed also runs each shape's variants (strided and offset
layouts, scaled, constant, tiny and huge values).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

PASS, FAIL, ERROR, TIMEOUT_FAIL = "PASS", "FAIL", "ERROR", "TIMEOUT_FAIL"


@dataclass(frozen=True, slots=True)
class Case:
    """One case to run."""

    name: str
    shape: str
    seed: int
    variants: bool = False


@dataclass(frozen=True, slots=True)
class CaseResult:
    """How a case ended.

    ``rel_err`` is ``||out - ref|| / ||ref||`` of the output that comes nearest to its limit, ``threshold``
    that limit; ``checks`` counts the draws and variants compared. ``data`` keeps launches, kernels and times.
    """

    name: str
    shape: str
    seed: int
    status: str
    rel_err: float | None = None
    threshold: float | None = None
    checks: int = 0
    reason: str | None = None
    message: str = ""
    seconds: float = 0.0
    data: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the result as it stands in RESULT_JSON."""
        return {key: value for key, value in asdict(self).items() if key != "data"}


def base_cases(shapes: list[str], seed: int) -> list[Case]:
    """Return the cases of the full-workload run: every shape, then every shape's variants."""
    plain = [Case(shape, shape, seed) for shape in shapes]
    return plain + [Case(f"{shape}/variants", shape, seed, variants=True) for shape in shapes]


def seed_cases(shapes: list[str], seed: int, count: int) -> list[Case]:
    """Return the cases of ``count`` further seeds."""
    seeds = range(seed + 1, seed + 1 + count)
    return [Case(f"{shape}/seed {number}", shape, number) for number in seeds for shape in shapes]


def interpret(case: Case, report: dict[str, Any], seconds: float) -> CaseResult:
    """Read a verify report on one case."""
    stages = [stage for stage in report["stages"] if stage["shape"] in (None, case.shape)]
    errors = list(_norms(stages))
    nearest = max(errors, key=lambda pair: pair[0] / pair[1] if pair[1] else pair[0], default=None)
    error, threshold = nearest or (None, None)
    bad = next((stage for stage in stages if stage["status"] in ("failed", "error")), None)
    status = PASS if report["verdict"] == "PASS" else _status(bad)
    reason = bad["reason"] if bad else (None if status == PASS else report["verdict"])
    message = bad["message"] if bad else ("" if status == PASS else report["headline"])
    data = {stage["stage"]: stage["data"] for stage in stages if stage["stage"] in ("compile", "performance")}
    data["launches"] = _launches(stages)
    checks = sum(len(stage["data"].get("cases", ())) for stage in stages if stage["stage"] == "correctness")
    place = (case.name, case.shape, case.seed)
    return CaseResult(*place, status, error, threshold, checks, reason, message, round(seconds, 3), data)


def timed_out(case: Case, limit: float) -> CaseResult:
    """Return the result of a case that ran past its limit."""
    message = f"ran past its limit of {limit:g} s and was ended"
    return CaseResult(
        case.name, case.shape, case.seed, TIMEOUT_FAIL, None, None, 0, "TIMEOUT", message, limit
    )


def broken(case: Case, why: str, seconds: float) -> CaseResult:
    """Return the result of a case that could not be run through no fault of the kernel."""
    place = (case.name, case.shape, case.seed)
    return CaseResult(*place, ERROR, reason="HARNESS_ERROR", message=why, seconds=round(seconds, 3))


def _status(bad: dict[str, Any] | None) -> str:
    if bad is not None and bad["reason"] == "TIMEOUT":
        return TIMEOUT_FAIL
    return FAIL if bad is not None and bad["status"] == "failed" else ERROR


def _norms(stages: list[dict[str, Any]]) -> Iterator[tuple[float, float]]:
    """Yield every output's rel_err and threshold."""
    for stage in stages:
        for case in stage["data"].get("cases", ()) if stage["stage"] == "correctness" else ():
            for leaf in case.get("leaves", ()):
                error, threshold = leaf.get("rel_err"), leaf.get("rel_err_threshold")
                if isinstance(error, (int, float)) and isinstance(threshold, (int, float)):
                    yield float(error), float(threshold)


def _launches(value: Any) -> list[dict[str, Any]]:
    """Find the launches that a report's evidence lists, at whatever depth, each once."""
    found: list[dict[str, Any]] = []
    if isinstance(value, list):
        for item in value:
            found += [launch for launch in _launches(item) if launch not in found]
    elif isinstance(value, dict):
        if "kernel" in value and value.get("grid"):
            return [{key: value.get(key) for key in ("kernel", "grid", "block")}]
        for item in value.values():
            found += [launch for launch in _launches(item) if launch not in found]
    return found
