"""Conditions on sizes and constants: which can never hold, which ask for empty inputs."""

from __future__ import annotations

import ast

from kernel_lint.source.domain import Const, Func, Param, Qual
from kernel_lint.source.scopes import Binding, BindingKind, Scope, ScopeKind, last_name, walk
from kernel_lint.source.values import Values


class Conditions:
    """Decides what a condition in host code asks, as far as constants and sizes tell."""

    def __init__(self, values: Values) -> None:
        self.values = values
        # Names that are being looked into.
        self._open: set[ast.AST] = set()

    def always_false(self, test: ast.expr) -> bool:
        """Tell whether a condition can never hold: a constant, a size below zero, a range of nothing."""
        found = self.values.constant(test)
        if found is not None:
            return not found.value
        if self.is_zero(test) or self._is_empty_range(test) or self._goes_over_nothing(test):
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
            if isinstance(node.op, ast.BitAnd):
                return self._is_nought(node.left, depth) or self._is_nought(node.right, depth)
            if isinstance(node.op, ast.Mod) and self.values.constant(node.right) == Const(1):
                return True
            return isinstance(node.op, (ast.FloorDiv, ast.Mod)) and self._is_nought(node.left, depth)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "min":
            # The least of zero and sizes.
            noughts = [self._is_nought(argument, depth) for argument in node.args]
            return any(noughts) and all(n or self.is_size(a) for n, a in zip(noughts, node.args, strict=True))
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

    def _goes_over_nothing(self, node: ast.expr) -> bool:
        """``zip([], x)``, ``reversed(())``, ``enumerate([])``."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            return False
        given = node.args if node.func.id == "zip" else node.args[:1]
        if node.func.id not in ("zip", "reversed", "enumerate", "iter", "sorted", "list", "tuple", "set"):
            return False
        return any(map(self.always_false, given))

    def is_size(self, node: ast.expr) -> bool:
        """Tell whether an expression is a size of a tensor: never negative, and zero only for nothing."""
        if isinstance(node, ast.Call):
            name = last_name(node.func)
            if name in ("min", "max", "prod"):
                plain = isinstance(node.func, ast.Name) or last_name(node.func.value) == "math"  # type: ignore[attr-defined]
                return plain and bool(node.args) and all(self._is_sizes(argument) for argument in node.args)
            return name in ("numel", "nelement", "dim", "size", "len", "element_size")
        if isinstance(node, ast.NamedExpr):
            return self.is_size(node.value)
        if isinstance(node, ast.BinOp):
            return self._is_size_of_both(node)
        if isinstance(node, ast.Subscript):
            return last_name(node.value) == "shape"
        if isinstance(node, ast.Attribute):
            return node.attr in ("ndim", "nbytes", "itemsize")
        if isinstance(node, ast.Name):
            found = self.values.scopes.scope[node].lookup(node.id)
            if found is None or found[0].kind is ScopeKind.MODULE or node in self._open:
                return False
            self._open.add(node)
            try:
                return all(self._is_bound_to_size(binding, found[0]) for binding in found[1])
            finally:
                self._open.discard(node)
        return False

    def _is_bound_to_size(self, binding: Binding, owner: Scope) -> bool:
        value, path = binding.value, binding.path
        if binding.kind is BindingKind.PARAMETER and isinstance(owner.node, ast.FunctionDef):
            passed = self.values.sites.argument_nodes(owner.node, binding.name)
            return value is None and bool(passed) and all(map(self.is_size, passed))
        if value is None:
            return False
        if not path:
            return self.is_size(value)
        if isinstance(value, ast.Tuple) and len(path) == 1 and isinstance(path[0], int):
            return path[0] < len(value.elts) and self.is_size(value.elts[path[0]])
        return last_name(value) == "shape"

    def _is_sizes(self, node: ast.expr) -> bool:
        """Tell whether an expression is a size, or a shape: an attribute or a name for sizes."""
        if isinstance(node, (ast.Tuple, ast.List)):
            return bool(node.elts) and all(map(self._is_sizes, node.elts))
        if isinstance(node, ast.Starred):
            return self._is_sizes(node.value)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            return self._is_sizes(node.value)
        if isinstance(node, ast.Name):
            found = self.values.scopes.scope[node].lookup(node.id)
            bound = [b.value for b in found[1]] if found is not None and node not in self._open else []
            shown = [value for value in bound if isinstance(value, (ast.Tuple, ast.List, ast.Attribute))]
            if shown and len(shown) == len(bound):
                return all(map(self._is_sizes, shown))
        if last_name(node) == "shape" or self.is_size(node):
            return True
        # A size of the module (self.dim), but for one that the text sets.
        return isinstance(node, ast.Attribute) and not any(isinstance(v, Const) for v in self.values.of(node))

    def _is_size_of_both(self, node: ast.BinOp) -> bool:
        """``m * n``, or the rows of a tensor: ``x.numel() // x.shape[-1]``."""
        if isinstance(node.op, ast.Mult):
            return self.is_size(node.left) and self.is_size(node.right)
        if self._is_blocks(node):
            return True
        left, right = node.left, node.right
        if not isinstance(node.op, ast.FloorDiv) or not isinstance(left, ast.Call):
            return False
        if not isinstance(left.func, ast.Attribute) or left.func.attr != "numel":
            return False
        if isinstance(right, ast.Subscript) and isinstance(right.value, ast.Attribute):
            return right.value.attr == "shape" and ast.dump(right.value.value) == ast.dump(left.func.value)
        # Or by a size that the model was built with.
        given = self.values.of(right) if isinstance(right, ast.Attribute) else ()
        return bool(given) and all(isinstance(value, Param) for value in given)

    def _is_blocks(self, node: ast.BinOp) -> bool:
        """``(n + 255) // 256``: blocks that a size needs, none only where it is zero."""
        width = self.values.constant(node.right)
        if not isinstance(node.op, ast.FloorDiv) or width is None or width.value.__class__ is not int:
            return False
        top, more = node.left, 0
        while isinstance(top, ast.BinOp) and isinstance(top.op, (ast.Add, ast.Sub)):
            step = self.values.constant(top.right)
            if step is None or step.value.__class__ is not int:
                return False
            more += step.value if isinstance(top.op, ast.Add) else -step.value
            top = top.left
        return more == width.value - 1 and self.is_size(top)

    def is_part(self, node: ast.expr) -> bool:
        """Tell whether an expression is the length of one part in a loop over parts: ``end - start``."""
        if isinstance(node, ast.Name):
            found = self.values.scopes.scope[node].lookup(node.id)
            return found is not None and all(
                isinstance(b.value, ast.BinOp) and not b.path and self.is_part(b.value) for b in found[1]
            )
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Sub):
            return False
        return any(isinstance(side, ast.Name) and self._is_looped(side) for side in (node.left, node.right))

    def _picks_layers(self, test: ast.expr) -> bool:
        """``isinstance(layer, nn.Linear)`` in a loop over what a model holds."""
        if not isinstance(test, ast.Call) or last_name(test.func) != "isinstance" or len(test.args) != 2:
            return False
        kinds = self.values.of(test.args[1])
        looped = isinstance(test.args[0], ast.Name) and self._is_looped(test.args[0])
        return (
            looped
            and bool(kinds)
            and all(isinstance(k, Qual) and k.name.startswith("torch.nn.") for k in kinds)
        )

    def _is_looped(self, node: ast.Name) -> bool:
        found = self.values.scopes.scope[node].lookup(node.id)
        return found is not None and any(b.kind is BindingKind.LOOP for b in found[1])

    def asks_for_empty(self, test: ast.expr) -> bool:
        """Tell whether a condition holds only for inputs with nothing in them."""
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
            return all(self.asks_for_empty(part) for part in test.values)
        if isinstance(test, ast.BoolOp):
            return any(self.asks_for_empty(part) for part in test.values)
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self.is_size(test.operand) or self._is_call_of_sizes(test.operand, "all")
        if isinstance(test, ast.Call):
            answer = self._answer(test)
            if answer is not None:
                return self.asks_for_empty(answer)
            part = test.args[0] if last_name(test.func) == "any" and test.args else None
            return isinstance(part, (ast.GeneratorExp, ast.ListComp)) and self.asks_for_empty(part.elt)
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

    def _answer(self, call: ast.Call) -> ast.expr | None:
        """What a function of the module that only answers a question returns: ``return t.numel() == 0``."""
        found = [value.node for value in self.values.of(call.func) if isinstance(value, Func)]
        if len(found) != 1 or isinstance(found[0], ast.Lambda) or len(found[0].body) != 1:
            return None
        answers = self.values.sites.returns(found[0])
        # A function that asks itself gives no answer.
        asks = any(
            isinstance(part, ast.Call) and found[0].name == last_name(part.func)
            for a in answers
            for part in walk(a)
        )
        return answers[0] if len(answers) == 1 and not asks else None

    def _is_call_of_sizes(self, node: ast.expr, name: str) -> bool:
        """``all(x.shape)``."""
        return (
            isinstance(node, ast.Call)
            and last_name(node.func) == name
            and any(map(self._is_sizes, node.args))
        )

    def asks_for_work(self, test: ast.expr) -> bool:
        """Tell whether a condition holds for every input (or part of one) with something in it."""
        if self.is_size(test) or self.is_part(test) or self._picks_layers(test):
            return True
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            return all(self.asks_for_work(part) for part in test.values)
        if (
            isinstance(test, ast.Compare)
            and len(test.ops) == 1
            and (self.is_size(test.left) or self.is_part(test.left))
        ):
            bound = self.values.constant(test.comparators[0])
            op = test.ops[0]
            if bound is None:
                return False
            return (isinstance(op, (ast.Gt, ast.NotEq)) and bound.value == 0) or (
                isinstance(op, ast.GtE) and bound.value == 1
            )
        return False
