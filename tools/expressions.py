"""Arithmetic expressions from the command line, evaluated without ``eval``.

``2*M*N*K`` with ``M=4096`` is walked as a syntax tree of numbers, names, the operators
``+ - * / // % **``, comparisons inside conditional expressions, and a few functions. Anything else
(attributes, subscripts, lambdas, strings, calls of other names) is refused by name, and results
are bounded, so that an expression can neither reach the interpreter nor hang it.
"""

from __future__ import annotations

import ast
import difflib
import math
import operator
from collections.abc import Callable, Mapping

from kernel_lint.errors import KernelLintError

Number = int | float

MAX_LENGTH = 2000
MAX_MAGNITUDE = 1e30
MAX_EXPONENT = 64
"""Bounds that no count of operations or bytes reaches: 1e30 FLOP take a zettaFLOPS machine 30 years."""


def ceil_div(numerator: Number, denominator: Number) -> int:
    """Return the quotient rounded up: how many tiles of one size cover the other."""
    return math.ceil(numerator / denominator)


FUNCTIONS: Mapping[str, Callable[..., Number]] = {
    "min": min,
    "max": max,
    "abs": abs,
    "round": round,
    "ceil": math.ceil,
    "floor": math.floor,
    "sqrt": math.sqrt,
    "log2": math.log2,
    "cdiv": ceil_div,
    "ceildiv": ceil_div,
}
_BINARY: Mapping[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARE: Mapping[type[ast.cmpop], Callable[[Number, Number], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


def evaluate(expression: str, variables: Mapping[str, Number] | None = None) -> Number:
    """Return the value of an arithmetic expression.

    Raises :class:`KernelLintError` for anything that is not arithmetic over ``variables``, a
    division by zero, or a result that is not finite or beyond 1e30.
    """
    if len(expression) > MAX_LENGTH:
        raise KernelLintError(
            f"the expression has {len(expression)} characters", f"keep it under {MAX_LENGTH}"
        )
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise KernelLintError(
            f"{expression!r} is not an expression: {error}", "write it as in Python: 2*M*N*K"
        ) from error
    try:
        return _Evaluator(expression, variables or {}).visit(tree.body)
    except (ArithmeticError, ValueError, TypeError, RecursionError) as error:
        raise KernelLintError(
            f"{expression!r} has no value: {error}", "check the variables' values"
        ) from error


class _Evaluator:
    """Walks one tree. Each kind of node that is allowed has its branch; the rest is refused."""

    def __init__(self, text: str, variables: Mapping[str, Number]) -> None:
        self.text = text
        self.variables = variables

    def visit(self, node: ast.expr) -> Number:
        """Return the value of a node, checked to be a finite number of reasonable size."""
        value = self._value(node)
        if not math.isfinite(value) or abs(value) > MAX_MAGNITUDE:
            raise KernelLintError(
                f"{ast.unparse(node)} in {self.text!r} is out of range", "check the variables' values"
            )
        return value

    def _value(self, node: ast.expr) -> Number:
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            assert isinstance(node.value, (int, float))
            return node.value
        if isinstance(node, ast.Name):
            return self._name(node.id)
        if isinstance(node, ast.BinOp):
            return self._binary(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            value = self.visit(node.operand)
            return -value if isinstance(node.op, ast.USub) else value
        if isinstance(node, ast.IfExp):
            return self.visit(node.body if self._test(node.test) else node.orelse)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            return self._call(node.func.id, node.args)
        raise self._refusal(node)

    def _name(self, name: str) -> Number:
        if name in self.variables:
            return self.variables[name]
        close = difflib.get_close_matches(name, self.variables, n=1)
        hint = f"did you mean {close[0]}?" if close else f"give it with --var {name}=VALUE"
        raise KernelLintError(f"{name!r} in {self.text!r} has no value", hint)

    def _binary(self, node: ast.BinOp) -> Number:
        left, right = self.visit(node.left), self.visit(node.right)
        if isinstance(node.op, ast.Pow):
            if abs(right) > MAX_EXPONENT:
                raise KernelLintError(
                    f"the exponent {right} in {self.text!r} is too large", f"at most {MAX_EXPONENT}"
                )
            power = left**right
            if isinstance(power, complex):
                raise self._refusal(node)
            return float(power) if isinstance(power, float) else int(power)
        function = _BINARY.get(type(node.op))
        if function is None:
            raise self._refusal(node)
        return function(left, right)

    def _test(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARE:
            return _COMPARE[type(node.ops[0])](self.visit(node.left), self.visit(node.comparators[0]))
        return bool(self.visit(node))

    def _call(self, name: str, arguments: list[ast.expr]) -> Number:
        function = FUNCTIONS.get(name)
        if function is None:
            raise KernelLintError(
                f"{name}() in {self.text!r} is not one of the functions here",
                f"use {', '.join(sorted(FUNCTIONS))}",
            )
        return function(*(self.visit(argument) for argument in arguments))

    def _refusal(self, node: ast.AST) -> KernelLintError:
        kind = type(node).__name__
        return KernelLintError(
            f"{self.text!r} holds a {kind}, which is not arithmetic",
            "only numbers, variables, + - * / // % **, and " + ", ".join(sorted(FUNCTIONS)),
        )


def parse_variables(assignments: tuple[str, ...] | list[str]) -> dict[str, Number]:
    """Turn ``("BM=128", "TILES=M//BM")`` into numbers; a value may use the names before it.

    Raises :class:`KernelLintError` for an assignment without ``=`` or with an invalid name.
    """
    variables: dict[str, Number] = {}
    for assignment in assignments:
        name, sign, value = assignment.partition("=")
        name = name.strip()
        if not sign or not name.isidentifier():
            raise KernelLintError(
                f"--var {assignment!r} is not NAME=VALUE", "write for instance --var BM=128"
            )
        variables[name] = evaluate(value, variables)
    return variables
