"""The commands that lint: ours and the peers that are installed, set up alike."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from machine import beside, commit_of, importable, program_version
from measure import Command

ROOT = Path(__file__).resolve().parents[1]
PEERS_FOLDER = ROOT / "benchmarks" / "peers"
BENCH = "pip install 'kernel-lint[bench]'"
_INDEXED = ("ruff", "flake8", "pylint", "ast-grep")
_CHECKER = Path("src", "kernelbench", "kernel_static_checker.py")
# flake8 loads every plugin that it finds, ours among them; this is flake8 with its own checks alone.
_FLAKE8 = """\
import importlib.metadata as m
found = m.distributions
own = {"flake8", "pyflakes", "pycodestyle", "mccabe"}
m.distributions = lambda **k: [d for d in found(**k) if d.metadata["Name"] in own]
from flake8.main.cli import main
raise SystemExit(main())
"""
_KERNELBENCH = """\
import importlib.util, pathlib, sys
spec = importlib.util.spec_from_file_location("checker", sys.argv[1])
checker = importlib.util.module_from_spec(spec)
spec.loader.exec_module(checker)
for path in map(pathlib.Path, sys.argv[2:]):
    for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
        checker.validate_kernel_static(file.read_text())
"""


@dataclass(frozen=True, slots=True)
class Others:
    """Where peers are that no package index brings: a semgrep of its own environment (it wants older
    versions of what others want too), a checkout of KernelBench."""

    semgrep: str | None = None
    kernelbench: Path | None = None

    def semgrep_program(self) -> str | None:
        """Return the program asked for, or the one that is installed."""
        return self.semgrep or beside("semgrep")

    def checker(self) -> Path | None:
        """Return KernelBench's static checker, or None."""
        return None if self.kernelbench is None else self.kernelbench / _CHECKER

    def problem(self) -> str | None:
        """Return what is wrong with what was asked for, or None."""
        if self.semgrep is not None and program_version(self.semgrep) == "?":
            return f"--semgrep {self.semgrep}: that program does not answer to --version"
        checker = self.checker()
        if checker is not None and not checker.is_file():
            return f"--kernelbench {self.kernelbench}: there is no {_CHECKER} in it"
        return None

    def found(self) -> dict[str, str]:
        """Return the versions of the peers that are here."""
        programs = {name: beside(name) for name in _INDEXED}
        programs["semgrep"] = self.semgrep_program()
        versions = {name: program_version(path) for name, path in programs.items() if path}
        if self.kernelbench is not None:
            versions["KernelBench"] = f"at {commit_of(self.kernelbench)}"
        return versions

    def missing(self) -> list[str]:
        """Return a line for each peer that is not here, and how to have it."""
        here = self.found()
        brought = dict.fromkeys(_INDEXED, BENCH)
        brought["semgrep"] = "pip install semgrep in an environment of its own, then --semgrep PROGRAM"
        brought["KernelBench"] = "git clone KernelBench, then --kernelbench CHECKOUT"
        return [f"{name}: {how}" for name, how in brought.items() if name not in here]


def base(statement: str, name: str) -> Command:
    """Return what Python itself takes."""
    return Command(name, (sys.executable, "-c", statement))


def program() -> tuple[str, ...]:
    """Return how kernel-lint is started: as installed, or as a module from a checkout."""
    script = beside("kernel-lint")
    return (script,) if script else (sys.executable, "-m", "kernel_lint")


def ours(path: Path, folder: Path) -> list[Command]:
    """Return our commands: without any cache, and with one that holds every answer."""
    words = (*program(), "check", str(path), "--isolated")
    cache = str(folder / "cache")
    return [
        Command("kernel-lint, cold", (*words, "--no-cache")),
        Command("kernel-lint, warm cache", (*words, "--cache-dir", cache)),
    ]


def changed(path: Path, folder: Path, file: Path) -> Command:
    """Return our command with a cache, after one file of many got a new line."""
    words = shlex.join([*program(), "check", str(path), "--isolated", "--cache-dir", str(folder / "cache")])
    script = f"date +'# %s%N' >> {shlex.quote(str(file))}; exec {words}"
    return Command("kernel-lint, warm, one file changed", ("sh", "-c", script))


def peers(path: Path, others: Others, *, slow: bool = True) -> list[Command]:
    """Return the peers' commands; ``slow`` ones are left out where there are many files."""
    python, name = sys.executable, str(path)
    commands: list[Command] = []

    def add(title: str, *words: str, **more: Any) -> None:
        commands.append(Command(title, words, optional=True, **more))

    if ruff := beside("ruff"):
        add("ruff, no cache", ruff, "check", "--no-cache", "--isolated", name)
    if importable("flake8"):
        add("flake8", python, "-c", _FLAKE8, "--isolated", name)
    if astgrep := beside("ast-grep"):
        config = str(ROOT / "sgconfig.yml")
        add("ast-grep (our structural rules)", astgrep, "scan", "--config", config, name, cwd=str(ROOT))
    if checker := others.checker():
        add("KernelBench's checker", python, "-c", _KERNELBENCH, str(checker), name)
    if semgrep := others.semgrep_program():
        rules = str(PEERS_FOLDER / "semgrep.yml")
        flags = ("--metrics=off", "--disable-version-check", "--quiet", "--error", "--config", rules)
        add("semgrep (the same rules)", semgrep, "scan", *flags, name)
    if slow and importable("pylint"):
        add("pylint", python, "-m", "pylint", name, ok=tuple(range(32)))
    return commands
