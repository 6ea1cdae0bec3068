"""Measuring commands side by side: interleaved repetitions, medians, ratios to a base.

CPU seconds are what the kernel charged the child and its children (``wait4``), so that
another program on the machine moves them little; wall seconds are shown beside them.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Command:
    """A command to measure; ``ok`` are the exit codes that count as success."""

    name: str
    argv: tuple[str, ...]
    ok: tuple[int, ...] = (0, 1)
    env: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Measured:
    """Medians over the repetitions of one command, in seconds."""

    name: str
    cpu: float
    wall: float
    runs: int


def once(command: Command) -> tuple[float, float]:
    """Run a command and return its CPU and wall seconds; raises when it fails."""
    environment = {**os.environ, **dict(command.env)}
    # Installed programs have their bytecode on disk; so must what is compared with them.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    start = time.perf_counter()
    process = subprocess.Popen(
        command.argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment
    )
    assert process.stderr is not None
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in command.ok:
        raise SystemExit(
            f"{command.name}: exit {process.returncode}: {errors.decode(errors='replace')[-500:]}"
        )
    return usage.ru_utime + usage.ru_stime, wall


def compare(commands: Sequence[Command], repetitions: int) -> list[Measured]:
    """Measure all commands in turns, after one warm-up round, and return medians."""
    for command in commands:
        once(command)
    samples: dict[str, list[tuple[float, float]]] = {command.name: [] for command in commands}
    for _ in range(repetitions):
        for command in commands:
            samples[command.name].append(once(command))
    return [
        Measured(
            name, statistics.median(c for c, _ in rows), statistics.median(w for _, w in rows), len(rows)
        )
        for name, rows in samples.items()
    ]


def table(title: str, rows: Sequence[Measured], base: str) -> str:
    """Return a table with each command's ratio to the one called ``base``."""
    unit = next(row for row in rows if row.name == base)
    lines = [title, f"{'':34} {'CPU ms':>9} {'ratio':>7} {'wall ms':>9}"]
    for row in rows:
        ratio = row.cpu / unit.cpu if unit.cpu else float("nan")
        lines.append(f"{row.name:34} {row.cpu * 1e3:9.1f} {ratio:7.2f} {row.wall * 1e3:9.1f}")
    return "\n".join(lines)


def machine() -> dict[str, str]:
    """Return what a reader must know of the machine and the Python."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": str(os.cpu_count()),
        "system": platform.system(),
    }


def write_json(path: Path | None, name: str, rows: Sequence[Measured]) -> None:
    """Write a result as JSON when a path was given."""
    if path is not None:
        data = {"benchmark": name, "machine": machine(), "rows": [asdict(row) for row in rows]}
        path.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


def beside(program: str) -> str | None:
    """Return the path of a program installed beside this Python, or None."""
    path = Path(sys.executable).with_name(program)
    return str(path) if path.exists() else None
