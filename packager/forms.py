"""Calls and subscripts that name things by a string, told apart by their form alone."""

from __future__ import annotations

import ast

IMPORT_CALLS = ("import_module", "__import__")


def getattr_name(node: ast.AST) -> str | None:
    """Return the name that ``getattr(x, "name")`` reads, None for any other node."""
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "getattr"
        and len(node.args) in (2, 3)
        and not node.keywords
        and isinstance(node.args[1], ast.Constant)
        and isinstance(node.args[1].value, str)
        and node.args[1].value.isidentifier()
    ):
        return node.args[1].value
    return None


def import_call_name(node: ast.AST) -> str | None:
    """Return what kind of import a call is, "import_module" or "__import__"; None for other nodes."""
    if not isinstance(node, ast.Call) or not node.args:
        return None
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
    return name if name in IMPORT_CALLS else None


def is_modules_item(node: ast.AST) -> bool:
    """Whether a node is ``sys.modules[...]``."""
    return (
        isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "modules"
        and isinstance(node.value.value, ast.Name)
        and node.value.value.id == "sys"
        and isinstance(node.ctx, ast.Load)
    )


def is_globals_call(node: ast.AST, names: tuple[str, ...] = ("globals",)) -> bool:
    """Whether a node is ``globals()``, or a call without arguments of another of ``names``."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in names
        and not node.args
        and not node.keywords
    )
