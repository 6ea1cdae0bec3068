"""The parts of ``python -m benchmarks``: what each measures, and with which inputs."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import growth
import lint_speed
import packager_speed
from lint_commands import ROOT, Others
from measure import Measured, Table, say

EXTRAS = {"torch": "verify", "flydsl": "verify", "pygls": "lsp", "pytest_lsp": "dev", "ray": "fleet"}


@dataclass(frozen=True, slots=True)
class Options:
    """How much to measure."""

    repetitions: int = 9
    quick: bool = False
    counted: bool = False
    others: Others = field(default_factory=Others)
    checkouts: tuple[Path, ...] = ()


@dataclass(slots=True)
class Section:
    """One part's tables, what is drawn of it, what was left out, and what is wrong."""

    name: str
    tables: list[Table] = field(default_factory=list)
    growths: list[growth.Growth] = field(default_factory=list)
    compared: list[tuple[str, list[Measured]]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    reached_end: bool = False

    @property
    def whole(self) -> bool:
        """Whether nothing of it is missing, so that it may go into the pages."""
        return self.reached_end and not self.left_out

    def add(self, made: tuple[Table, list[Measured]]) -> None:
        """Take a comparison in."""
        self.tables.append(made[0])
        self.compared.append((made[0].title, made[1]))

    def grow(self, made: growth.Growth) -> None:
        """Take something that grows in."""
        self.growths.append(made)
        self.tables.append(made.table())

    def lacks(self, what: str, *modules: str) -> bool:
        """Whether a module is not installed; then ``what`` is left out."""
        missing = [name for name in modules if importlib.util.find_spec(name) is None]
        if missing:
            extras = ",".join(dict.fromkeys(EXTRAS[name] for name in missing))
            self.left_out.append(f"{what}: needs {', '.join(missing)} (pip install 'kernel-lint[{extras}]')")
        return bool(missing)

    def script(self, *words: str) -> None:
        """Run a script that measures itself and take its tables; one over its own limit is a problem."""
        say(f"  benchmarks/{' '.join(words)}")
        with tempfile.TemporaryDirectory(prefix="kernel-lint-bench-") as folder:
            path = Path(folder, "tables.json")
            argv = [sys.executable, str(ROOT / "benchmarks" / words[0]), *words[1:], "--json", str(path)]
            code, said = _followed(argv)
            made = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
        self.tables += map(Table.from_json, made)
        if code:
            problem = f"benchmarks/{words[0]}: exit {code}: {said}"
            if not made:
                raise SystemExit(problem)
            self.problems.append(problem)


def _followed(argv: list[str]) -> tuple[int, str]:
    """Run a program, show what it says on standard error, and return its exit code and its last line."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as out:
        last = ""
        with subprocess.Popen(argv, stdout=out, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            for line in process.stderr:
                last = line.strip() or last
                print(line, end="", file=sys.stderr, flush=True)
        out.seek(0)
        lines = out.read().strip().splitlines()
    return process.returncode, last or (lines[-1] if lines else "it says nothing")


def lint(section: Section, options: Options) -> None:
    """Lint one file."""
    runs = 3 if options.quick else options.repetitions
    section.add(
        lint_speed.one_file(1000, runs, options.others, counted=options.counted, slow=not options.quick)
    )


def files(section: Section, options: Options) -> None:
    """Lint many files."""
    runs = 1 if options.quick else max(options.repetitions // 3, 1)
    for count, lines in ((24, 60),) if options.quick else ((577, 100), (1000, 100)):
        section.add(lint_speed.many_files(count, lines, runs, options.others))
    for checkout in options.checkouts:
        section.add(lint_speed.real_files(checkout, runs, options.others))


def package(section: Section, options: Options) -> None:
    """Package workspaces."""
    runs = 2 if options.quick else options.repetitions
    section.add(packager_speed.workspaces(10 if options.quick else 50, runs, counted=options.counted))
    section.add(packager_speed.example(runs, counted=options.counted))


def grow(section: Section, options: Options) -> None:
    """Grow every input."""
    quick = options.quick
    section.grow(growth.file_lines((100, 300, 1000) if quick else growth.LINES))
    section.grow(growth.many_files((1, 10, 30) if quick else growth.FILES))
    section.grow(growth.known_files((10, 30, 100) if quick else growth.FILES))
    section.grow(growth.modules((1, 10, 30) if quick else growth.MODULES))
    if not section.lacks("rows in the emulator", "flydsl", "torch"):
        section.grow(growth.emulator_rows((64, 256) if quick else growth.ROWS))


def editor(section: Section, options: Options) -> None:
    """Time the language server."""
    if not section.lacks("the language server", "pygls", "pytest_lsp"):
        section.script("language_server.py", "--rounds", "3" if options.quick else "15")


def verify(section: Section, options: Options) -> None:
    """Time what verify adds to running a candidate, and the comparison of outputs."""
    if not section.lacks("verify", "torch"):
        quick = options.quick
        section.script("verify_overhead.py", *(("--shapes", "2", "--repeats", "1") if quick else ()))
        words = ("--elements", str(2**18)) if quick else ("--dtype", "bfloat16")
        section.script("verify_compare.py", *words)


def emulator(section: Section, options: Options) -> None:
    """Time the emulator."""
    if not section.lacks("the emulator", "flydsl", "torch"):
        section.script("emulator_speed.py", *(("--quick",) if options.quick else ()))
        section.script("emulator_numerics.py", *(("--waves", "16") if options.quick else ()))


def fleet(section: Section, options: Options) -> None:
    """Time what a fleet costs a task, and the spreading."""
    if section.lacks("the fleet", "torch"):
        return
    words = ["--shapes", "4", "--candidates", "200", "--tasks", "200"] if options.quick else []
    if options.quick or section.lacks("an emulated task", "flydsl"):
        words.append("--no-emulate")
    if options.quick or section.lacks("Ray", "ray"):
        words.append("--no-ray")
    section.script("fleet.py", *words)


@dataclass(frozen=True, slots=True)
class Part:
    """What measures a part, and what that is in a few words."""

    run: Callable[[Section, Options], None]
    about: str


PARTS = {
    "lint": Part(lint, "one file, beside other linters"),
    "files": Part(files, "hundreds of files, beside other linters"),
    "package": Part(package, "workspaces, beside other packagers"),
    "growth": Part(grow, "lines, files, modules, rows"),
    "editor": Part(editor, "the language server"),
    "verify": Part(verify, "what judging costs a shape"),
    "emulator": Part(emulator, "two kernels, and instructions"),
    "fleet": Part(fleet, "what spreading costs a task"),
}


def measure(name: str, section: Section, options: Options) -> None:
    """Measure a part into its section; what was measured before something went wrong stays there."""
    PARTS[name].run(section, options)
    section.reached_end = True
