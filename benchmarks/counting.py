"""Counting the instructions of a program: figures that no other program's load can move.

``perf`` counts in the processor where it may; virtual machines often have no such counters, and there
``valgrind --tool=callgrind`` interprets the program. Both count user mode only, and the children too.
callgrind hands a forked child the count of its parent; it is told to begin anew where Python begins
a child (``PyOS_AfterFork_Child``), so that nothing counts twice. What a process did before it turned itself
into another program (``exec``) is lost to callgrind.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

NO_COUNTER = (
    "instructions cannot be counted: perf has no counters here and valgrind is not installed; "
    "install it (apt-get install valgrind, dnf install valgrind)"
)
_COLLECTED = re.compile(rb"Collected : (\d+)")
_PERF = re.compile(rb"^(\d+),", re.M)


@lru_cache(maxsize=1)
def counter() -> str | None:
    """Return what counts instructions here: "perf", "valgrind" or None."""
    if shutil.which("perf"):
        words = ["perf", "stat", "-x,", "-e", "instructions:u", "true"]
        done = subprocess.run(words, capture_output=True, check=False)
        if done.returncode == 0 and _PERF.search(done.stderr):
            return "perf"
    return "valgrind" if shutil.which("valgrind") else None


def count(name: str, argv: Sequence[str], ok: Sequence[int], env: Mapping[str, str], cwd: str | None) -> int:
    """Return the instructions of a program and its children.

    Raises SystemExit without a counter, and when the program's exit code is not one of ``ok``.
    """
    if counter() is None:
        raise SystemExit(NO_COUNTER)
    with tempfile.TemporaryDirectory(prefix="kernel-lint-count-") as folder:
        prefix = _perf(folder) if counter() == "perf" else _callgrind(folder)
        done = subprocess.run(
            [*prefix, *argv],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            # What is in a set comes in the same order each time.
            env={**env, "PYTHONHASHSEED": "0"},
            cwd=cwd,
            check=False,
        )
        logs = [path.read_bytes() for path in sorted(Path(folder).iterdir())]
    pattern = _PERF if counter() == "perf" else _COLLECTED
    found = [int(match[1]) for log in logs for match in pattern.finditer(log)]
    if done.returncode not in ok or not found:
        said = done.stderr.decode("utf-8", "replace").strip()[-500:]
        raise SystemExit(f"{name}: exit {done.returncode} while counted: {said or 'it says nothing'}")
    return sum(found)


def _perf(folder: str) -> list[str]:
    # perf follows children by itself (-i would keep it from that).
    return ["perf", "stat", "-x,", "-e", "instructions:u", "-o", f"{folder}/count", "--"]


def _callgrind(folder: str) -> list[str]:
    return [
        "valgrind",
        "--tool=callgrind",
        f"--callgrind-out-file={os.devnull}",
        "--trace-children=yes",
        "--zero-before=PyOS_AfterFork_Child",
        # A file for each process: a child may have no standard error.
        f"--log-file={folder}/%p-%n",
        "--",
    ]
