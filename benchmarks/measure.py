"""Measuring commands side by side: interleaved repetitions, medians, ratios to a base.

CPU seconds are what the kernel charged the child and its children (``wait4``), so that
another program on the machine moves them little; wall seconds are shown beside them.
Instructions, counted by perf where it can and else by valgrind, move with nothing.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Command:
    """A command to measure; ``ok`` are the exit codes that count as success, ``cwd`` where it runs."""

    name: str
    argv: tuple[str, ...]
    ok: tuple[int, ...] = (0, 1)
    env: tuple[tuple[str, str], ...] = ()
    cwd: str | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """One run: seconds of CPU and wall, and the largest resident set of its processes in MiB.

    Linux counts the process that started the command as well, so small ones show that one's size.
    """

    cpu: float
    wall: float
    peak: float


@dataclass(frozen=True, slots=True)
class Measured:
    """Medians over the repetitions of one command: seconds, and MiB."""

    name: str
    cpu: float
    wall: float
    runs: int
    peak: float = 0.0
    instructions: int | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """A table to print, to write as Markdown and as JSON; cells are text or numbers."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    note: str = ""

    def text(self) -> str:
        """Return the table for a terminal."""
        cells = [self.columns, *(tuple(map(_shown, row)) for row in self.rows)]
        widths = [max(len(row[index]) for row in cells) for index in range(len(self.columns))]
        lines = [f"{self.title}" + (f" ({self.note})" if self.note else "")]
        for row in cells:
            rest = (f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))
            lines.append("  ".join([f"{row[0]:{widths[0]}}", *rest]).rstrip())
        return "\n".join(lines)

    def markdown(self) -> str:
        """Return the table for a page."""
        rule = "|".join(["---", *("--:" for _ in self.columns[1:])])
        rows = [" | ".join(map(_shown, row)) for row in self.rows]
        head = [f"**{self.title}**" + (f": {self.note}" if self.note else ""), ""]
        return "\n".join([*head, f"| {' | '.join(self.columns)} |", f"|{rule}|", *(f"| {r} |" for r in rows)])


def _shown(cell: Any) -> str:
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:.1f}" if abs(cell) >= 10 else f"{cell:.2f}"
    return f"{cell:,}" if isinstance(cell, int) else "" if cell is None else str(cell)


def environment(command: Command) -> dict[str, str]:
    """Return the environment in which a command runs."""
    env = {**os.environ, **dict(command.env)}
    # Installed programs have their bytecode on disk; so must what is compared with them.
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    return env


def once(command: Command) -> Sample:
    """Run a command; raises SystemExit when it fails."""
    start = time.perf_counter()
    process = subprocess.Popen(
        command.argv,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment(command),
        cwd=command.cwd,
    )
    assert process.stderr is not None
    errors = process.stderr.read()
    process.stderr.close()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in command.ok:
        said = errors.decode(errors="replace")[-500:]
        raise SystemExit(f"{command.name}: exit {process.returncode}: {said}")
    return Sample(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024)


def compare(commands: Sequence[Command], repetitions: int, *, counted: bool = False) -> list[Measured]:
    """Measure all commands in turns, after one warm-up round, and return medians.

    ``counted`` counts the instructions of each once more.
    """
    for command in commands:
        once(command)
    samples: dict[str, list[Sample]] = {command.name: [] for command in commands}
    for _ in range(repetitions):
        for command in commands:
            samples[command.name].append(once(command))
    return [
        Measured(
            command.name,
            statistics.median(sample.cpu for sample in rows),
            statistics.median(sample.wall for sample in rows),
            len(rows),
            statistics.median(sample.peak for sample in rows),
            instructions(command) if counted else None,
        )
        for command, rows in ((command, samples[command.name]) for command in commands)
    ]


def table(title: str, rows: Sequence[Measured], base: str, note: str = "") -> Table:
    """Return a table with each command's ratio to the one called ``base``."""
    unit = next(row for row in rows if row.name == base)
    columns = ["", "CPU ms", f"times {base}", "wall ms"]
    cells: list[list[Any]] = [[r.name, r.cpu * 1e3, r.cpu / unit.cpu, r.wall * 1e3] for r in rows]
    if all(row.instructions is not None for row in rows):
        columns.append("M instructions")
        for line, row in zip(cells, rows, strict=True):
            line.append((row.instructions or 0) / 1e6)
    return Table(title, tuple(columns), tuple(map(tuple, cells)), note)


# -- instructions ----------------------------------------------------------------------


@lru_cache(maxsize=1)
def counter() -> str | None:
    """Return what counts instructions here: "perf", "valgrind" or None."""
    if shutil.which("perf"):
        words = ["perf", "stat", "-x,", "-e", "instructions:u", "true"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode == 0 and re.match(r"\d+,", done.stderr):
            return "perf"
    # Virtual machines often have no counters; valgrind interprets the program instead.
    return "valgrind" if shutil.which("valgrind") else None


def instructions(command: Command) -> int:
    """Return the user-mode instructions of a command's first process; raises SystemExit without a counter."""
    if counter() == "perf":
        prefix, pattern = ["perf", "stat", "-x,", "-e", "instructions:u", "--"], rb"^(\d+),"
    elif counter() == "valgrind":
        prefix = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={os.devnull}", "--"]
        pattern = rb"Collected : (\d+)"
    else:
        raise SystemExit("neither perf nor valgrind is here; install one (apt-get install valgrind)")
    env = {**environment(command), "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        [*prefix, *command.argv], capture_output=True, env=env, cwd=command.cwd, check=False
    )
    found = re.search(pattern, done.stderr, re.M)
    if done.returncode not in command.ok or found is None:
        raise SystemExit(
            f"{command.name}: exit {done.returncode}: {done.stderr.decode('utf-8', 'replace')[-500:]}"
        )
    return int(found[1])


# -- what stands beside the figures ----------------------------------------------------


def machine() -> dict[str, str]:
    """Return what a reader must know of the machine and the Python."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "system": platform.system(),
        "load": f"{os.getloadavg()[0]:.1f}",
        "counter": counter() or "none",
    }


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor()
    found = re.search(r"^model name\s*: (.*)$", text, re.M)
    return found[1] if found else platform.processor()


def versions(names: Sequence[str]) -> dict[str, str]:
    """Return the versions of those distributions that are installed beside this Python."""
    found = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def write_json(path: Path | None, name: str, rows: Sequence[Measured]) -> None:
    """Write a result as JSON when a path was given."""
    if path is not None:
        data = {"benchmark": name, "machine": machine(), "rows": [asdict(row) for row in rows]}
        path.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


def beside(program: str) -> str | None:
    """Return the path of a program installed beside this Python, or on PATH, or None."""
    path = Path(sys.executable).with_name(program)
    return str(path) if path.exists() else shutil.which(program)
