"""Edits that rules share: taking statements out without leaving a broken block."""

from __future__ import annotations

import ast

from kernel_lint.diagnostics import Applicability, Edit, Fix, Span
from kernel_lint.source.module import SourceModule
from kernel_lint.source.scopes import walk


def block_of(module: SourceModule, statement: ast.stmt) -> list[ast.stmt]:
    """Return the list of statements that ``statement`` is one of."""
    parent = module.scopes.parent.get(statement)
    for name in ("body", "orelse", "finalbody", "handlers"):
        block = getattr(parent, name, None)
        if isinstance(block, list) and statement in block:
            return block
    return [statement]


def deletion(module: SourceModule, statement: ast.stmt) -> Edit:
    """Return the edit that takes a statement out.

    Whole lines go when nothing else stands on them; a block that would be left empty
    gets ``pass``; beside other statements on the line, ``pass`` takes the place too.
    """
    span = module.span(statement)
    decorators = getattr(statement, "decorator_list", [])
    if decorators:
        first = module.span(decorators[0])
        span = Span(first.line, module.lines[first.line - 1].index("@") + 1, span.end_line, span.end_column)
    before = module.lines[span.line - 1][: span.column - 1]
    after = module.lines[span.end_line - 1][span.end_column - 1 :].strip()
    parent = module.scopes.parent.get(statement)
    alone = block_of(module, statement) == [statement] and not isinstance(parent, ast.Module)
    shared = bool(before.strip()) or (after and not after.startswith("#"))
    if alone or shared:
        return Edit(span, "pass")
    if span.end_line < len(module.lines):
        return Edit(Span(span.line, 1, span.end_line + 1, 1), "")
    end = len(module.lines[span.end_line - 1]) + 1
    return Edit(Span(span.line, 1, span.end_line, end), "")


def removal(module: SourceModule, statement: ast.stmt, what: str, *, safe: bool = True) -> Fix | None:
    """Return the fix that takes a statement out; None for one inside the text of an ``exec``."""
    if isinstance(module.scopes.parent.get(statement), ast.expr):
        return None
    applicability = Applicability.SAFE if safe else Applicability.UNSAFE
    return Fix(f"remove {what}", (deletion(module, statement),), applicability)


def is_free_of_effects(node: ast.AST) -> bool:
    """Tell whether evaluating an expression can only read: no calls, awaits or assignments."""
    return not any(
        isinstance(inner, (ast.Call, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr))
        for inner in walk(node)
    )
