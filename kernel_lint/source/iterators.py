"""Iterators and coroutines that do nothing because nobody asks them for more."""

from __future__ import annotations

import ast

from kernel_lint.source.domain import Func, Qual
from kernel_lint.source.scopes import ScopeTable
from kernel_lint.source.values import Values

ITERATORS = frozenset({Qual("builtins.map"), Qual("builtins.filter"), Qual("itertools.starmap")})


def is_unused_iterator(values: Values, node: ast.AST) -> bool:
    """Tell whether an expression only makes an iterator or coroutine that nothing goes through."""
    if isinstance(node, ast.GeneratorExp):
        return _is_dropped(values.scopes, node)
    if not isinstance(node, ast.Call) or not _is_dropped(values.scopes, node):
        return False
    made = values.of(node.func)
    return bool(made) and all(
        value in ITERATORS or (isinstance(value, Func) and _is_lazy(values.scopes, value)) for value in made
    )


def _is_lazy(scopes: ScopeTable, function: Func) -> bool:
    if isinstance(function.node, ast.AsyncFunctionDef):
        return True
    kinds = (ast.Yield, ast.YieldFrom)
    return any(scopes.scope[n].function is function.node for kind in kinds for n in scopes.of_type(kind))


def _is_dropped(scopes: ScopeTable, node: ast.expr) -> bool:
    """Tell whether an expression stands alone, or is kept under a name that nothing reads."""
    parent = scopes.parent.get(node)
    if isinstance(parent, ast.Expr):
        return True
    if (
        not isinstance(parent, ast.Assign)
        or len(parent.targets) != 1
        or not isinstance(parent.targets[0], ast.Name)
    ):
        return False
    name, function = parent.targets[0].id, scopes.scope[node].function
    reads = [
        n for scope in scopes.inner.values() for n in scope.names.get(name, ()) if isinstance(n.ctx, ast.Load)
    ]
    return (
        not any(scopes.scope[n].lookup(name) == scopes.scope[node].lookup(name) for n in reads)
        and function is not None
    )
