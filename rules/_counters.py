"""Counters of calls: state that grows each time the model runs and that something is decided by."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import chain

from kernel_lint import TYPE_CHECKING
from kernel_lint.rule import Context
from kernel_lint.source.domain import Class, Func, Instance, Qual
from kernel_lint.source.scopes import ScopeKind, walk

if TYPE_CHECKING:
    from typing import TypeAlias

Key: TypeAlias = tuple[str, str]
_GROWING = frozenset({"append", "add", "appendleft", "update", "extend", "insert", "increment"})


def call_counters(context: Context) -> Iterator[ast.expr]:
    """Yield the conditions on the path of ``forward`` that depend on a counter of calls."""
    grown = set(_grown(context))
    if not grown and "next" not in context.module.text:
        return
    flow = context.module.flow
    for test, body in _conditions(context):
        if not flow.on_path(test) or _only_raises(body):
            continue
        asked = _asked(context, test, 0)
        if any(_asks_how_many(context, part, grown) for part in asked) or any(
            _next_of_kept(context, inner) for part in asked for inner in walk(part)
        ):
            yield test


def _asked(context: Context, test: ast.expr, depth: int) -> list[ast.expr]:
    """A condition with what its local names stand for and what the functions that it calls return."""
    found = [test]
    if depth > 2:
        return found
    values = context.module.values
    for inner in walk(test):
        if isinstance(inner, ast.Name) and inner in values.scopes.scope:
            bound = values.scopes.scope[inner].lookup(inner.id)
            if bound is not None and bound[0].kind is ScopeKind.FUNCTION:
                for binding in bound[1]:
                    if binding.value is not None and binding.kind.value == "assign" and not binding.path:
                        found.extend(_asked(context, binding.value, depth + 1))
        elif isinstance(inner, ast.Call):
            for value in values.of(inner.func):
                if isinstance(value, Func):
                    for returned in values.sites.returns(value.node):
                        found.extend(_asked(context, returned, depth + 2))
    return found


def _grown(context: Context) -> Iterator[Key]:
    """What is counted up on the path: ``self.n += 1``, ``n = n + 1`` with ``global n``, ``self.log.append(...)``."""
    flow = context.module.flow
    for augmented in flow.on_path_of(ast.AugAssign):
        key = _key(context, augmented.target)
        if key is not None:
            yield key
    for assign in context.module.scopes.of_type(ast.Assign):
        if assign.value.__class__ is ast.BinOp and flow.on_path(assign):
            for target in assign.targets:
                key = _key(context, target)
                if key is not None and (
                    _mentions(context, assign.value, key) or _reads_default(assign.value, target)
                ):
                    yield key
    values = context.module.values
    for call in context.module.survey.calls_of(("builtins.setattr",)):
        if len(call.args) == 3:
            name = values.constant(call.args[1])
            counted = any(isinstance(inner, ast.BinOp) for inner in walk(call.args[2]))
            if name is not None and counted and flow.on_path(call):
                yield ("attribute", str(name.value))
    for call in chain.from_iterable(map(values.sites.calls_named, _GROWING)):
        if isinstance(call.func, ast.Attribute) and flow.on_path(call):
            key = _key(context, call.func.value)
            if key is not None:
                yield key


def _mentions(context: Context, value: ast.expr, key: Key) -> bool:
    return any(_key(context, inner) == key for inner in walk(value) if isinstance(inner, ast.expr))


def _reads_default(value: ast.expr, target: ast.expr) -> bool:
    """``self.n = getattr(self, "n", 0) + 1``: the attribute is read by name."""
    name = target.attr if isinstance(target, ast.Attribute) else None
    return name is not None and any(
        isinstance(inner, ast.Constant) and inner.value == name for inner in walk(value)
    )


def _key(context: Context, node: ast.AST) -> Key | None:
    """A name for state that outlives a call: an attribute of the model, an item of it, a name of the module."""
    scopes = context.module.scopes
    if isinstance(node, ast.Subscript):
        inner = _key(context, node.value)
        if inner is None and isinstance(node.value, ast.Name):
            inner = _module_name(context, node.value)
        return (inner[0], inner[1] + "[]") if inner is not None else None
    if (
        isinstance(node, ast.Call)
        and len(node.args) > 1
        and Qual("builtins.getattr") in context.module.values.of(node.func)
    ):
        name = context.module.values.constant(node.args[1])
        owned = any(
            isinstance(owner, (Instance, Class, Func)) for owner in context.module.values.of(node.args[0])
        )
        return ("attribute", str(name.value)) if owned and name is not None else None
    if isinstance(node, ast.Attribute):
        owners = context.module.values.of(node.value)
        if any(isinstance(owner, (Instance, Class, Func)) for owner in owners):
            return ("attribute", node.attr)
        return None
    if isinstance(node, ast.Name):
        found = scopes.scope[node].lookup(node.id) if node in scopes.scope else None
        if found is not None and found[0].kind is ScopeKind.MODULE:
            return ("name", node.id)
        if found is not None and node.id in scopes.scope[node].nonlocal_names:
            return ("nonlocal", node.id)
        if found is not None and node.id in scopes.nonlocal_names:
            return ("nonlocal", node.id)
    return None


def _module_name(context: Context, node: ast.Name) -> Key | None:
    """A parameter whose default keeps state: ``def f(x, n=[0])``."""
    found = context.module.scopes.scope[node].lookup(node.id)
    if found is None or not any(
        b.kind.value == "parameter" and isinstance(b.value, (ast.List, ast.Dict)) for b in found[1]
    ):
        return None
    return ("default", node.id)


def _conditions(context: Context) -> Iterator[tuple[ast.expr, list[ast.stmt]]]:
    nodes = context.module.scopes.nodes
    for kind in (ast.If, ast.While):
        for node in nodes.get(kind, ()):
            assert isinstance(node, (ast.If, ast.While))
            yield node.test, [*node.body, *node.orelse]
    for choice in nodes.get(ast.IfExp, ()):
        assert isinstance(choice, ast.IfExp)
        yield choice.test, []
    for boolean in nodes.get(ast.BoolOp, ()):
        assert isinstance(boolean, ast.BoolOp)
        if isinstance(context.module.scopes.parent.get(boolean), ast.Expr):
            yield boolean, []
    for match in nodes.get(ast.Match, ()):
        assert isinstance(match, ast.Match)
        yield match.subject, []


def _only_raises(body: list[ast.stmt]) -> bool:
    return bool(body) and all(isinstance(statement, ast.Raise) for statement in body)


def _asks_how_many(context: Context, test: ast.expr, grown: set[Key]) -> bool:
    """Whether a condition compares or counts, and does not only ask whether a table holds a key."""
    if isinstance(test, ast.Compare) and all(
        isinstance(op, (ast.In, ast.NotIn, ast.Is, ast.IsNot)) for op in test.ops
    ):
        return False
    for inner in walk(test):
        if isinstance(inner, ast.expr) and _key(context, inner) in grown:
            parent = context.module.scopes.parent.get(inner)
            if isinstance(parent, ast.Compare) and all(
                isinstance(op, (ast.In, ast.NotIn, ast.Is, ast.IsNot)) for op in parent.ops
            ):
                continue
            if isinstance(parent, (ast.Attribute, ast.Subscript)):
                continue
            return True
    return False


def _next_of_kept(context: Context, node: ast.AST) -> bool:
    """``next(counter)`` of an iterator that outlives the call."""
    if not isinstance(node, ast.Call) or len(node.args) < 1:
        return False
    if Qual("builtins.next") not in context.module.values.of(node.func):
        return False
    return _key(context, node.args[0]) is not None
