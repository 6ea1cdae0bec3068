"""A cheap look at expressions that might be worked out: most that cannot be are told by their operands."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from kernel_lint import TYPE_CHECKING
from kernel_lint.source.domain import Const, Container, Qual, Value
from kernel_lint.source.pure import PURE

if TYPE_CHECKING:
    from kernel_lint.source.values import Values

# What is worked out from what the first loop goes over.
_COMPREHENSIONS = frozenset({ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp})
# The operands that are always worked out, the first of them first.
_OPERANDS: dict[type[ast.AST], tuple[str, str]] = {
    ast.BinOp: ("left", "right"),
    ast.Compare: ("left", "comparators"),
    ast.UnaryOp: ("operand", ""),
    ast.Subscript: ("value", "slice"),
}


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
        if function.__class__ is Qual and function.name in PURE:  # type: ignore[union-attr]
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
        if held.__class__ is Container and held.node.__class__ in _COMPREHENSIONS:  # type: ignore[union-attr]
            first = held.node.generators[0].iter  # type: ignore[union-attr]
            if first.__class__ is ast.Call and not _call_may_fold(values, first):
                return False
    return True
