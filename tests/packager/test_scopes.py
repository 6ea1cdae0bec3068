"""The scope rules agree with the standard library's symtable on this repository's own sources."""

from __future__ import annotations

import ast
import symtable
from pathlib import Path

import pytest

from kernel_lint.packager.load import analyse
from kernel_lint.packager.model import Module
from kernel_lint.packager.resolve import Finder

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "packager").glob("*.py"))

TRICKY = """
import os
x = 1
class A:
    x = x
    def f(self, y=x, *a, **k):
        global z
        z = [x for x in a if (w := x)]
        def g():
            nonlocal y
            y = lambda q: q + x + w
            return y
        return g, {k: v for k, v in k.items()}
    class B(dict):
        y = os
        __p = x
def outer(os):
    class C:
        os = os
        t = os
    try:
        pass
    except OSError as e:
        e
    with open(x) as h, h as (i, j):
        for i in j:
            del i
    match x:
        case {"a": [first, *rest], **more} | first:
            return first, rest, more, C
async def co(*, key: int = x) -> "A":
    async with x as y:
        return [z async for z in y], key
"""


class _Program:
    def __init__(self) -> None:
        self.finder = Finder([])
        self.has_model = False


def _module(text: str) -> Module:
    module = Module("m", None, "", False, text, ast.parse(text))
    analyse(_Program(), module)  # type: ignore[arg-type]
    return module


def _global_names(table: symtable.SymbolTable) -> set[str]:
    """Return the names that some scope of the module reads or changes as module-level ones."""
    found = set()
    for symbol in table.get_symbols():
        module_level = table.get_type() == "module" or symbol.is_global()
        if module_level and (symbol.is_referenced() or symbol.is_assigned() or symbol.is_imported()):
            found.add(symbol.get_name())
    for child in table.get_children():
        found |= _global_names(child)
    return found


def _ours(module: Module) -> set[str]:
    # Quoted annotations are read as code by the packager, and by symtable not.
    uses = {use.name for use in module.uses if use.is_global and not (use.annotation and use.string)}
    return (uses | set(module.bindings)) - {"<import>"}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_agrees_with_symtable(path: Path) -> None:
    text = path.read_text().replace("from __future__ import annotations", "")
    different = _ours(_module(text)) ^ _global_names(symtable.symtable(text, "m", "exec"))
    assert not different - {"__name__"}  # main guards of helpers are folded away


def test_agrees_on_tricky_scopes() -> None:
    expected = _global_names(symtable.symtable(TRICKY, "m", "exec"))
    assert not _ours(_module(TRICKY)) ^ expected


def test_class_body_reads_the_global_first() -> None:
    module = _module("x = 1\nclass A:\n    x = x\n    y = x\n")
    loads = [use for use in module.uses if use.name == "x" and use.ctx == "load"]
    assert [use.node.lineno for use in loads] == [3]


def test_private_names_are_mangled() -> None:
    module = _module("class A:\n    def f(self):\n        return __x\n")
    assert "_A__x" in {use.name for use in module.uses}
