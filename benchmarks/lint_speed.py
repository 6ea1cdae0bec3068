"""How long linting takes: one file of 1,000 lines, and hundreds of files, beside the peers installed."""

from __future__ import annotations

import tempfile
from pathlib import Path

from lint_commands import Others, base, changed, ours, peers
from lint_corpus import kernel_file, write_tree
from measure import Measured, Table, compare, runs, table

# What each row is a multiple of.
BASE = "ruff, no cache"
PYTHON, CLICK = "python -c pass", "python -c 'import click'"


def one_file(
    lines: int, repetitions: int, others: Others, *, counted: bool = False, slow: bool = True
) -> tuple[Table, list[Measured]]:
    """Lint one clean candidate of about ``lines`` lines."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "generated_kernel.py"
        path.write_text(kernel_file(lines), encoding="utf-8")
        length = len(path.read_text(encoding="utf-8").splitlines())
        commands = [base("pass", PYTHON), base("import click", CLICK), *ours(path, folder)]
        commands += peers(path, others, slow=slow)
        rows = compare(commands, repetitions, counted=counted)
    return _table(f"One file of {length:,} lines", rows), rows


def many_files(files: int, lines: int, repetitions: int, others: Others) -> tuple[Table, list[Measured]]:
    """Lint ``files`` different candidates of about ``lines`` lines each."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = write_tree(folder / "tree", files, lines)
        total = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)
        commands = [*ours(folder / "tree", folder), changed(folder / "tree", folder, paths[0])]
        commands += peers(folder / "tree", others, slow=False)
        rows = compare(commands, repetitions)
    return _table(f"{files:,} files, {total:,} lines", rows), rows


def _table(title: str, rows: list[Measured]) -> Table:
    reference = BASE if any(row.name == BASE for row in rows) else rows[0].name
    return table(title, rows, reference, runs(rows))
