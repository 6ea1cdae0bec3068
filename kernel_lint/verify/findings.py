"""The integrity stage: what was seen around the candidate's calls, weighed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernel_lint.diagnostics import Reason, StageResult
from kernel_lint.verify.options import VerifyOptions
from kernel_lint.verify.protocol import Reply
from kernel_lint.verify.stages import failed, passed

if TYPE_CHECKING:
    from kernel_lint.verify.cases import CaseRunner

# A misaligned vector access is the candidate's fault only on memory that the task lays out so.
_LAYOUT_NOTES = frozenset({Reason.MISALIGNED.value})
_LISTED = 20


def integrity_stage(shape: str, runner: CaseRunner, options: VerifyOptions) -> StageResult:
    """Return the integrity stage of one shape; the weightiest finding gives the reason."""
    allowed = runner.reference_changes
    found = [item for label, reply in runner.replies for item in _of_reply(label, reply, allowed)]
    completed = [reply for _label, reply in runner.replies if reply.ok]
    found += _of_launches(completed, options)
    found += _of_repeats([reply for reply in completed if reply not in runner.repeats], runner.repeats)
    share, compute = _torch_compute(completed, runner.reference_work, options)
    found += compute
    if runner.idle_kernels and not compute:
        found.append((Reason.NO_LAUNCH, runner.idle_kernels))
    if runner.nondeterministic and not options.nondeterministic:
        found.append((Reason.NONDETERMINISTIC, runner.nondeterministic))
    data: dict[str, Any] = {
        "launches": [reply.data.get("observation", {}).get("launch_count", 0) for reply in completed],
        "grids": _grids(completed),
        "operators": _operators(completed),
        "torch_share": share,
        "reference_work": runner.reference_work,
        "deterministic": not runner.nondeterministic,
        "notes": sorted(
            {note for _label, reply in runner.replies for note in (*_notes(reply), *_allowed(reply, allowed))}
        ),
    }
    if not found:
        remarks = dict.fromkeys(text for reply in completed for text in _remarks(reply))
        return passed("integrity", shape, None, "; ".join([_praise(data), *remarks]), **data)
    found.sort(key=lambda item: _ORDER.index(item[0]) if item[0] in _ORDER else len(_ORDER))
    data["findings"] = [{"reason": r.value, "message": m} for r, m in dict.fromkeys(found)][:_LISTED]
    reason, message = found[0]
    more = len(data["findings"]) - 1
    return failed(
        "integrity", reason, message + (f" (and {more} more findings)" if more else ""), shape, **data
    )


def _grids(completed: list[Reply]) -> list[dict[str, Any]]:
    """Return the first call's distinct launches: kernel, grid and block."""
    launches = completed[0].data.get("observation", {}).get("launches", []) if completed else []
    distinct = {str(launch): launch for launch in launches if isinstance(launch, dict)}
    return list(distinct.values())[:_LISTED]


# The finding that explains the others first.
_ORDER = (
    Reason.TAMPERING,
    Reason.FILE_ACCESS,
    Reason.OUT_OF_BOUNDS,
    Reason.INPUT_MUTATED,
    Reason.RACE,
    Reason.BARRIER,
    Reason.UNINITIALIZED,
    Reason.MISALIGNED,
    Reason.NO_LAUNCH,
    Reason.TORCH_COMPUTE,
    Reason.NONDETERMINISTIC,
)


def _of_reply(label: str, reply: Reply, allowed: frozenset[str]) -> list[tuple[Reason, str]]:
    data = reply.data
    found = [(Reason(t["reason"]), str(t["message"])) for t in data.get("tampering") or []]
    for name in data.get("changed_inputs") or []:
        if name not in allowed:
            found.append((Reason.INPUT_MUTATED, f"{label}: forward changed its input{name}"))
    found += [(Reason.OUT_OF_BOUNDS, f"{label}: {text}") for text in data.get("damage") or []]
    for finding in data.get("observation", {}).get("findings", []):
        if finding.get("fatal", True) and not _only_layout(label, finding):
            found.append((Reason(finding["reason"]), f"{label}: {_sentence(finding)}"))
    return found


