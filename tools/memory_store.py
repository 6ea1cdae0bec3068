"""The memory of a workspace: one JSON file a kernel version, written so that nothing is lost.

A write holds the version's lock from reading to replacing, writes a temporary file beside the
target, syncs it and renames it over the target. So two writers never lose each other's fields,
and a process killed at any point leaves the old file or the new one. A file that does not parse
is reported and left alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from kernel_lint.errors import KernelLintError
from kernel_lint.tools import memory_schema

LOCK_SECONDS = 60.0
_VERSION = re.compile(r"v(0|[1-9][0-9]*)")

Memory = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Entry:
    """One version in a listing; ``error`` says why its file could not be read."""

    version: str
    masked: bool
    memory: Memory | None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """A figure of two versions. ``percent`` is the change against the earlier one."""

    field: str
    before: float
    after: float
    percent: float | None


class MemoryStore:
    """The files ``memory/v<N>.json`` under one workspace."""

    def __init__(self, workspace: Path) -> None:
        self.folder = workspace / "memory"

    def path(self, version: str) -> Path:
        """Return the version's file.

        Raises :class:`KernelLintError` for a name that is not ``v`` and a number.
        """
        if not _VERSION.fullmatch(version):
            raise KernelLintError(f"{version!r} is not a version", "versions are v0, v1, v2, ...")
        return self.folder / f"{version}.json"

    def versions(self) -> list[str]:
        """Return all versions that have a file, in numeric order."""
        names = (file.stem for file in self.folder.glob("v*.json"))
        return sorted((name for name in names if _VERSION.fullmatch(name)), key=_number)

    def create(self, version: str, edits: Edits | None = None, parent: str | None = None) -> Memory:
        """Write a new version's file with every field empty but those edited.

        Raises :class:`KernelLintError` when the file exists or an edit does not fit the schema.
        """
        path = self.path(version)
        if parent is not None:
            self.path(parent)
        with self._locked(path):
            if path.exists():
                raise KernelLintError(f"{path} exists", "use update, or the next version's number")
            memory = memory_schema.blank()
            now = _now()
            previous = [known for known in self.versions() if _number(known) < _number(version)]
            memory |= {"version": version, "masked": False, "created_at": now, "updated_at": now}
            memory["parent"] = parent if parent is not None else (previous[-1] if previous else None)
            return self._finish(path, memory, edits)

    def update(self, version: str, edits: Edits) -> Memory:
        """Apply edits to an existing version.

        Raises :class:`KernelLintError` when there is no such file, it does not parse (it is then left
        as it is), or an edit does not fit the schema.
        """
        return self._change(version, edits, {})

    def mask(self, version: str, masked: bool, reason: str | None = None) -> Memory:
        """Hide a version from reads, or show it again."""
        return self._change(version, None, {"masked": masked, "mask_reason": reason if masked else None})

    def read(self, version: str) -> Memory:
        """Return one version, masked or not.

        Raises :class:`KernelLintError` when it is missing or not a JSON object.
        """
        path = self.path(version)
        try:
            memory = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            known = ", ".join(self.versions()) or "none"
            raise KernelLintError(
                f"{path} does not exist (versions: {known})", f"make it with create --version {version}"
            ) from error
        except (ValueError, OSError) as error:
            raise self._corrupt(path, str(error)) from error
        if not isinstance(memory, dict):
            raise self._corrupt(path, "it holds no JSON object")
        return memory

    def entries(self) -> list[Entry]:
        """Return every version with its file's content or the reason why it has none."""
        found = []
        for version in self.versions():
            try:
                memory = self.read(version)
            except KernelLintError as error:
                found.append(Entry(version, False, None, error.message))
            else:
                found.append(Entry(version, memory.get("masked") is True, memory))
        return found

    def visible(self) -> list[Entry]:
        """Return the entries that can be read and are not masked."""
        return [entry for entry in self.entries() if entry.memory is not None and not entry.masked]

    def latest(self) -> Entry | None:
        """Return the newest version that is not masked, or None."""
        visible = self.visible()
        return visible[-1] if visible else None

    def compare(self, version: str) -> tuple[str | None, list[Change]]:
        """Return the version before (masked ones skipped) and how each figure changed."""
        before = [entry for entry in self.visible() if _number(entry.version) < _number(version)]
        if not before:
            return None, []
        assert before[-1].memory is not None
        return before[-1].version, changes(before[-1].memory, self.read(version))

    def _change(self, version: str, edits: Edits | None, own: Memory) -> Memory:
        path = self.path(version)
        with self._locked(path):
            memory = self.read(version) | own | {"updated_at": _now()}
            return self._finish(path, memory, edits)

    def _finish(self, path: Path, memory: Memory, edits: Edits | None) -> Memory:
        if edits is not None:
            edits.apply(memory)
        memory_schema.validate(memory, str(path))
        write_atomically(path, json.dumps(memory, indent=2, allow_nan=False) + "\n")
        return memory

    @contextlib.contextmanager
    def _locked(self, path: Path) -> Iterator[None]:
        from filelock import FileLock, Timeout

        if not self.folder.parent.is_dir():
            raise KernelLintError(
                f"{self.folder.parent} is not a folder", "name the workspace with --workspace"
            )
        self.folder.mkdir(exist_ok=True)
        lock = FileLock(self.folder / f".{path.name}.lock", timeout=LOCK_SECONDS)
        try:
            lock.acquire()
        except Timeout as error:
            raise KernelLintError(f"{path} is locked by another process", "wait for it to end") from error
        try:
            yield
        finally:
            lock.release()

    def _corrupt(self, path: Path, why: str) -> KernelLintError:
        return KernelLintError(
            f"{path} is damaged and was left as it is: {why}",
            "mend it by hand or restore it with git, then repeat the command",
        )


