"""What a workspace reads from beside its source text: data files, and the table of modules."""

from __future__ import annotations

import ast
import os
from pathlib import Path

from kernel_lint import TYPE_CHECKING
from kernel_lint.packager.graph import Program
from kernel_lint.packager.model import Module, Use

if TYPE_CHECKING:
    from collections.abc import Iterator

DATA_REMEDY = "move the data into a Python constant, or what reads it out of the kernel"
_RESOURCES = ("pkgutil.get_data", "importlib.resources", "runpy.run_path", "runpy.run_module")
_CHANGES = ("pop", "setdefault", "update", "clear", "popitem")


def data_reason(program: Program, use: Use, dotted: str) -> str:
    """Return why a call of ``dotted`` reads a file of the workspace, "" where it does not seem to."""
    if use.call is None or not use.call.args:
        return ""
    name = program.fold(use.unit.module, use.call.args[0])
    if dotted.startswith(_RESOURCES) and any(f"{dotted}.".startswith(f"{item}.") for item in _RESOURCES):
        if name is None or program.finder.is_local_root(name) or _is_file(program, use.unit.module, name):
            return f"{dotted} reads or runs a file of the workspace, which the result does not have beside it"
        return ""
    if name and _is_file(program, use.unit.module, name):
        return f"{name} is read, a file that the result does not have beside it"
    return ""


def _is_file(program: Program, module: Module, name: str) -> bool:
    if "." not in name or "\0" in name:
        return False
    path = Path(name)
    if path.is_absolute() or not path.suffix:
        return False
    folders = [*program.finder.roots, *([module.path.parent] if module.path else [])]
    return any(os.path.isfile(folder / path) for folder in folders)  # a name that cannot be one is none


def changes_of_modules(program: Program, module: Module, node: ast.stmt) -> Iterator[int]:
    """Yield the lines in which ``sys.modules`` is changed, or asked for a local module by a method."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Subscript) and _is_table(inner.value):
            if not isinstance(inner.ctx, ast.Load) and _is_local(program, module, inner.slice):
                yield inner.lineno
        elif isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
            if _is_table(inner.func.value) and inner.func.attr in (*_CHANGES, "get"):
                if not inner.args or _is_local(program, module, inner.args[0]):
                    yield inner.lineno


def _is_table(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Attribute) and node.attr == "modules" and getattr(node.value, "id", "") == "sys"
    )


def _is_local(program: Program, module: Module, key: ast.expr) -> bool:
    if isinstance(key, ast.Name) and key.id == "__name__":
        return True
    name = program.fold(module, key)
    return name is None or program.finder.is_local_root(name)
