"""Which parameters a kernel, or what it calls, may store to."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from functools import lru_cache

from kernel_lint.records import cached_property
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
        body = Body(self.values.scopes, function)
        for assignment in body.stores:
            targets = assignment.targets if isinstance(assignment, ast.Assign) else [assignment.target]
            for target in targets:
                if isinstance(target, ast.Subscript):
                    yield from body.parameters_in(target.value)
        for call in body.calls:
            yield from self._stored_by_call(body, call)

    def _stored_by_call(self, body: Body, node: ast.Call) -> Iterator[str]:
        targets = [v.node for v in self.values.of(node.func) if v.__class__ is Func]
        for target in targets:
            written = self.parameters(target)
            names = [a.arg for a in (*target.args.posonlyargs, *target.args.args)]
            for name, argument in zip(names, node.args, strict=False):
                if name in written:
                    yield from body.parameters_in(argument)
            for keyword in node.keywords:
                if keyword.arg in written:
                    yield from body.parameters_in(keyword.value)
        if not targets and _says(last_name(node.func), _STORES):
            for argument in [*node.args, *(k.value for k in node.keywords)]:
                yield from body.parameters_in(argument)
            if isinstance(node.func, ast.Attribute):
                yield from body.parameters_in(node.func.value)


class Body:
    """The stores and calls of a function's code, nested functions included, and what names give access to."""

    def __init__(self, scopes: ScopeTable, function: FunctionNode) -> None:
        arguments = function.args
        self._parameters = {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
        self._assignments = scopes.within(function, ast.Assign)
        self.stores: list[ast.Assign | ast.AugAssign] = [
            *self._assignments,
            *scopes.within(function, ast.AugAssign),
        ]
        self.calls = scopes.within(function, ast.Call)

    def parameters_in(self, node: ast.expr) -> Iterator[str]:
        """Yield the parameters that an expression mentions or gives access to."""
        for name in _names(node):
            if name in self._assigned:
                yield from self._derived.get(name, ())
            elif name in self._parameters:
                yield name

    @cached_property
    def _assigned(self) -> set[str]:
        """The names that assignments bind; any other parameter gives access to itself and nothing else."""
        return {name for node in self._assignments for target in node.targets for name in _names(target)}

    @cached_property
    def _derived(self) -> dict[str, set[str]]:
        """The parameters that each name gives access to.

        A value that was loaded gives no access; a view, slice or partition does.
        """
        derived: dict[str, set[str]] = {name: {name} for name in self._parameters}
        assignments = [
            (frozenset().union(*map(_names, node.targets)), _names(node.value))
            for node in self._assignments
            if not _is_load(node.value)
        ]
        for _ in range(4):
            changed = False
            for targets, mentioned in assignments:
                sources = {source for name in mentioned for source in derived.get(name, ())}
                if not sources:
                    continue
                for name in targets:
                    known = derived.setdefault(name, set())
                    changed = changed or not sources <= known
                    known |= sources
            if not changed:
                break
        return derived


def _names(node: ast.AST) -> Collection[str]:
    """Return the names that an expression mentions."""
    if node.__class__ is ast.Name:
        return (node.id,)
    return {inner.id for inner in walk(node) if inner.__class__ is ast.Name}


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
