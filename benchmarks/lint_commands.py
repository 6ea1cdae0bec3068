"""The commands that lint: ours and the peers that are installed, set up alike."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from measure import Command, beside

ROOT = Path(__file__).resolve().parents[1]
# Programs whose versions stand beside the figures.
PEERS = ("ruff", "flake8", "pylint", "ast-grep-cli", "semgrep")
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
_SEMGREP = """\
rules:
  - {id: print, languages: [python], severity: ERROR, message: output, pattern: print(...)}
  - {id: compile, languages: [python], severity: ERROR, message: compiler, pattern: torch.compile(...)}
  - {id: main, languages: [python], severity: ERROR, message: script, pattern: '__name__ == "__main__"'}
"""


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


def peers(path: Path, folder: Path, *, kernelbench: Path | None = None, slow: bool = True) -> list[Command]:
    """Return the peers' commands; ``slow`` ones are left out where there are many files."""
    python, name = sys.executable, str(path)
    commands = []
    if ruff := beside("ruff"):
        commands.append(Command("ruff, no cache", (ruff, "check", "--no-cache", "--isolated", name)))
    if beside("flake8"):
        commands.append(Command("flake8", (python, "-c", _FLAKE8, "--isolated", name)))
    if astgrep := beside("ast-grep"):
        words = (astgrep, "scan", "--config", str(ROOT / "sgconfig.yml"), name)
        commands.append(Command("ast-grep, our structural rules", words, cwd=str(ROOT)))
    if kernelbench is not None:
        checker = kernelbench / "src" / "kernelbench" / "kernel_static_checker.py"
        commands.append(Command("KernelBench's checker", (python, "-c", _KERNELBENCH, str(checker), name)))
    if semgrep := beside("semgrep"):
        rules = folder / "semgrep.yml"
        rules.write_text(_SEMGREP, encoding="utf-8")
        flags = ("--metrics=off", "--disable-version-check", "--quiet", "--config", str(rules))
        commands.append(Command("semgrep, 3 patterns", (semgrep, "scan", *flags, name)))
    if slow and beside("pylint"):
        commands.append(Command("pylint", (python, "-m", "pylint", name), ok=tuple(range(32))))
    return commands
