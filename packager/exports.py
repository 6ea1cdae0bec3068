"""What ``__all__`` holds, where the module's text says so."""

from __future__ import annotations

import ast
import importlib
import sys

from kernel_lint import TYPE_CHECKING
from kernel_lint.packager.known import BUILTINS
from kernel_lint.packager.model import Mod, Module

if TYPE_CHECKING:
    from kernel_lint.packager.graph import Program


def all_names(program: Program, module: Module) -> list[str] | None:
    """Return the module's ``__all__``, None where it has none.

    Where it is computed in a way that the text does not show, every name that the module
    binds is returned: a working program only reads those that really are exported.
    """
    if "__all__" not in module.bindings:
        return None
    names: list[str] = []
    understood = 0
    for unit in module.units:
        mentions = [use for use in unit.uses if use.name == "__all__"]
        if not mentions:
            continue
        added = _statement(program, module, unit.node)
        if added is None:
            break
        names.extend(added)
        understood += len(mentions)
    if understood == sum(use.name == "__all__" for use in module.uses):
        return list(dict.fromkeys(names))
    return [name for name in module.bindings if not name.startswith("__")]


def offers(module: str, name: str) -> bool:
    """Whether ``from module import *`` of an installed module binds ``name``.

    A standard module is asked; of any other one it is assumed for every name that no builtin has.
    """
    if module.partition(".")[0] not in sys.stdlib_module_names:
        return name not in BUILTINS
    found = importlib.import_module(module)
    return name in getattr(found, "__all__", [item for item in vars(found) if not item.startswith("_")])


def _statement(program: Program, module: Module, node: ast.stmt) -> list[str] | None:
    if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and node.value is not None:
        return _strings(program, module, node.value)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and len(node.value.args) == 1:
        function, argument = node.value.func, node.value.args[0]
        if isinstance(function, ast.Attribute) and function.attr == "extend":
            return _strings(program, module, argument)
        if isinstance(function, ast.Attribute) and function.attr == "append":
            return _strings(program, module, ast.List([argument], ast.Load()))
    return None


def _strings(program: Program, module: Module, node: ast.expr) -> list[str] | None:
    if isinstance(node, (ast.List, ast.Tuple)):
        result = []
        for item in node.elts:
            if isinstance(item, ast.Starred):
                inner = _strings(program, module, item.value)
                if inner is None:
                    return None
                result.extend(inner)
            elif isinstance(item, ast.Constant) and isinstance(item.value, str):
                result.append(item.value)
            else:
                return None
        return result
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _strings(program, module, node.left), _strings(program, module, node.right)
        return None if left is None or right is None else left + right
    if isinstance(node, ast.Attribute) and node.attr == "__all__" and isinstance(node.value, ast.Name):
        target = program.resolve_name(module.name, node.value.id)
        if isinstance(target, Mod):
            return all_names(program, program.modules[target.module])
    if isinstance(node, ast.Name) and node.id == "__all__":
        return []
    return None
