"""Statements told apart, and imports written out."""

from __future__ import annotations

import ast

from kernel_lint import TYPE_CHECKING
from kernel_lint.packager.model import ImportSite

if TYPE_CHECKING:
    from collections.abc import Iterator


def walk_statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a statement and all statements, handlers and match cases in it."""
    yield node
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        children = getattr(node, name, None)
        if isinstance(children, list):
            for child in children:
                yield from walk_statements(child)


def is_text(node: ast.stmt) -> bool:
    """Whether a statement is a bare string, as docstrings are."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def import_text(site: ImportSite, name: str) -> str:
    """Return the text of an import that binds ``name``."""
    if isinstance(site.node, ast.ImportFrom):
        head = f"from {site.module} import {site.alias.name}"
        return head if name == site.alias.name else f"{head} as {name}"
    plain = site.alias.asname is None and name == site.local_name
    return f"import {site.alias.name}" if plain else f"import {site.alias.name} as {name}"
