"""Small programs of several files, each kept as one text file under ``data``.

A file's first lines say what the program shows; ``=== name`` starts each of its files, and
``=== expected.txt`` what ``main.py`` prints. ``=== refused`` instead holds words of the refusal.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

DATA = Path(__file__).with_name("data")


def names() -> list[str]:
    """Return the names of all programs that this interpreter can run (``_py311``: from 3.11)."""
    found = sorted(path.stem for path in DATA.glob("*.txt"))
    return [name for name in found if sys.version_info >= _since(name)]


def _since(name: str) -> tuple[int, int]:
    mark = name.rpartition("_py")[2]
    return (3, int(mark[1:])) if mark.isdecimal() else (3, 10)


def files(name: str) -> dict[str, str]:
    """Return a program's files by their path."""
    found: dict[str, str] = {}
    current = None
    for line in (DATA / f"{name}.txt").read_text().splitlines(keepends=True):
        if line.startswith("=== "):
            current = line[4:].strip()
            found[current] = ""
        elif current is not None:
            found[current] += line
    return found


def write(found: dict[str, str], folder: Path) -> None:
    """Write a program's files under ``folder``."""
    for path, text in found.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


def run(path: Path) -> tuple[str, str, int]:
    """Run a file alone, as ``python -I`` from its folder; return output, errors and exit code."""
    done = subprocess.run(
        [sys.executable, "-I", path.name],
        cwd=path.parent,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout, done.stderr, done.returncode


def run_original(folder: Path) -> str:
    """Run the program's ``main.py`` where its modules are, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "main.py"], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout
