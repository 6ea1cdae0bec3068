"""Write what a test run measured into ``memory/v<N>.json``; what it did not measure stays as it is."""

from __future__ import annotations

from typing import Any

from kernel_lint.tools import git
from kernel_lint.tools.kernel_test import KernelTestResult
from kernel_lint.tools.memory_store import Edits, MemoryStore
from kernel_lint.tools.workspace import Workspace

_ISA = {
    "vgprs": "vgpr",
    "agprs": "agpr",
    "sgprs": "sgpr",
    "lds_bytes": "lds_bytes",
    "scratch_bytes": "scratch_bytes",
    "vgpr_spills": "vgpr_spills",
    "sgpr_spills": "sgpr_spills",
    "code_bytes": "code_bytes",
}


def record(workspace: Workspace, result: KernelTestResult) -> None:
    """Create or update the version's memory with a run's correctness, performance and ISA figures."""
    write(workspace, result.version, result.to_json())


def write(
    workspace: Workspace, version: str, result: dict[str, Any], more: dict[str, Any] | None = None
) -> None:
    """Create or update a version from a RESULT_JSON object; ``more`` holds further fields by dotted path."""
    store = MemoryStore(workspace.folder)
    fields = {**fields_of(workspace, result), **(more or {})}
    edits = Edits(tuple((tuple(path.split(".")), value) for path, value in fields.items()))
    if version in store.versions():
        store.update(version, edits)
    else:
        store.create(version, edits)


def fields_of(workspace: Workspace, result: dict[str, Any]) -> dict[str, Any]:
    """Return the memory fields that a result decides, by dotted path."""
    fields: dict[str, Any] = {
        "platform": workspace.gpu.name,
        "framework": workspace.gpu.framework,
        "git_commit_hash": git.head(workspace.folder) if git.is_root(workspace.folder) else None,
        "correctness.status": "passed" if result["passed"] else "failed",
        "correctness.backend": result["backend"],
        "correctness.max_rel_err": result["max_rel_err"],
        "correctness.threshold": result["threshold"],
        "correctness.seeds": result["seeds"],
        "correctness.timeouts": result["timeouts"],
        "correctness.cases": [_case(case) for case in result["cases"]],
        "isa_metric_progress.target": result["target"],
    }
    for name, value in (result["performance"] or {}).items():
        fields[f"performance.{name}"] = value
    for theirs, ours in _ISA.items():
        values = [kernel[theirs] for kernel in result["kernels"] if isinstance(kernel.get(theirs), int)]
        if values:
            fields[f"isa_metric_progress.{ours}"] = max(values)
    return fields


def _case(case: dict[str, Any]) -> dict[str, Any]:
    kept = {key: case[key] for key in ("shape", "seed", "status", "rel_err", "threshold")}
    return {"case": case["name"], **kept, "message": case["message"] or None}
