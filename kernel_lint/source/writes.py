"""Which parameters a kernel, or what it calls, may store to."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from kernel_lint.source.domain import Func
from kernel_lint.source.scopes import FunctionNode, ScopeTable, last_name, walk
from kernel_lint.source.values import Values

# Words in the names of operations that write through an argument, or that read.
_STORES = ("store", "copy", "atomic", "fill", "scatter", "gemm", "put", "reduce")
_LOADS = ("load", "gather")
_COMPUTED = frozenset({ast.BinOp, ast.UnaryOp, ast.Compare})


@lru_cache(maxsize=1024)
def _says(name: str, words: tuple[str, ...]) -> bool:
    return any(word in name for word in words)


class Writes:
    """Answers ``parameters(function)`` for device functions, with memory."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self._written: dict[FunctionNode, frozenset[str]] = {}

    def parameters(self, function: FunctionNode) -> frozenset[str]:
        """Return the parameters that a kernel or launcher may store to; empty when none can be told."""
        known = self._written.get(function)
        if known is None:
            self._written[function] = frozenset()
            known = self._written[function] = frozenset(self._stored_parameters(function))
        return known

    def _stored_parameters(self, function: FunctionNode) -> Iterator[str]:
        parameters = {
            a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
        }
        body = Body(self.values.scopes, function)
        derived = _derived_names(body, parameters)
        for assignment in body.stores:
            targets = assignment.targets if isinstance(assignment, ast.Assign) else [assignment.target]
            for target in targets:
                if isinstance(target, ast.Subscript):
                    yield from _parameters_in(body, target.value, derived)
        for call in body.calls:
            yield from self._stored_by_call(body, call, derived)

    def _stored_by_call(self, body: Body, node: ast.Call, derived: dict[str, set[str]]) -> Iterator[str]:
        targets = [v.node for v in self.values.of(node.func) if isinstance(v, Func)]
        for target in targets:
            written = self.parameters(target)
            names = [a.arg for a in (*target.args.posonlyargs, *target.args.args)]
            for name, argument in zip(names, node.args, strict=False):
                if name in written:
                    yield from _parameters_in(body, argument, derived)
            for keyword in node.keywords:
                if keyword.arg in written:
                    yield from _parameters_in(body, keyword.value, derived)
        name = last_name(node.func)
        if not targets and _says(name, _STORES):
            for argument in [*node.args, *(k.value for k in node.keywords)]:
                yield from _parameters_in(body, argument, derived)
            if isinstance(node.func, ast.Attribute):
                yield from _parameters_in(body, node.func.value, derived)


class Body:
    """The stores and calls of a function's code, nested functions included; names by expression."""

    def __init__(self, scopes: ScopeTable, function: FunctionNode) -> None:
        self.assignments = scopes.within(function, ast.Assign)
        self.stores: list[ast.Assign | ast.AugAssign] = [
            *self.assignments,
            *scopes.within(function, ast.AugAssign),
        ]
        self.calls = scopes.within(function, ast.Call)
        self._names: dict[ast.AST, frozenset[str]] = {}

    def names(self, node: ast.AST) -> frozenset[str]:
        """Return the names that an expression mentions."""
        if isinstance(node, ast.Name):
            return frozenset((node.id,))
        known = self._names.get(node)
        if known is None:
            found = {inner.id for inner in walk(node) if isinstance(inner, ast.Name)}
            known = self._names[node] = frozenset(found)
        return known


def _derived_names(body: Body, parameters: set[str]) -> dict[str, set[str]]:
    """Map each name in a kernel to the parameters that it gives access to.

    A value that was loaded gives no access; a view, slice or partition does.
    """
    derived: dict[str, set[str]] = {name: {name} for name in parameters}
    assignments = [
        (frozenset().union(*(body.names(target) for target in node.targets)), node.value)
        for node in body.assignments
        if not _is_load(node.value)
    ]
    for _ in range(4):
        changed = False
        for targets, value in assignments:
            sources = set(_parameters_in(body, value, derived))
            if not sources:
                continue
            for name in targets:
                known = derived.setdefault(name, set())
                changed = changed or not sources <= known
                known |= sources
        if not changed:
            break
    return derived


def _is_load(node: ast.expr) -> bool:
    if node.__class__ in _COMPUTED:
        return True
    if isinstance(node, ast.Subscript):
        return not isinstance(node.slice, ast.Slice) and not _has_none(node.slice)
    if isinstance(node, ast.Call):
        return _says(last_name(node.func), _LOADS)
    return False


def _has_none(node: ast.expr) -> bool:
    return any(isinstance(part, ast.Constant) and part.value is None for part in walk(node))


def _parameters_in(body: Body, node: ast.AST, derived: dict[str, set[str]]) -> Iterator[str]:
    for name in body.names(node):
        yield from derived.get(name, ())
