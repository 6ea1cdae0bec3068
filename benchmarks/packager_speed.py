"""How long packaging takes beside the peers installed, each on entries that all of them can do.

Ours also drops what the entry does not reach, renames what collides and checks what it wrote; the
peers join files.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from lint_commands import ROOT, base, program
from measure import Command, Measured, Table, beside, compare, once, table
from packager_peers import PEERS as TOOLS
from packager_peers import Peer

PEERS = tuple(peer.name for peer in TOOLS)
_MODULE = '''"""Helpers number {n}."""

import math

SCALE_{n} = {n} + 1
TABLE_{n} = {{"rows": {n}, "columns": SCALE_{n}}}


def used_{n}(value):
    """Return something that depends on all the modules below."""
    return {below}value * SCALE_{n} + math.sqrt(TABLE_{n}["rows"])


def unused_{n}(value):
    return [used_{n}(value + step) for step in range(TABLE_{n}["columns"])]


class Helper{n}:
    def __init__(self, size):
        self.size = size

    def area(self):
        return self.size * self.size
'''
_ENTRY = """import torch
import torch.nn as nn
from part_0 import used_0


class Model(nn.Module):
    def forward(self, x):
        return x * used_0(1.0)
"""


def write_workspace(folder: Path, modules: int) -> Path:
    """Write a workspace of modules that import each other as a binary tree; return its entry."""
    folder.mkdir(parents=True, exist_ok=True)
    for n in range(modules):
        below = [m for m in (2 * n + 1, 2 * n + 2) if m < modules]
        imports = "".join(f"from part_{m} import used_{m}\n" for m in below)
        text = _MODULE.format(n=n, below="".join(f"used_{m}(value) + " for m in below))
        head, mark, rest = text.partition("import math\n")
        (folder / f"part_{n}.py").write_text(f"{head}{mark}\n{imports}{rest}", encoding="utf-8")
    entry = folder / "kernel.py"
    entry.write_text(_ENTRY, encoding="utf-8")
    return entry


def ours(entry: Path, folder: Path) -> Command:
    """Return our command for an entry."""
    out = str(folder / "ours.py")
    return Command("kernel-lint package", (*program(), "package", str(entry), "-o", out), ok=(0,))


def peer(tool: Peer, entry: Path, folder: Path) -> Command | None:
    """Return a peer's command for an entry, or None where it is not installed."""
    found = beside(tool.words[0])
    if found is None:
        return None
    out = str(folder / f"{tool.name}.py")
    words = tuple(word.format(out=out) for word in tool.words[1:])
    env = (("PYTHONPATH", str(entry.parent)), ("PYTHONWARNINGS", "ignore"))
    return Command(tool.name, (found, *words), ok=(0,), env=env, cwd=str(entry.parent))


def workspaces(modules: int, repetitions: int, *, counted: bool = False) -> tuple[Table, list[Measured]]:
    """Package a generated workspace."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        entry = write_workspace(folder / "work", modules)
        rows = _compare(entry, folder, repetitions, counted)
    return table(f"A workspace of {modules} modules", rows, _reference(rows), _note(repetitions)), rows


def example(repetitions: int, *, counted: bool = False) -> tuple[Table, list[Measured]]:
    """Package the softmax example."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(ROOT / "examples" / "softmax", folder / "work")
        rows = _compare(folder / "work" / "kernel.py", folder, repetitions, counted)
    return table("The softmax example", rows, _reference(rows), _note(repetitions)), rows


def _compare(entry: Path, folder: Path, repetitions: int, counted: bool) -> list[Measured]:
    commands = [base("pass", "python -c pass"), ours(entry, folder)]
    for tool in TOOLS:
        command = peer(tool, entry, folder)
        if command is not None and _works(command):
            commands.append(command)
    return compare(commands, repetitions, counted=counted)


def _works(command: Command) -> bool:
    try:
        once(command)
    except SystemExit:
        return False
    return True


def _reference(rows: list[Measured]) -> str:
    return "cribo" if any(row.name == "cribo" for row in rows) else rows[0].name


def _note(repetitions: int) -> str:
    return f"medians of {repetitions} interleaved runs; peers that cannot do it are left out"
