"""CPU time and imports of ``kernel-lint FILE`` on a 1,000-line file, beside its peers.

    python benchmarks/lint_startup.py [--repetitions N] [--json FILE]

Peers are measured when they are installed beside this Python.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from lint_corpus import kernel_file
from measure import Command, beside, compare, machine, table, write_json

HEAVY = ("torch", "flydsl", "libcst", "pygls", "matplotlib", "yaml", "jsonschema", "numpy")


def main() -> None:
    """Print the table, the imports, and fail when something heavy is imported."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=15)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "generated_kernel.py")
        path.write_text(kernel_file(1000), encoding="utf-8")
        rows = compare(_commands(str(path), folder), options.repetitions)
        print(f"{machine()}, {len(path.read_text().splitlines())} lines")
        print(table("kernel-lint FILE beside its peers", rows, "python -c pass"))
        modules = _imports(str(path))
    write_json(options.json, "lint_startup", rows)
    print(
        f"{len(modules)} modules imported, of them ours: {sum(m.startswith('kernel_lint') for m in modules)}"
    )
    heavy = sorted(set(HEAVY) & {m.partition(".")[0] for m in modules})
    if heavy:
        sys.exit(f"kernel-lint FILE imports {', '.join(heavy)}")
    print(f"none of {', '.join(HEAVY)} is among them")


def _commands(path: str, folder: str) -> list[Command]:
    python = sys.executable
    ours = (python, "-m", "kernel_lint", "check", path, "--isolated")
    commands = [
        Command("python -c pass", (python, "-c", "pass")),
        Command("python -c 'import click'", (python, "-c", "import click")),
        Command("kernel-lint, cold", (*ours, "--no-cache")),
        Command("kernel-lint, warm cache", (*ours, "--cache-dir", str(Path(folder, "cache")))),
    ]
    ruff, flake8, pylint = beside("ruff"), beside("flake8"), beside("pylint")
    if ruff:
        commands.append(Command("ruff check --no-cache", (ruff, "check", "--no-cache", "--isolated", path)))
    if flake8:
        commands.append(Command("flake8", (python, "-m", "flake8", "--isolated", path)))
    if pylint:
        commands.append(Command("pylint", (python, "-m", "pylint", path), ok=tuple(range(32))))
    return commands


def _imports(path: str) -> list[str]:
    """Return the modules that a cold run imports."""
    argv = [
        sys.executable,
        "-X",
        "importtime",
        "-m",
        "kernel_lint",
        "check",
        path,
        "--isolated",
        "--no-cache",
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    rows = [
        line.rpartition("|")[2].strip()
        for line in done.stderr.splitlines()
        if line.startswith("import time:")
    ]
    return [row for row in rows if row != "imported package"]


if __name__ == "__main__":
    main()
