"""What ``memory_manager.py read|latest|summary|list`` says."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from kernel_lint.tools.memory_store import Change, Entry, MemoryStore

_HEADS = {
    "version": "version",
    "correct": "correctness",
    "rel_err": "max_rel_err",
    "us": "latency_us",
    "TFLOPS": "tflops",
    "GB/s": "gbs",
    "change %": "latency_change_percent",
    "gate": "quality_gate",
    "summary": "summary",
}


@dataclass(frozen=True, slots=True)
class Report:
    """A report in both forms. ``notes`` go to stderr; ``complete`` is False when a file is damaged."""

    data: Any
    text: str
    notes: list[str] = field(default_factory=list)
    complete: bool = True


def build(store: MemoryStore, action: str, version: str | None) -> Report:
    """Return the report of one action.

    Raises :class:`KernelLintError` when a version is asked for that has no file.
    """
    if action == "read" and version is not None:
        return _read_one(store, version)
    entries = store.entries()
    notes = [
        f"{entry.version} is masked and was skipped" for entry in entries if entry.masked and action != "list"
    ]
    notes += [entry.error for entry in entries if entry.error]
    complete = not any(entry.error for entry in entries)
    visible = [entry for entry in entries if entry.memory is not None and not entry.masked]
    if action == "list":
        data = [{"version": e.version, "masked": e.masked, "error": e.error} for e in entries]
        text = "\n".join(
            f"{e.version}{' masked' if e.masked else ''}{' damaged' if e.error else ''}" for e in entries
        )
        return Report(data, text, notes, complete)
    if action == "latest":
        latest = visible[-1] if visible else None
        return Report(latest.memory if latest else None, latest.version if latest else "", notes, complete)
    if action == "read":
        text = "\n\n".join(_show(entry) for entry in visible)
        return Report([entry.memory for entry in visible], text, notes, complete)
    rows = [_row(store, entry) for entry in visible]
    return Report(rows, _table(rows), notes, complete)


def _read_one(store: MemoryStore, version: str) -> Report:
    memory = store.read(version)
    if memory.get("masked") is True:
        why = f": {memory['mask_reason']}" if memory.get("mask_reason") else ""
        return Report(None, "", [f"{version} is masked and was skipped{why}"])
    previous, changed = store.compare(version)
    text = _show(Entry(version, False, memory))
    if changed:
        text += f"\n  against {previous}:\n" + "\n".join(f"    {_change(change)}" for change in changed)
    comparison = {"previous": previous, "changes": [asdict(change) for change in changed]}
    return Report({**memory, "comparison": comparison}, text)


def _row(store: MemoryStore, entry: Entry) -> dict[str, Any]:
    assert entry.memory is not None
    memory = entry.memory
    performance = memory.get("performance") or {}
    previous, changed = store.compare(entry.version)
    latency = next((change for change in changed if change.field == "performance.latency_us"), None)
    return {
        "version": entry.version,
        "correctness": (memory.get("correctness") or {}).get("status"),
        "max_rel_err": (memory.get("correctness") or {}).get("max_rel_err"),
        "latency_us": performance.get("latency_us"),
        "tflops": performance.get("tflops"),
        "gbs": performance.get("gbs"),
        "previous": previous,
        "latency_change_percent": latency.percent if latency else None,
        "quality_gate": (memory.get("quality_gate") or {}).get("passed"),
        "summary": (memory.get("optimization") or {}).get("summary"),
    }


def _table(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return "no versions"
    cells = [tuple(_HEADS), *(tuple(_cell(row[column]) for column in _HEADS.values()) for row in rows)]
    widths = [max(len(line[index]) for line in cells) for index in range(len(_HEADS))]
    lines = ("  ".join(map(str.ljust, line, widths)) for line in cells)
    return "\n".join(line.rstrip() for line in lines)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "pass" if value else "FAIL"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _show(entry: Entry) -> str:
    """Return the fields that hold something, one a line."""
    lines = [entry.version]
    lines += [
        f"  {path}: {value}"
        for path, value in _flatten(entry.memory, "")
        if path not in ("version", "schema_version")
    ]
    return "\n".join(lines)


def _flatten(value: Any, prefix: str) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [
            row
            for key, child in value.items()
            for row in _flatten(child, f"{prefix}.{key}" if prefix else key)
        ]
    if isinstance(value, list):
        return [row for index, child in enumerate(value) for row in _flatten(child, f"{prefix}.{index}")]
    return [] if value is None else [(prefix, value)]


def _change(change: Change) -> str:
    percent = "" if change.percent is None else f" ({change.percent:+.1f} %)"
    return f"{change.field}: {change.before:g} -> {change.after:g}{percent}"
