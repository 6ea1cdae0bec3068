"""What was finished is kept, so that an interrupted run can go on: ``--resume``.

One file for each combination of candidate, task, options and versions; one JSON line for each
finished shape, written and synchronised before the run goes on. A line that a crash cut short
is no line. Only stage results are kept, never a verdict: the verdict is decided from all of
them by a run that reached its end.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kernel_lint.diagnostics import Reason, StageResult, StageStatus
from kernel_lint.verify.contract import Task
from kernel_lint.verify.options import VerifyOptions

# Failures of the machine may be gone the next time, so a resumed run tries those shapes again.
_RETRY = (Reason.HARNESS_ERROR, Reason.ENV_ERROR, Reason.TIMEOUT, Reason.OOM)


class Journal:
    """The finished shapes of one run; ``path`` None keeps nothing."""

    def __init__(self, path: Path | None, known: dict[tuple[str, str], list[StageResult]]) -> None:
        self._path = path
        self._known = known

    def finished(self, shape: str, target: str) -> list[StageResult] | None:
        """Return the results of an earlier run for this shape, if it finished there."""
        return self._known.get((shape, target))

    def finish(self, shape: str, target: str, results: list[StageResult]) -> None:
        """Keep the results of a shape."""
        if self._path is None or any(r.reason in _RETRY for r in results):
            return
        line = json.dumps({"shape": shape, "target": target, "results": [r.to_json() for r in results]})
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())


@contextmanager
def open_journal(
    task: Task, source: bytes, options: VerifyOptions, targets: tuple[str, ...]
) -> Iterator[Journal]:
    """Open the journal of this run; an earlier one is read with ``resume`` and forgotten otherwise.

    Raises OSError when the state folder cannot be written. The file goes away when the run
    reaches its end, so only an interrupted run leaves one.
    """
    folder = options.state_dir or default_state_dir()
    key = {"task": task.digest, **options.identity(), "targets": targets}
    digest = hashlib.sha256(source + json.dumps(key, sort_keys=True, default=str).encode()).hexdigest()
    path = folder / f"{digest[:32]}.jsonl"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        known = _read(path) if options.resume else {}
        if not options.resume:
            path.unlink(missing_ok=True)
        with path.open("a", encoding="utf-8"):
            pass
    except OSError as error:
        problem = f"what is finished cannot be kept ({error.strerror}), name another folder with --state-dir"
        raise OSError(error.errno, problem, str(folder)) from None
    yield Journal(path, known)
    path.unlink(missing_ok=True)


def default_state_dir() -> Path:
    """Return where interrupted runs are kept: the user's cache folder for kernel-lint."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("kernel-lint")) / "verify"


def _read(path: Path) -> dict[tuple[str, str], list[StageResult]]:
    known: dict[tuple[str, str], list[StageResult]] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, UnicodeDecodeError):
        return {}
    for line in lines:
        try:
            entry = json.loads(line)
            known[entry["shape"], entry["target"]] = [_result(value) for value in entry["results"]]
        except (ValueError, KeyError, TypeError):
            continue  # Cut short by a crash: that shape runs again.
    return known


def _result(value: dict[str, Any]) -> StageResult:
    return StageResult(
        value["stage"],
        StageStatus(value["status"]),
        value["shape"],
        value["target"],
        Reason(value["reason"]) if value["reason"] else None,
        value["message"],
        value["seconds"],
        {**value["data"], "resumed": True},
    )
