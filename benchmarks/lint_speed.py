"""How long linting takes: one file, hundreds of files, real ones, beside the peers that are installed."""

from __future__ import annotations

import tempfile
from pathlib import Path

from lint_commands import Others, base, changed, ours, peers
from lint_corpus import copy_tree, kernel_file, write_tree
from machine import commit_of
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
        paths = write_tree(Path(name, "tree"), files, lines)
        return _tree(Path(name), paths, "", repetitions, others)


def real_files(checkout: Path, repetitions: int, others: Others) -> tuple[Table, list[Measured]]:
    """Lint the Python files of a checkout: not clean, not made for this, some of them long."""
    with tempfile.TemporaryDirectory() as name:
        paths = copy_tree(checkout, Path(name, "tree"))
        where = f"{checkout.absolute().name} at {commit_of(checkout)}: "
        return _tree(Path(name), paths, where, repetitions, others)


def _tree(
    folder: Path, paths: list[Path], where: str, repetitions: int, others: Others
) -> tuple[Table, list[Measured]]:
    tree = folder / "tree"
    total = sum(path.read_bytes().count(b"\n") for path in paths)
    commands = [*ours(tree, folder), changed(tree, folder, paths[0])]
    commands += peers(tree, others, slow=False)
    rows = compare(commands, repetitions)
    return _table(f"{where}{len(paths):,} files, {total:,} lines", rows), rows


def _table(title: str, rows: list[Measured]) -> Table:
    reference = BASE if any(row.name == BASE for row in rows) else rows[0].name
    return table(title, rows, reference, runs(rows))