@dataclass(frozen=True, slots=True)
class Edits:
    """Assignments ``(keys, value)`` and appends ``(keys, item)``; assignments come first."""

    assignments: tuple[tuple[tuple[str | int, ...], Any], ...] = ()
    appends: tuple[tuple[tuple[str | int, ...], Any], ...] = ()

    @classmethod
    def parse(cls, assignments: tuple[str, ...], appends: tuple[str, ...] = ()) -> Edits:
        """Read ``a.b=c`` texts.

        Raises :class:`KernelLintError` for a text without ``=``, an unknown field, or an append to
        what is not a list.
        """
        return cls(tuple(_assignment(text) for text in assignments), tuple(_append(text) for text in appends))

    def apply(self, memory: Memory) -> None:
        """Change a memory in place.

        Raises :class:`KernelLintError` for an index that is not there.
        """
        for keys, value in self.assignments:
            target = _descend(memory, keys[:-1])
            if not isinstance(target, dict) and not _has_item(target, keys[-1]):
                raise _missing(keys)
            target[keys[-1]] = value
        for keys, value in self.appends:
            parent = _descend(memory, keys[:-1])
            if isinstance(parent, dict) and parent.get(str(keys[-1])) is None:
                parent[str(keys[-1])] = []
            _descend(memory, keys).append(value)


def changes(before: Memory, after: Memory) -> list[Change]:
    """Return how each numeric figure of performance, correctness and ISA metrics changed."""
    found = []
    for group in ("performance", "correctness", "isa_metric_progress"):
        old, new = before.get(group) or {}, after.get(group) or {}
        for name in new:
            a, b = old.get(name), new[name]
            if isinstance(a, (int, float)) and isinstance(b, (int, float)):
                found.append(Change(f"{group}.{name}", a, b, 100 * (b - a) / a if a else None))
    return found


def write_atomically(path: Path, text: str) -> None:
    """Replace a file so that at every moment it is whole: the old text or the new."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where the system lets a folder be opened."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _assignment(text: str) -> tuple[tuple[str | int, ...], Any]:
    path, value = _split(text, "--set")
    keys, node = memory_schema.locate(path)
    return tuple(keys), memory_schema.parse_value(value, node)


def _append(text: str) -> tuple[tuple[str | int, ...], Any]:
    path, value = _split(text, "--append")
    keys, node = memory_schema.locate(path)
    if node.get("type") != "array":
        raise KernelLintError(f"{path} is not a list", "use --set for single values")
    return tuple(keys), memory_schema.parse_value(value, node["items"])


def _split(text: str, option: str) -> tuple[str, str]:
    path, sign, value = text.partition("=")
    if not sign:
        raise KernelLintError(
            f"{option} {text!r} has no '='", f"write {option} 'performance.latency_us=12.5'"
        )
    return path.strip(), value.strip()


def _descend(memory: Any, keys: tuple[str | int, ...]) -> Any:
    """Walk to a container, making absent objects on the way."""
    for key in keys:
        if isinstance(memory, list):
            if not _has_item(memory, key):
                raise _missing(keys)
            memory = memory[int(key)]
        elif not isinstance(memory, dict):
            raise _missing(keys)
        else:
            if memory.get(key) is None:
                memory[key] = {}
            memory = memory[key]
    return memory


def _has_item(values: Any, index: Any) -> bool:
    return isinstance(values, list) and isinstance(index, int) and index < len(values)


def _missing(keys: tuple[str | int, ...]) -> KernelLintError:
    path = ".".join(map(str, keys))
    return KernelLintError(
        f"{path}: no such item yet", "add list items with --append; a plain value has no fields"
    )


def _number(version: str) -> int:
    return int(version[1:])


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
