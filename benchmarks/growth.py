"""How time and memory grow: with a file's lines, files, a workspace's modules, the emulator's rows.

Each size runs in a process of its own. What the smallest input takes (starting Python, loading the
linter) is taken off, and a power of the size is fitted to what is left: 1.0 is linear.
"""

from __future__ import annotations

import importlib.util
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import packager_speed
from lint_commands import ROOT, program
from lint_corpus import kernel_file, write_tree
from measure import Command, Sample, Table, once

LINES = (100, 300, 1_000, 3_000, 10_000, 30_000, 50_000)
FILES = (1, 10, 100, 1_000, 5_000)
MODULES = (1, 10, 100, 1_000)
ROWS = (1_024, 4_096, 16_384, 65_536)
FILE_LINES = 60


@dataclass(frozen=True, slots=True)
class Growth:
    """One thing that grows: sizes with their samples, the best of the repetitions each."""

    title: str
    unit: str
    sizes: tuple[int, ...]
    samples: tuple[Sample, ...]
    fixed: Sample

    def exponent(self) -> float | None:
        """Return the power of the size that CPU time grows with, beyond the fixed part."""
        return fit(self.sizes, [sample.cpu - self.fixed.cpu for sample in self.samples])

    def memory_exponent(self) -> float | None:
        """Return the same of memory."""
        return fit(self.sizes, [sample.peak - self.fixed.peak for sample in self.samples])

    def table(self) -> Table:
        """Return the figures, with the powers in the note."""
        rows = tuple(
            (f"{size:,}", s.cpu, (s.cpu - self.fixed.cpu) / size * 1e6, s.wall, s.peak)
            for size, s in zip(self.sizes, self.samples, strict=True)
        )
        powers = [self.exponent(), self.memory_exponent()]
        time, memory = ("?" if power is None else f"{power:.2f}" for power in powers)
        note = f"CPU time grows with the power {time} of the {self.unit}, memory with {memory}"
        columns = (self.unit, "CPU s", f"µs for each of the {self.unit}", "wall s", "MiB")
        return Table(self.title, columns, rows, note)


def fit(sizes: Sequence[int], costs: Sequence[float]) -> float | None:
    """Return the slope of log cost over log size, by least squares over the larger half of the sizes.

    The smaller half is mostly what does not grow; None when fewer than two points are left.
    """
    points = [(math.log(size), math.log(cost)) for size, cost in zip(sizes, costs, strict=True) if cost > 0]
    points = points[-max(2, (len(sizes) + 1) // 2) :]
    if len(points) < 2:
        return None
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else None


def file_lines(sizes: Sequence[int], repetitions: int = 1) -> Growth:
    """Lint one file of growing length."""

    def command(size: int, folder: Path) -> Command:
        path = folder / "generated_kernel.py"
        path.write_text(kernel_file(size) if size else "", encoding="utf-8")
        return Command(f"{size} lines", (*program(), "check", str(path), "--isolated", "--no-cache"))

    return _grow("Lines in a file", "lines", sizes, command, repetitions)


def many_files(sizes: Sequence[int], repetitions: int = 1) -> Growth:
    """Lint growing numbers of files."""

    def command(size: int, folder: Path) -> Command:
        (folder / "tree").mkdir()
        write_tree(folder / "tree", size, FILE_LINES)
        words = (*program(), "check", str(folder / "tree"), "--isolated", "--no-cache")
        return Command(f"{size} files", words)

    return _grow(f"Files of {FILE_LINES} lines", "files", sizes, command, repetitions)


def known_files(sizes: Sequence[int], repetitions: int = 1) -> Growth:
    """Lint growing numbers of files again, with the answer in the cache."""

    def command(size: int, folder: Path) -> Command:
        (folder / "tree").mkdir()
        write_tree(folder / "tree", size, FILE_LINES)
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

    return _grow(f"Files of {FILE_LINES} lines, warm cache", "files", sizes, command, repetitions)


def modules(sizes: Sequence[int], repetitions: int = 1) -> Growth:
    """Package workspaces of growing numbers of modules, all of which the entry reaches."""

    def command(size: int, folder: Path) -> Command:
        entry = packager_speed.write_workspace(folder / "work", max(size, 1))
        return packager_speed.ours(entry, folder)

    return _grow("Modules in a workspace", "modules", sizes, command, repetitions)


def emulator_rows(sizes: Sequence[int]) -> Growth | None:
    """Emulate softmax on growing numbers of rows of 2,048; None without FlyDSL.

    Times are those of the launch alone, as emulator_speed.py measures them.
    """
    if importlib.util.find_spec("flydsl") is None:
        return None
    script = str(ROOT / "benchmarks" / "emulator_speed.py")
    samples = []
    for size in (min(sizes) // 4, *sizes):
        words = [sys.executable, script, "--one", "softmax", str(size), "none", "--repeat", "2"]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        row = json.loads(done.stdout.splitlines()[-1])
        samples.append(Sample(row["cpu_s"], row["wall_s"], row["peak_mib"]))
    fixed = Sample(0.0, 0.0, samples[0].peak)
    return Growth("Rows of 2,048 in the emulator", "rows", tuple(sizes), tuple(samples[1:]), fixed)


def _grow(
    title: str, unit: str, sizes: Sequence[int], command: Callable[[int, Path], Command], repetitions: int
) -> Growth:
    samples = []
    for size in (0, *sizes):
        with tempfile.TemporaryDirectory() as name:
            made = command(size, Path(name))
            runs = [once(made) for _ in range(repetitions)]
        samples.append(min(runs, key=lambda run: run.cpu))
    return Growth(title, unit, tuple(sizes), tuple(samples[1:]), samples[0])
