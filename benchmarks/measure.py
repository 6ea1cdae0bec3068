"""Measuring commands side by side: interleaved repetitions, medians, ratios to a base.

CPU seconds are what the kernel charged the child and its children (``wait4``), so that
another program on the machine moves them little; wall seconds are shown beside them.
Instructions (see counting.py) move with nothing.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import counting
from machine import beside
from starter import Starter
from tables import Table

__all__ = ["Command", "Measured", "Sample", "Table", "beside", "compare", "instructions", "once", "table"]

# What takes longer runs in every third round only, where there are so many.
SLOW_SECONDS = 1.5
_starter = Starter()


@dataclass(frozen=True, slots=True)
class Command:
    """A command to measure; ``ok`` are the exit codes that count as success, ``cwd`` where it runs.

    It may take ``timeout`` seconds each time. One that is ``optional`` is left out, with a line that
    says why, where it does not work.
    """

    name: str
    argv: tuple[str, ...]
    ok: tuple[int, ...] = (0, 1)
    env: tuple[tuple[str, str], ...] = ()
    cwd: str | None = None
    optional: bool = False
    timeout: float | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """One run: seconds of CPU and wall, and the largest resident set of its processes in MiB."""

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


def say(line: str) -> None:
    """Tell a person who waits what is going on."""
    print(line, file=sys.stderr, flush=True)


def environment(command: Command) -> dict[str, str]:
    """Return the environment in which a command runs."""
    env = {**os.environ, **dict(command.env)}
    # Installed programs have their bytecode on disk; so must what is compared with them.
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    return env


def once(command: Command) -> Sample:
    """Run a command; raises SystemExit when it fails."""
    handle, name = tempfile.mkstemp(prefix="kernel-lint-bench-")
    os.close(handle)
    errors = Path(name)
    try:
        folder = os.path.abspath(command.cwd or os.curdir)
        spent = _starter.run(command.argv, environment(command), folder, name, command.timeout)
        if spent.code not in command.ok:
            said = errors.read_text(encoding="utf-8", errors="replace").strip()[-500:]
            raise SystemExit(f"{command.name}: exit {spent.code}: {said or 'it says nothing'}")
    except TimeoutError as error:
        raise SystemExit(f"{command.name}: {error}") from None
    except OSError as error:
        raise SystemExit(f"{command.name} cannot be run: {error}") from None
    finally:
        errors.unlink(missing_ok=True)
    return Sample(spent.cpu, spent.wall, spent.peak)


def instructions(command: Command) -> int:
    """Return the user-mode instructions of a command and its children; raises SystemExit, see counting.py."""
    return counting.count(command.name, command.argv, command.ok, environment(command), command.cwd)


def compare(commands: Sequence[Command], repetitions: int, *, counted: bool = False) -> list[Measured]:
    """Measure all commands in turns, after one warm-up round, and return medians.

    Those that take longer than ``SLOW_SECONDS`` run in every third round when there are more than
    three. ``counted`` counts the instructions of each once more, but for the slow ones, since
    counting takes up to a hundred times as long as running.
    """
    works: dict[str, Command] = {}
    slow: set[str] = set()
    seconds = 0.0
    for command in commands:
        first = _warmed(command)
        if first is None:
            continue
        works[command.name] = command
        rare = first.wall > SLOW_SECONDS
        slow |= {command.name} if rare else set()
        seconds += first.wall * (-(-repetitions // 3) if rare and repetitions > 3 else repetitions)
    rounds = f"{repetitions} round{'s' if repetitions > 1 else ''}"
    say(f"  {rounds} of {len(works)} commands: about {seconds:.0f} s")
    samples: dict[str, list[Sample]] = {name: [] for name in works}
    for turn in range(repetitions):
        for name, command in works.items():
            if name not in slow or turn % 3 == 0 or repetitions <= 3:
                samples[name].append(once(command))
    if counted:
        say("  counting instructions: up to a hundred times as long as one round")
    counts = {name: instructions(works[name]) for name in works if counted and name not in slow}
    return [_medians(name, rows, counts.get(name)) for name, rows in samples.items()]


def _warmed(command: Command) -> Sample | None:
    """Run a command for the first time; None for an optional one that does not work."""
    try:
        return once(command)
    except SystemExit as error:
        if not command.optional:
            raise
        say(f"  left out: {error}")
        return None


def _medians(name: str, rows: Sequence[Sample], counted: int | None) -> Measured:
    return Measured(
        name,
        statistics.median(sample.cpu for sample in rows),
        statistics.median(sample.wall for sample in rows),
        len(rows),
        statistics.median(sample.peak for sample in rows),
        counted,
    )


def table(title: str, rows: Sequence[Measured], base: str, note: str = "") -> Table:
    """Return a table with each command's ratio to the one called ``base``."""
    unit = next(row for row in rows if row.name == base)
    columns = ["", "CPU ms", f"times {base}", "wall ms"]
    cells: list[list[Any]] = [[r.name, r.cpu * 1e3, r.cpu / unit.cpu, r.wall * 1e3] for r in rows]
    if any(row.instructions is not None for row in rows):
        columns.append("M instructions")
        for line, row in zip(cells, rows, strict=True):
            line.append(None if row.instructions is None else row.instructions / 1e6)
    return Table(title, tuple(columns), tuple(map(tuple, cells)), note)


def runs(rows: Sequence[Measured]) -> str:
    """Return how often the commands ran, as a note under a table."""
    most = max(row.runs for row in rows)
    fewer = [row for row in rows if row.runs < most]
    times = f"medians of {most} interleaved runs" if most > 1 else "one run each"
    if not fewer:
        return times
    return f"{times} ({fewer[0].runs} of {', '.join(row.name for row in fewer)})"
