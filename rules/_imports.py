"""Imports that nothing uses, for the rules that offer to remove them."""

from __future__ import annotations

import ast

from kernel_lint.rule import Context
from kernel_lint.source.scopes import BindingKind


def unused_import(context: Context, node: ast.AST) -> ast.Import | ast.ImportFrom | None:
    """Return the statement of an import alias when it imports nothing else and nothing reads its name."""
    statement = context.module.scopes.parent.get(node)
    if (
        not isinstance(node, ast.alias)
        or not isinstance(statement, (ast.Import, ast.ImportFrom))
        or len(statement.names) != 1
    ):
        return None
    name = node.asname or node.name.partition(".")[0]
    return None if name == "*" or is_read(context, name) else statement


def is_read(context: Context, name: str) -> bool:
    """Tell whether a name is read anywhere, is bound again, or may be read by a text."""
    scopes = context.module.scopes
    if any(name in scope.names for scope in scopes.inner.values()):
        return True
    imports = sum(
        1
        for scope in scopes.inner.values()
        for binding in scope.bindings.get(name, ())
        if binding.kind is BindingKind.IMPORT
    )
    if imports > 1:
        return True
    return any(isinstance(node.value, str) and name in node.value for node in scopes.texts)