def _only_layout(label: str, finding: dict[str, Any]) -> bool:
    return label.startswith("variant") and finding["reason"] in _LAYOUT_NOTES


def _notes(reply: Reply) -> list[str]:
    findings = reply.data.get("observation", {}).get("findings", [])
    return [*(_sentence(f) for f in findings if not f.get("fatal", True)), *_remarks(reply)]


def _remarks(reply: Reply) -> list[str]:
    remarks: list[str] = reply.data.get("remarks") or []
    return remarks


def _allowed(reply: Reply, allowed: frozenset[str]) -> list[str]:
    return [
        f"the reference changes its input{name} in place, so the candidate may; what it leaves there is not "
        "compared"
        for name in reply.data.get("changed_inputs") or []
        if name in allowed
    ]


def _sentence(finding: dict[str, Any]) -> str:
    place = f" at line {finding['line']}" if finding.get("line") else ""
    kernel = f" in {finding['kernel']}" if finding.get("kernel") else ""
    return f"{finding['message']}{kernel}{place}"


def _of_launches(replies: list[Reply], options: VerifyOptions) -> list[tuple[Reason, str]]:
    if not options.require_launch:
        return []
    counts = [reply.data.get("observation", {}).get("launch_count", 0) for reply in replies]
    if counts and not any(counts):
        return [(Reason.NO_LAUNCH, "forward launched no kernel in any call")]
    if 0 in counts:
        return [(Reason.NO_LAUNCH, f"forward launched no kernel in {counts.count(0)} of {len(counts)} calls")]
    return []


def _of_repeats(fresh: list[Reply], repeats: list[Reply]) -> list[tuple[Reason, str]]:
    """Compare calls on new contents with calls on contents seen before: a memo does nothing then."""

    def effort(reply: Reply) -> tuple[int, int]:
        return (
            int(reply.data.get("observation", {}).get("launch_count", 0)),
            int(reply.data.get("aten", {}).get("work", 0)),
        )

    observed = [effort(reply) for reply in fresh if "aten" in reply.data]
    if not observed or not repeats:
        return []
    launches, work = (max(values) for values in zip(*observed, strict=True))
    for reply in repeats:
        again = effort(reply)
        if (launches and not again[0]) or (work and not again[1] and not again[0]):
            return [
                (
                    Reason.TAMPERING,
                    "did no work when called again with contents seen before: a replayed output",
                )
            ]
    return []


def _torch_compute(
    replies: list[Reply], reference_work: int | None, options: VerifyOptions
) -> tuple[float | None, list[tuple[Reason, str]]]:
    works = [int(reply.data["aten"]["work"]) for reply in replies if "aten" in reply.data]
    if not works or reference_work is None:
        return None, []
    work = max(works)
    share = work / reference_work if reference_work else float(work > 0)
    if not options.require_launch or share <= options.torch_share:
        return share, []
    names = ", ".join(_operators(replies))
    message = f"torch did {share:.0%} of the reference's work ({names}); only glue may be torch"
    return share, [(Reason.TORCH_COMPUTE, message)]


def _operators(replies: list[Reply]) -> dict[str, int]:
    total: dict[str, int] = {}
    for reply in replies:
        for name, count in reply.data.get("aten", {}).get("operators", {}).items():
            total[name] = max(total.get(name, 0), int(count))
    return dict(sorted(total.items()))


def _praise(data: dict[str, Any]) -> str:
    launches = max(data["launches"], default=0)
    share = data["torch_share"]
    words = [f"{launches} {'launch' if launches == 1 else 'launches'} a call"] if launches else []
    words += [f"torch did {share:.1%} of the reference's work"] if share is not None else []
    return ", ".join([*words, "inputs untouched, guard bands whole"])
