"""Conditions on sizes and constants: which can never hold, which ask for empty inputs."""

from __future__ import annotations

import ast

from kernel_lint.source.domain import Qual
from kernel_lint.source.scopes import BindingKind, ScopeKind, last_name, walk
from kernel_lint.source.values import Values


class Conditions:
    """Decides what a condition in host code asks, as far as constants and sizes tell."""

    def __init__(self, values: Values) -> None:
        self.values = values

    def always_false(self, test: ast.expr) -> bool:
        """Tell whether a condition can never hold: a constant, a size below zero, a range of nothing."""
        found = self.values.constant(test)
        if found is not None:
            return not found.value
        if self.is_zero(test) or self._is_empty_range(test):
            return True
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            return any(self.always_false(part) for part in test.values)
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self.always_true(test.operand)
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and self.is_size(test.left):
            bound = self.values.constant(test.comparators[0])
            if bound is not None and isinstance(bound.value, (int, float)):
                return (isinstance(test.ops[0], ast.Lt) and bound.value <= 0) or (
                    isinstance(test.ops[0], (ast.LtE, ast.Eq)) and bound.value < 0
                )
        return False

    def always_true(self, test: ast.expr) -> bool:
        """Tell whether a condition always holds."""
        found = self.values.constant(test)
        if found is not None:
            return bool(found.value)
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self.always_false(test.operand)
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and self.is_size(test.left):
            bound = self.values.constant(test.comparators[0])
            if bound is not None and isinstance(bound.value, (int, float)):
                return isinstance(test.ops[0], ast.GtE) and bound.value <= 0
        return False

    def is_zero(self, node: ast.expr, depth: int = 0) -> bool:
        """Tell whether a number is zero whatever the sizes are: ``n - n``, ``0 * n``, or a name for that."""
        if isinstance(node, ast.BinOp):
            if isinstance(node.op, (ast.Sub, ast.BitXor)):
                return self._same(node.left, node.right)
            if isinstance(node.op, ast.Mult):
                return self._is_nought(node.left, depth) or self._is_nought(node.right, depth)
            return isinstance(node.op, (ast.FloorDiv, ast.Mod)) and self._is_nought(node.left, depth)
        if isinstance(node, ast.Name) and depth < 4:
            found = self.values.scopes.scope[node].lookup(node.id)
            return found is not None and all(
                b.kind is BindingKind.ASSIGN
                and b.value is not None
                and not b.path
                and self._is_nought(b.value, depth + 1)
                for b in found[1]
            )
        return False

    def _is_nought(self, node: ast.expr, depth: int) -> bool:
        found = self.values.constant(node)
        if found is not None:
            return found.value.__class__ is int and found.value == 0
        return self.is_zero(node, depth)

    def _same(self, one: ast.expr, other: ast.expr) -> bool:
        alike = one.__class__ is other.__class__ and ast.dump(one) == ast.dump(other)
        return alike and self._stays(one)

    def _stays(self, node: ast.expr) -> bool:
        """Tell whether working an expression out twice gives the same number: only sizes are asked for."""
        for part in walk(node):
            if isinstance(part, (ast.NamedExpr, ast.Await)):
                return False
            if isinstance(part, ast.Call):
                if not self.is_size(part) and last_name(part.func) not in ("stride", "storage_offset", "int"):
                    return False
        return True

    def _is_empty_range(self, node: ast.expr) -> bool:
        """``range(n - n)``, ``range(n, n)``."""
        if not isinstance(node, ast.Call) or node.keywords or not node.args:
            return False
        if Qual("builtins.range") not in self.values.of(node.func):
            return False
        if len(node.args) == 1:
            return self.is_zero(node.args[0])
        return self._same(*node.args[:2])

    def is_size(self, node: ast.expr) -> bool:
        """Tell whether an expression is a size of a tensor: never negative."""
        if isinstance(node, ast.Call):
            name = last_name(node.func)
            return name in ("numel", "nelement", "dim", "size", "len", "element_size")
        if isinstance(node, ast.Subscript):
            return last_name(node.value) == "shape"
        if isinstance(node, ast.Attribute):
            return node.attr in ("ndim", "nbytes", "itemsize")
        if isinstance(node, ast.Name):
            found = self.values.scopes.scope[node].lookup(node.id)
            if found is None or found[0].kind is ScopeKind.MODULE:
                return False
            return all(
                b.value is not None
                and (self.is_size(b.value) if not b.path else last_name(b.value) == "shape")
                for b in found[1]
            )
        return False

    def asks_for_empty(self, test: ast.expr) -> bool:
        """Tell whether a condition holds only for inputs with nothing in them."""
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
            return all(self.asks_for_empty(part) for part in test.values)
        if isinstance(test, ast.BoolOp):
            return any(self.asks_for_empty(part) for part in test.values)
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self.is_size(test.operand)
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            left, right, op = test.left, test.comparators[0], test.ops[0]
            bound = self.values.constant(right)
            if isinstance(op, ast.In) and self.values.constant(left) is not None:
                return last_name(right) == "shape" and self.values.constant(left).value == 0  # type: ignore[union-attr]
            if not self.is_size(left) or bound is None:
                return False
            return (isinstance(op, (ast.Eq, ast.LtE)) and bound.value == 0) or (
                isinstance(op, ast.Lt) and bound.value == 1
            )
        return False

    def asks_for_work(self, test: ast.expr) -> bool:
        """Tell whether a condition holds for every input with something in it."""
        if self.is_size(test):
            return True
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            return all(self.asks_for_work(part) for part in test.values)
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and self.is_size(test.left):
            bound = self.values.constant(test.comparators[0])
            op = test.ops[0]
            if bound is None:
                return False
            return (isinstance(op, (ast.Gt, ast.NotEq)) and bound.value == 0) or (
                isinstance(op, ast.GtE) and bound.value == 1
            )
        return False
