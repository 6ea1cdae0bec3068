"""Folding expressions in a module, after a cheap look at their operands, which tells most that cannot be."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import partial

from kernel_lint import TYPE_CHECKING
from kernel_lint.source.domain import UNKNOWN, Const, Container, Qual, Value
from kernel_lint.source.domain import Values as ValueSet
from kernel_lint.source.folding import Folder, UnfoldableError
from kernel_lint.source.pure import PURE

if TYPE_CHECKING:
    from typing import Any

    from kernel_lint.source.values import Values

# What is worked out from what the first loop goes over.
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
# The operands that are always worked out, the first of them first.
_OPERANDS: dict[type[ast.AST], tuple[str, str]] = {
    ast.BinOp: ("left", "right"),
    ast.Compare: ("left", "comparators"),
    ast.UnaryOp: ("operand", ""),
    ast.Subscript: ("value", "slice"),
}


def evaluate(values: Values, node: ast.expr) -> ValueSet:
    """Return what an operation may give: a constant, or a container where one is added to another."""
    found = fold(values, node)
    if found is not None:
        return frozenset({found})
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        if _may_be_container(values, node.left) or _may_be_container(values, node.right):
            return frozenset({Container(node)})
    return UNKNOWN


def _may_be_container(values: Values, node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp) and not isinstance(node.op, ast.Add):
        return False
    return Container in map(type, values.of(node))


def fold(values: Values, node: ast.expr) -> Const | None:
    """Work out a pure expression; None when it is not one."""
    if node in values.folding or not may_fold(values, node):
        return None
    values.folding.add(node)
    try:
        return Const(Folder(partial(_resolve, values), partial(_callee, values)).fold(node))
    except UnfoldableError:
        return None
    finally:
        values.folding.discard(node)


def _resolve(values: Values, node: ast.expr) -> Any:
    found = values.of(node)
    if len(found) == 1:
        (value,) = found
        if isinstance(value, Const):
            return value.value
        if isinstance(value, Container) and value.node is not node:
            constant = values.fold(value.node)
            if constant is not None:
                return constant.value
    raise UnfoldableError


def _callee(values: Values, node: ast.expr) -> str | None:
    """The dotted path of what is called; None for a method of a constant."""
    found = values.of(node)
    paths = [value.name for value in found if isinstance(value, Qual)]
    if len(found) == 1 and paths:
        return paths[0]
    return None


def may_fold(values: Values, node: ast.expr) -> bool:
    """A cheap look at operands that are names or attributes: most expressions fail there."""
    kind = node.__class__
    others: list[ast.expr] = []
    while kind in _OPERANDS or kind in _COMPREHENSIONS:
        if kind in _COMPREHENSIONS:
            node = node.generators[0].iter  # type: ignore[attr-defined]
        else:
            first, second = _OPERANDS[kind]
            if second:
                other = getattr(node, second)
                others.append(other[0] if other.__class__ is list else other)
            node = getattr(node, first)
        kind = node.__class__
    if kind is ast.Call and not _call_may_fold(values, node):  # type: ignore[arg-type]
        return False
    return operands_may_fold(values, (node, *others))


def _call_may_fold(values: Values, node: ast.Call) -> bool:
    """Look at the arguments where a pure function is called, which is worked out from all of them."""
    callee = values.of(node.func)
    if len(callee) == 1:
        (function,) = callee
        if isinstance(function, Qual) and function.name in PURE:
            return all(_held(values, argument) is not None for argument in node.args)
    return True


def _held(values: Values, node: ast.expr) -> Value | ast.expr | None:
    """Return the one value of a name or an attribute, None if it is no constant; other nodes as they are."""
    if node.__class__ is not ast.Name and node.__class__ is not ast.Attribute:
        return node
    found = values.of(node)
    if len(found) != 1:
        return None
    (value,) = found
    return value if value.__class__ is Const or value.__class__ is Container else None


def operands_may_fold(values: Values, operands: Iterable[ast.expr]) -> bool:
    """Tell whether no operand is a name or an attribute of something that is no constant."""
    for node in operands:
        held = _held(values, node)
        if held is None:
            return False
        if isinstance(held, Container) and isinstance(held.node, _COMPREHENSIONS):
            first = held.node.generators[0].iter
            if isinstance(first, ast.Call) and not _call_may_fold(values, first):
                return False
    return True
