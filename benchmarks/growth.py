"""How time and memory grow: with a file's lines, files, a workspace's modules, the emulator's rows.

Each size runs in a process of its own, twice or more often, of which the best counts. What an
empty input takes (starting Python, loading the linter) is taken off, and a power of the size is fitted to
what is left: 1.0 is linear. Memory is the largest process's.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import emulator_speed
import packager_speed
from lint_commands import program
from lint_corpus import kernel_file, write_tree
from measure import Command, Sample, Table, once, say

LINES = (100, 300, 1_000, 3_000, 10_000, 30_000, 50_000)
FILES = (1, 10, 100, 1_000, 5_000)
MODULES = (1, 10, 100, 300, 1_000)
ROWS = (1_024, 4_096, 16_384, 65_536)
FILE_LINES = 60
# Runs that together are shorter than this are repeated, up to so often.
REPEAT_SECONDS = 1.5
REPEATS = 7
# What is less than this beyond an empty input is lost in the noise of starting a process.
NOISE_SECONDS = 0.002
NOISE_MIB = 0.5


@dataclass(frozen=True, slots=True)
class Growth:
    """One thing that grows: sizes with their samples, the best of the repetitions each."""

    title: str
    unit: str
    sizes: tuple[int, ...]
    samples: tuple[Sample, ...]
    fixed: Sample

    def beyond(self) -> list[float | None]:
        """Return the CPU seconds beyond the fixed part; None for what is lost in the noise."""
        return [_beyond(sample.cpu, self.fixed.cpu, NOISE_SECONDS) for sample in self.samples]

    def memory_beyond(self) -> list[float | None]:
        """Return the same of memory."""
        return [_beyond(sample.peak, self.fixed.peak, NOISE_MIB) for sample in self.samples]

    def table(self) -> Table:
        """Return the figures, with the powers in the note."""
        rows = tuple(
            (f"{size:,}", s.cpu, None if net is None else net / size * 1e6, s.wall, s.peak)
            for size, s, net in zip(self.sizes, self.samples, self.beyond(), strict=True)
        )
        note = ", ".join(
            (
                _power("CPU time", fit(self.sizes, self.beyond()), self.unit),
                _power("memory", fit(self.sizes, self.memory_beyond()), self.unit),
            )
        )
        columns = (self.unit, "CPU s", f"µs for each of the {self.unit}, beyond the start", "wall s", "MiB")
        return Table(self.title, columns, rows, note)


def _beyond(value: float, fixed: float, noise: float) -> float | None:
    return value - fixed if value - fixed > noise else None


def _power(what: str, power: float | None, unit: str) -> str:
    if power is None:
        return f"{what} hardly grows"
    return f"{what} grows with the power {power:.2f} of the {unit}"


def fit(sizes: Sequence[int], costs: Sequence[float | None]) -> float | None:
    """Return the slope of log cost over log size, by least squares over the larger half of the sizes.

    The smaller half is mostly what does not grow; None when fewer than two points are left.
    """
    points = [(math.log(size), math.log(cost)) for size, cost in zip(sizes, costs, strict=True) if cost]
    points = points[-max(2, (len(sizes) + 1) // 2) :]
    if len(points) < 2:
        return None
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else None


def file_lines(sizes: Sequence[int]) -> Growth:
    """Lint one file of growing length."""

    def command(size: int, folder: Path) -> Command:
        path = folder / "generated_kernel.py"
        path.write_text(kernel_file(size) if size else "", encoding="utf-8")
        return Command(f"{size} lines", (*program(), "check", str(path), "--isolated", "--no-cache"))

    return _grow("Lines in a file", "lines", sizes, command)


def many_files(sizes: Sequence[int]) -> Growth:
    """Lint growing numbers of files."""

    def command(size: int, folder: Path) -> Command:
        _tree(folder / "tree", size)
        words = (*program(), "check", str(folder / "tree"), "--isolated", "--no-cache")
        return Command(f"{size} files", words)

    return _grow(f"Files of {FILE_LINES} lines", "files", sizes, command)


def _tree(folder: Path, size: int) -> None:
    """Write so many files; none is one empty file, since without any there is nothing to do."""
    folder.mkdir()
    write_tree(folder, size, FILE_LINES)
    if not size:
        (folder / "empty.py").touch()


def known_files(sizes: Sequence[int]) -> Growth:
    """Lint growing numbers of files again, with the answer in the cache."""

    def command(size: int, folder: Path) -> Command:
        _tree(folder / "tree", size)
        words = (
            *program(),
            "check",
            str(folder / "tree"),
            "--isolated",
            "--cache-dir",
            str(folder / "cache"),
        )
        made = Command(f"{size} files, warm", words)
        once(made)
        return made

    return _grow(f"Files of {FILE_LINES} lines, warm cache", "files", sizes, command)


def modules(sizes: Sequence[int]) -> Growth:
    """Package workspaces of growing numbers of modules, all of which the entry reaches."""

    def command(size: int, folder: Path) -> Command:
        entry = packager_speed.write_workspace(folder / "work", max(size, 1))
        return packager_speed.ours(entry, folder)

    return _grow("Modules in a workspace", "modules", sizes, command)


def emulator_rows(sizes: Sequence[int]) -> Growth:
    """Emulate softmax on growing numbers of rows of 2,048; needs FlyDSL.

    Times are those of the launch alone, as emulator_speed.py measures them.
    """
    title = "Rows of 2,048 in the emulator"
    say(f"  {title}: {', '.join(map('{:,}'.format, sizes))}")
    samples = []
    for size in (min(sizes) // 4, *sizes):
        row = emulator_speed.in_own_process("softmax", size, "cpu", "none", 2)
        samples.append(Sample(row["cpu_s"], row["wall_s"], row["peak_mib"]))
    fixed = Sample(0.0, 0.0, samples[0].peak)
    return Growth(title, "rows", tuple(sizes), tuple(samples[1:]), fixed)


def _grow(title: str, unit: str, sizes: Sequence[int], command: Callable[[int, Path], Command]) -> Growth:
    say(f"  {title}: {', '.join(map('{:,}'.format, sizes))}")
    samples = []
    for size in (0, *sizes):
        with tempfile.TemporaryDirectory() as name:
            made = command(size, Path(name))
            runs = [once(made)]
            while len(runs) < 2 or (sum(run.wall for run in runs) < REPEAT_SECONDS and len(runs) < REPEATS):
                runs.append(once(made))
        least = min(run.cpu for run in runs), min(run.wall for run in runs), min(run.peak for run in runs)
        samples.append(Sample(*least))
    return Growth(title, unit, tuple(sizes), tuple(samples[1:]), samples[0])
