"""What a baseline must show before it is committed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kernel_lint.tools.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Check:
    """One check; ``passed`` is None where it could not be made, which does not fail the gate."""

    name: str
    passed: bool | None
    detail: str


def check(
    workspace: Workspace, base: dict[str, Any], seeds: dict[str, Any] | None, wanted_seeds: int
) -> list[Check]:
    """Return the gate's checks in order."""
    return [
        _correct("base seed", base),
        _norm(base),
        _timeouts(base, seeds),
        _further_seeds(seeds, wanted_seeds),
        _launched(base),
        _measured(workspace, base),
    ]


def _correct(name: str, run: dict[str, Any]) -> Check:
    counts = run["counts"]
    bad = [case for case in run["cases"] if case["status"] != "PASS"]
    detail = f"{counts['PASS']} of {len(run['cases'])} cases passed"
    if bad:
        detail += f"; first: {bad[0]['name']}: {bad[0]['status']}: {bad[0]['message']}"
    return Check(name, run["passed"], detail)


def _norm(base: dict[str, Any]) -> Check:
    """Every output's rel_err lies under its dtype's limit (B2)."""
    judged = [case for case in base["cases"] if case["rel_err"] is not None]
    if not judged:
        return Check("rel_err", None, "no case compares floating-point outputs")
    over = [case for case in judged if case["rel_err"] >= case["threshold"]]
    worst = max(judged, key=lambda case: case["rel_err"] / case["threshold"])
    return Check(
        "rel_err", not over, f"largest against its limit: {worst['rel_err']:.3g} under {worst['threshold']:g}"
    )


def _timeouts(base: dict[str, Any], seeds: dict[str, Any] | None) -> Check:
    late = [*base["timeouts"], *(seeds["timeouts"] if seeds else [])]
    return Check("no TIMEOUT_FAIL", not late, ", ".join(late) or "none")


def _further_seeds(seeds: dict[str, Any] | None, wanted: int) -> Check:
    if seeds is None:
        why = "not run: the base seed did not pass" if wanted else "not asked for (--multi-seed 0)"
        return Check("further seeds", None, why)
    return _correct("further seeds", seeds)


def _launched(base: dict[str, Any]) -> Check:
    """The engine fails a case that launches nothing; here it is only said what was launched."""
    if not base["launches"]:
        return Check("kernels launched", None, f"the backend {base['backend']} reports no launches")
    names = sorted({launch["kernel"] for launch in base["launches"]})
    return Check("kernels launched", True, ", ".join(names))


def _measured(workspace: Workspace, base: dict[str, Any]) -> Check:
    if base["performance"] is None:
        return Check("performance", None, f"UNMEASURED: no {workspace.gpu.name} here, and no time is made up")
    latency = base["performance"]["latency_us"]
    return Check(
        "performance", latency is not None, f"{latency} us" if latency is not None else "a shape has no time"
    )
