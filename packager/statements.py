"""Statements told apart, and imports written out."""

from __future__ import annotations

import ast

from kernel_lint import TYPE_CHECKING
from kernel_lint.packager.model import ImportSite

if TYPE_CHECKING:
    from collections.abc import Iterator


_LOOP = ("body", "orelse")
_TRY = ("body", "orelse", "finalbody", "handlers")
# Where statements, handlers and match cases stand in each node that has some.
_BLOCKS: dict[type, tuple[str, ...]] = {
    **dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef), ("body",)),
    **dict.fromkeys((ast.With, ast.AsyncWith, ast.ExceptHandler, ast.match_case), ("body",)),
    **dict.fromkeys((ast.If, ast.For, ast.AsyncFor, ast.While), _LOOP),
    **dict.fromkeys((ast.Try, getattr(ast, "TryStar", ast.Try)), _TRY),
    ast.Match: ("cases",),
}


def blocks(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """Yield the blocks of a statement and of all statements in it, outer ones first."""
    stack: list[ast.AST] = [node]
    while stack:
        owner = stack.pop()
        inner: list[ast.AST] = []
        for name in _BLOCKS.get(type(owner), ()):
            children = getattr(owner, name)
            if children and isinstance(children[0], ast.stmt):
                yield children
            inner.extend(child for child in children if type(child) in _BLOCKS)
        inner.reverse()
        stack.extend(inner)


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
