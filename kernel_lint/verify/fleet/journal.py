"""What a fleet has finished is kept, so that a run whose driver died goes on: ``--resume``.

One file for each combination of tasks, options and version. Its first line says what the run is
and holds its seed (the file is the user's alone to read); then comes one line for each finished
task, under its key, appended in one write and synchronised before the run goes on. A line that a
crash or a full disk cut short is no line. Only the driver writes, so that a task has one line
however often its workers were lost.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Set
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from filelock import FileLock, Timeout

from kernel_lint.errors import KernelLintError
from kernel_lint.verify.fleet.outcome import Outcome
from kernel_lint.verify.journal import default_state_dir

_FORMAT = "kernel-lint fleet journal 1"


@dataclass(frozen=True, slots=True)
class Found:
    """What an earlier run left: its seed and the outcomes by key."""

    seed: int
    outcomes: dict[str, Outcome]


class FleetJournal:
    """The journal of one run, locked while it is open; use as a context manager.

    ``identity`` are the settings that decide outcomes, ``digests`` those of the tasks' files.
    Raises :class:`KernelLintError` when another run has it open or it cannot be written.
    """

    def __init__(self, folder: Path | None, identity: dict[str, Any], digests: Iterable[str]) -> None:
        self._identity = json.loads(json.dumps(identity, default=str))
        text = json.dumps([self._identity, sorted(set(digests))], sort_keys=True)
        self._folder = folder or default_state_dir()
        self.path = self._folder / f"fleet-{hashlib.sha256(text.encode()).hexdigest()[:24]}.jsonl"
        self._lock = FileLock(self.path.with_suffix(".lock"))
        self._file: int | None = None
        self.written: set[str] = set()

    def __enter__(self) -> FleetJournal:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
        except Timeout:
            raise KernelLintError(
                f"another run of the same tasks with the same options is under way ({self.path} is locked)",
                "wait for it, or give this one a folder of its own with --state-dir DIR",
            ) from None
        except OSError as error:
            raise self._trouble(error) from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
        self._lock.release()

    def read(self) -> Found | None:
        """Return what an earlier run of the same tasks and options left, or None."""
        return self._read(self.path)

    def _read(self, path: Path) -> Found | None:
        try:
            lines = path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._trouble(error) from None
        try:
            head = json.loads(lines[0])
            if head["format"] != _FORMAT or head["identity"] != self._identity:
                return None
            seed = int(head["seed"])
        except (ValueError, KeyError, TypeError):
            return None
        outcomes: dict[str, Outcome] = {}
        # What follows the last newline was cut short, even where it happens to be whole.
        for line in lines[1:-1]:
            try:
                outcome = Outcome.from_text(line.decode())
            except (ValueError, KeyError, TypeError, AttributeError):
                continue
            outcomes.setdefault(outcome.key, outcome)
        return Found(seed, outcomes)

    def others(self) -> list[tuple[Path, list[str]]]:
        """Return journals of runs with other tasks or options here, and the settings that differ."""
        found = []
        for path in sorted(self._folder.glob("fleet-*.jsonl")):
            if path == self.path:
                continue
            try:
                with path.open("rb") as file:
                    theirs = json.loads(file.readline())["identity"]
                names = {*theirs, *self._identity}
                found.append((path, sorted(n for n in names if theirs.get(n) != self._identity.get(n))))
            except (OSError, ValueError, KeyError, TypeError, AttributeError):
                continue
        return found

    @property
    def old(self) -> Path:
        """Where a run is kept that was set aside."""
        return self.path.with_suffix(".old")

    def set_aside(self) -> Path | None:
        """Rename what an earlier run left, so that a new one begins; returns where it is now.

        Of two that were set aside the one with more finished tasks is kept: who forgets ``--resume``
        twice has not lost the long run.
        """
        if not self.path.exists():
            return None
        if len(self._keys(self.old)) > len(self._keys(self.path)):
            self.path.unlink()
        else:
            self.path.replace(self.old)
        return self.old

    def take_back(self, keys: Set[str]) -> int:
        """Exchange the journal for what was set aside, where that has more of these tasks: so many."""
        finished = len(self._keys(self.old) & keys)
        if finished <= len(self._keys(self.path) & keys):
            return 0
        kept = self.path.with_suffix(".swap")
        try:
            self.old.replace(kept)
            if self.path.exists():
                self.path.replace(self.old)
            kept.replace(self.path)
        except OSError as error:
            raise self._trouble(error) from None
        return finished

    def _keys(self, path: Path) -> set[str]:
        found = self._read(path)
        return set(found.outcomes) if found else set()

    def begin(self, seed: int, known: Iterable[str] = ()) -> None:
        """Open the file for new lines; ``known`` are the keys that it has already."""
        self.written = set(known)
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            whole = _length_of_whole_lines(self._file)
            os.ftruncate(self._file, whole)
            if whole == 0:
                head = {"format": _FORMAT, "identity": self._identity, "seed": seed}
                self._append([json.dumps(head)])
        except OSError as error:
            raise self._trouble(error) from None

    def record(self, outcomes: Iterable[tuple[str, str]]) -> None:
        """Append finished tasks, by key and text, and synchronise; raises for a key that has a line."""
        pairs = list(outcomes)
        for key, _text in pairs:
            assert key not in self.written, f"task {key} was judged twice"
            self.written.add(key)
        try:
            self._append([text for _key, text in pairs])
        except OSError as error:
            raise self._trouble(error) from None

    def remove(self) -> None:
        """Forget the run: it reached its end. What was set aside goes too, if it holds nothing else."""
        if self.old.exists() and self._keys(self.old) <= self._keys(self.path):
            self.old.unlink()
        self.path.unlink(missing_ok=True)
        self.path.with_suffix(".lock").unlink(missing_ok=True)

    def _append(self, lines: list[str]) -> None:
        if not lines:
            return
        assert self._file is not None
        data = "".join(line + "\n" for line in lines).encode()
        length = os.lseek(self._file, 0, os.SEEK_END)
        try:
            while data:
                data = data[os.write(self._file, data) :]
            os.fsync(self._file)
        except OSError:
            # A full disk: half a line would only be in the way of the next.
            os.ftruncate(self._file, length)
            raise

    def _trouble(self, error: OSError) -> KernelLintError:
        return KernelLintError(
            f"the journal {self.path} cannot be written ({error.strerror})",
            "make room or name another folder with --state-dir; finished tasks before this one are kept",
        )


def _length_of_whole_lines(file: int) -> int:
    """Return the length of the file up to and with its last newline."""
    end = os.lseek(file, 0, os.SEEK_END)
    while end > 0:
        start = max(0, end - 65536)
        found = os.pread(file, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0
