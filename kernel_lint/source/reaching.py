"""Which bindings of a local name can reach a use of it: order and dominance, as far as lines tell."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from kernel_lint.source.scopes import Binding, BindingKind, Scope, ScopeKind, ScopeTable

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_KILLING = (BindingKind.ASSIGN, BindingKind.WITH)


def reaching_bindings(
    scopes: ScopeTable, use: ast.Name, owner: Scope, bindings: Sequence[Binding]
) -> Sequence[Binding]:
    """Return the bindings that a use may see.

    Only for names of a function used in that same function; elsewhere all count. A binding
    behind the use counts only when a loop leads back; one in front is hidden by a later one that
    every path to the use goes through.
    """
    if owner.kind is not ScopeKind.FUNCTION or scopes.scope[use] is not owner or len(bindings) < 2:
        return bindings
    statement = scopes.statement(use)
    if statement is None:
        return bindings
    above = [statement, *(node for node in scopes.ancestors(statement))]
    loops = {node for node in above if isinstance(node, _LOOPS)}
    reaching: list[Binding] = []
    for binding in bindings:
        if _is_before(scopes, binding, statement, use):
            if _dominates(scopes, binding, above) and not loops:
                reaching.clear()
            reaching.append(binding)
        elif loops and loops.intersection(scopes.ancestors(binding.node)):
            reaching.append(binding)
    return reaching or bindings


def _is_before(scopes: ScopeTable, binding: Binding, statement: ast.stmt, use: ast.Name) -> bool:
    """Parameters come first; ``x = f(x)`` binds after its own right side was read."""
    if binding.kind is BindingKind.PARAMETER:
        return True
    where = scopes.statement(binding.node)
    if where is None:
        return True
    if where is statement:
        # The header of a compound statement binds after what it goes through; a walrus in its own statement.
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            order = [_holds(scopes, item, binding.node) for item in statement.items]
            read = [_holds(scopes, item, use) for item in statement.items]
            return True not in read or order.index(True) < read.index(True) if True in order else True
        return isinstance(scopes.parent.get(binding.node), ast.NamedExpr)
    return (where.lineno, where.col_offset) <= (statement.lineno, statement.col_offset)


def _holds(scopes: ScopeTable, item: ast.withitem, node: ast.AST) -> bool:
    return any(above is item for above in scopes.ancestors(node))


def _dominates(scopes: ScopeTable, binding: Binding, above: Sequence[ast.AST]) -> bool:
    """Tell whether every path to the use goes through the binding: it stands in a block around it."""
    if binding.kind not in _KILLING:
        return False
    where = scopes.statement(binding.node)
    parent = scopes.parent.get(where) if where is not None else None
    if where is None or parent is None or isinstance(scopes.parent.get(binding.node), ast.NamedExpr):
        return False
    if parent not in above:
        return False
    # In the same block of that parent, not in its other branch.
    below = above[above.index(parent) - 1]
    for name in ("body", "orelse", "finalbody"):
        block = getattr(parent, name, None)
        if isinstance(block, list) and where in block:
            return below in block
    return False
