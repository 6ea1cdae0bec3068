"""The stop hook of a coding agent: blocks while the gate finds something missing, and never for ever.

Input is the hook's JSON (``stop_hook_active``, ``cwd``, ``session_id``); the answer is a JSON object that
blocks, or nothing. A block with ``stop_hook_active`` set is repeated only when something changed since the
last one: an agent that cannot do more must be able to stop.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel_lint import gate, gate_record
from kernel_lint.engine import FINAL_NAME
from kernel_lint.files import read_regular, replace_file

STATE_NAME = "hook.json"
MAX_REASON = 1_999
# Blocks in a row, each after a change: by then the changes lead nowhere.
MAX_BLOCKS = 30
_MAX_FILES = 400
_MAX_BYTES = 4_000_000
_TASK = ("reference.py", "input.py", "shapes.json")


@dataclass(frozen=True, slots=True)
class Event:
    """What the agent's program says when the agent wants to stop."""

    folder: Path
    active: bool
    session: str


def parse(text: str) -> Event:
    """Read the hook's input; what is missing or broken takes its default, for a hook must not fail."""
    try:
        data = json.loads(text)
    except ValueError:
        data = {}
    if not isinstance(data, dict):
        data = {}
    folder = data.get("cwd")
    return Event(
        Path(folder) if isinstance(folder, str) and folder else Path.cwd(),
        data.get("stop_hook_active") is True,
        str(data.get("session_id", "")),
    )


def answer(event: Event) -> dict[str, str] | None:
    """Return the object that blocks the agent, or None to let it stop."""
    if not is_workspace(event.folder):
        return None
    verdict = gate.judge(gate.GateOptions(event.folder / FINAL_NAME))
    if verdict.passed:
        _forget(event)
        return None
    reason = explain_block(verdict, event.folder)
    return {"decision": "block", "reason": reason} if _may_block(event, reason) else None


def failed(event: Event, error: BaseException) -> dict[str, str] | None:
    """Return the answer when the gate itself broke: block once, so that it is seen."""
    reason = (
        f"kernel-lint could not judge {FINAL_NAME} ({type(error).__name__}: {error}). Run `kernel-lint gate "
        f"{event.folder}` and tell the user what it says."
    )[:MAX_REASON]
    return {"decision": "block", "reason": reason} if _may_block(event, reason) else None


def is_workspace(folder: Path) -> bool:
    """Tell whether a kernel is made in this folder: by the result, its entry, or the whole task."""
    names = (FINAL_NAME, gate.ENTRY_NAME)
    return any((folder / name).is_file() for name in names) or all((folder / n).is_file() for n in _TASK)


def explain_block(verdict: gate.Verdict, folder: Path) -> str:
    """Say what is missing, most important first, in under 2,000 characters."""
    head = f"{FINAL_NAME} may not be handed in yet. Missing:\n"
    tail = f"All checks: kernel-lint gate {folder}\nThe contract: kernel-lint explain {folder}"
    room = MAX_REASON - len(head) - len(tail) - 40
    lines: list[str] = []
    missing = verdict.missing
    each = max(200, room // max(1, len(missing)))
    for number, check in enumerate(missing, 1):
        line = _short(f"{number}. {check.name}: {check.message}", each - len(check.remedy) - 6)
        if check.remedy:
            line += f"\n   do: {check.remedy}"
        if sum(map(len, lines)) + len(lines) + len(line) > room:
            lines.append(f"... and {len(missing) - number + 1} more")
            break
        lines.append(line)
    return (head + "\n".join(lines) + "\n" + tail)[:MAX_REASON]


def _short(text: str, limit: int) -> str:
    limit = max(limit, 80)
    return text if len(text) <= limit else text[: limit - 4].rstrip() + " ..."


# -- nobody loops for ever -------------------------------------------------------------


def _may_block(event: Event, reason: str) -> bool:
    """Decide, and remember what was there. Without a memory only the first stop is blocked."""
    digest = _digest(event.folder, reason)
    blocks = 1
    if event.active:
        known = _load(event.folder)
        if known is None:
            return False
        if known.get("session") == event.session:
            if known.get("digest") == digest:
                return False
            before = known.get("blocks")
            blocks += before if isinstance(before, int) else 0
        if blocks > MAX_BLOCKS:
            return False
    _store(event.folder, {"session": event.session, "digest": digest, "blocks": blocks})
    return True


def _digest(folder: Path, reason: str) -> str:
    """Return a hash of what is missing and of all that could change it."""
    digest = hashlib.sha256(reason.encode("utf-8", "surrogatepass"))
    for path in _watched(folder):
        try:
            if path.stat().st_size <= _MAX_BYTES:
                digest.update(os.fsencode(path) + b"\0" + read_regular(path) + b"\0")
        except OSError:
            continue
    return digest.hexdigest()


def _watched(folder: Path) -> Iterator[Path]:
    """Yield the workspace's Python and JSON files and our record, at most a few hundred."""
    yield folder / gate_record.FOLDER_NAME / gate_record.RECORD_NAME
    count = 0
    for root, directories, files in os.walk(folder):
        directories[:] = sorted(
            d for d in directories if not d.startswith(".") and d not in ("__pycache__", "node_modules")
        )
        for name in sorted(files):
            if name.endswith((".py", ".json", ".toml")):
                yield Path(root, name)
                count += 1
                if count >= _MAX_FILES:
                    return


def _load(folder: Path) -> dict[str, Any] | None:
    try:
        data = json.loads((folder / gate_record.FOLDER_NAME / STATE_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None


def _store(folder: Path, state: dict[str, Any]) -> None:
    try:
        replace_file(gate_record.state_folder(folder) / STATE_NAME, json.dumps(state) + "\n")
    except OSError:
        # Nothing is remembered: the next stop, with stop_hook_active set, goes through.
        return


def _forget(event: Event) -> None:
    try:
        (event.folder / gate_record.FOLDER_NAME / STATE_NAME).unlink(missing_ok=True)
    except OSError:
        return
