"""Constant folding: the value of a pure expression, worked out as Python would.

Only operations without effects on values of bounded size are carried out; everything
else is UnfoldableError.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping

from kernel_lint import TYPE_CHECKING
from kernel_lint.source.domain import Const
from kernel_lint.source.pure import MAX_LENGTH, METHODS, PURE, SAFE_CODECS
from kernel_lint.source.scopes import BindingKind

if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from kernel_lint.source.scopes import Binding

MAX_STEPS = 20_000


class UnfoldableError(Exception):
    """The expression is not a constant that can be worked out here."""


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
    ast.BitXor: operator.xor,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
    ast.Is: lambda a, b: a is b,
    ast.IsNot: lambda a, b: a is not b,
}


_CONVERSIONS: dict[str, Callable[[Any], str]] = {"r": repr, "s": str, "a": ascii}

Resolve: TypeAlias = "Callable[[ast.expr], Any]"
Callee = Callable[[ast.expr], str | None]


class Folder:
    """Folds expressions; ``resolve`` gives the constant of a name (or raises UnfoldableError)

    and ``callee`` the dotted path of what a call calls, or None.
    """

    def __init__(self, resolve: Resolve, callee: Callee) -> None:
        self._resolve = resolve
        self._callee = callee
        self._steps = 0

    def fold(self, node: ast.expr) -> Any:
        """Return the Python value of ``node``; raises UnfoldableError."""
        self._steps = 0
        try:
            return self._fold(node, {})
        except UnfoldableError:
            raise
        except (RecursionError, MemoryError) as error:
            raise UnfoldableError from error
        except Exception as error:
            # The expression itself raises: then it has no value, and Python would say so too.
            raise UnfoldableError from error

    def _fold(self, node: ast.expr, env: Mapping[str, Any]) -> Any:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise UnfoldableError
        kind = node.__class__
        if kind is ast.Constant:
            return node.value  # type: ignore[attr-defined]
        if kind is ast.Name and env and node.id in env:  # type: ignore[attr-defined]
            return env[node.id]  # type: ignore[attr-defined]
        handler = _FOLD.get(kind)
        if handler is None:
            return self._resolve(node)
        return _bounded(handler(self, node, env))

    def items(self, nodes: list[ast.expr], env: Mapping[str, Any]) -> list[Any]:
        """Fold the elements of a display or an argument list, stars expanded."""
        out: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                out.extend(self._fold(node.value, env))
            else:
                out.append(self._fold(node, env))
        return out

    def binary(self, node: ast.BinOp, env: Mapping[str, Any]) -> Any:
        left, right = self._fold(node.left, env), self._fold(node.right, env)
        function = _BINARY.get(type(node.op))
        if function is None:
            raise UnfoldableError
        if isinstance(node.op, ast.Mult):
            counts = [value for value in (left, right) if isinstance(value, int)]
            sized = [value for value in (left, right) if isinstance(value, (str, bytes, list, tuple))]
            if counts and sized and counts[0] * max(len(sized[0]), 1) > MAX_LENGTH:
                raise UnfoldableError
        if isinstance(node.op, ast.LShift) and (not isinstance(right, int) or right > 1024):
            raise UnfoldableError
        if isinstance(node.op, ast.Mod) and isinstance(left, (str, bytes)) and _wide_format(str(left)):
            raise UnfoldableError
        return function(left, right)

    def unary(self, node: ast.UnaryOp, env: Mapping[str, Any]) -> Any:
        return _UNARY[type(node.op)](self._fold(node.operand, env))

    def compare(self, node: ast.Compare, env: Mapping[str, Any]) -> Any:
        left = self._fold(node.left, env)
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self._fold(right_node, env)
            if not _COMPARE[type(op)](left, right):
                return False
            left = right
        return True

    def boolean(self, node: ast.BoolOp, env: Mapping[str, Any]) -> Any:
        value: Any = None
        for part in node.values:
            value = self._fold(part, env)
            if bool(value) is isinstance(node.op, ast.Or):
                return value
        return value

    def conditional(self, node: ast.IfExp, env: Mapping[str, Any]) -> Any:
        return self._fold(node.body if self._fold(node.test, env) else node.orelse, env)

    def joined(self, node: ast.JoinedStr, env: Mapping[str, Any]) -> str:
        parts = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                value = self._fold(part.value, env)
                if part.conversion > 0:
                    value = _CONVERSIONS[chr(part.conversion)](value)
                spec = self._fold(part.format_spec, env) if part.format_spec else ""
                if _wide_format(spec):
                    raise UnfoldableError
                parts.append(format(value, spec))
            else:
                parts.append(str(self._fold(part, env)))
        return "".join(parts)

    def subscript(self, node: ast.Subscript, env: Mapping[str, Any]) -> Any:
        value = self._fold(node.value, env)
        if isinstance(node.slice, ast.Slice):
            bounds = [
                self._fold(b, env) if b else None
                for b in (node.slice.lower, node.slice.upper, node.slice.step)
            ]
            return value[slice(*bounds)]
        return value[self._fold(node.slice, env)]

    def display(self, node: ast.expr, env: Mapping[str, Any]) -> Any:
        if isinstance(node, ast.Dict):
            out: dict[Any, Any] = {}
            for key, value in zip(node.keys, node.values, strict=True):
                if key is None:
                    out.update(self._fold(value, env))
                else:
                    out[self._fold(key, env)] = self._fold(value, env)
            return out
        assert isinstance(node, (ast.List, ast.Tuple, ast.Set))
        kind = {ast.List: list, ast.Tuple: tuple, ast.Set: set}[type(node)]
        return kind(self.items(node.elts, env))

    def comprehension(self, node: ast.expr, env: Mapping[str, Any]) -> Any:
        assert isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp))
        rows: list[Any] = []
        self._generate(node, node.generators, dict(env), rows)
        if isinstance(node, ast.DictComp):
            return dict(rows)
        return set(rows) if isinstance(node, ast.SetComp) else rows

    def _generate(
        self, node: ast.expr, generators: list[ast.comprehension], env: dict[str, Any], rows: list[Any]
    ) -> None:
        if not generators:
            if isinstance(node, ast.DictComp):
                rows.append((self._fold(node.key, env), self._fold(node.value, env)))
            else:
                rows.append(self._fold(node.elt, env))  # type: ignore[attr-defined]
            return
        first, *rest = generators
        for item in _bounded(list(self._fold(first.iter, env))):
            inner = dict(env)
            _unpack(first.target, item, inner)
            if all(self._fold(test, inner) for test in first.ifs):
                self._generate(node, rest, inner, rows)

    def call(self, node: ast.Call, env: Mapping[str, Any]) -> Any:
        path = self._callee(node.func)
        if path == "builtins.map" and len(node.args) == 2 and not node.keywords:
            return self._map(node, env)
        if path == "builtins.filter":
            raise UnfoldableError
        if path is None and isinstance(node.func, ast.Attribute):
            return self._method(node, node.func, env)
        function = PURE.get(path or "")
        if function is None:
            return self._resolve(node)
        arguments = self.items(node.args, env)
        keywords = {k.arg: self._fold(k.value, env) for k in node.keywords if k.arg is not None}
        if path in ("codecs.decode", "codecs.encode"):
            named = arguments[1] if len(arguments) > 1 else keywords.get("encoding", "utf-8")
            if str(named).lower() not in SAFE_CODECS:
                raise UnfoldableError
        if path in ("builtins.bytes", "builtins.bytearray", "builtins.range") and any(
            isinstance(value, int) and abs(value) > MAX_LENGTH for value in arguments
        ):
            raise UnfoldableError
        result = function(*arguments, **keywords)
        return list(result) if isinstance(result, (range, reversed, zip, enumerate)) else result

    def _map(self, node: ast.Call, env: Mapping[str, Any]) -> Any:
        items = _bounded(list(self._fold(node.args[1], env)))
        mapper = node.args[0]
        if isinstance(mapper, ast.Lambda) and len(mapper.args.args) == 1:
            name = mapper.args.args[0].arg
            return [self._fold(mapper.body, {**env, name: item}) for item in items]
        function = PURE.get(self._callee(mapper) or "")
        if function is None:
            raise UnfoldableError
        return [function(item) for item in items]

    def _method(self, node: ast.Call, func: ast.Attribute, env: Mapping[str, Any]) -> Any:
        value = self._fold(func.value, env)
        allowed = METHODS.get(type(value))
        if allowed is None or func.attr not in allowed:
            raise UnfoldableError
        if (
            func.attr in ("center", "ljust", "rjust", "zfill", "expandtabs", "format", "format_map")
            and len(str(value)) > 4096
        ):
            raise UnfoldableError
        arguments = self.items(node.args, env)
        if any(isinstance(a, int) and abs(a) > MAX_LENGTH for a in arguments) and func.attr != "to_bytes":
            raise UnfoldableError
        if func.attr in ("format", "format_map") and _wide_format(str(value)):
            raise UnfoldableError
        keywords = {k.arg: self._fold(k.value, env) for k in node.keywords if k.arg is not None}
        return getattr(value, func.attr)(*arguments, **keywords)

    def named(self, node: ast.NamedExpr, env: Mapping[str, Any]) -> Any:
        return self._fold(node.value, env)


def accumulated(bindings: list[Binding], constant: Callable[[ast.expr], Const | None]) -> Const | None:
    """Fold ``name = "a"; name += "b"`` in document order; None when that is no constant."""
    total: Any = None
    for binding in bindings:
        if binding.value is None or binding.path:
            return None
        value = constant(binding.value)
        if value is None:
            return None
        if binding.kind is BindingKind.AUGMENTED:
            try:
                total = total + value.value
            except Exception:
                return None
        else:
            total = value.value
    return Const(total)


def _wide_format(spec: str) -> bool:
    """Tell whether a format could ask for a width that makes a huge string."""
    digits = "".join(char if char.isdigit() else " " for char in spec).split()
    return any(len(run) > 4 for run in digits)


def _bounded(value: Any) -> Any:
    if value.__class__ is bool or value.__class__ is float:
        return value
    if (
        isinstance(value, (str, bytes, bytearray, list, tuple, set, dict, frozenset))
        and len(value) > MAX_LENGTH
    ):
        raise UnfoldableError
    if isinstance(value, int) and value.bit_length() > 4096:
        raise UnfoldableError
    return value


def _unpack(target: ast.expr, item: Any, env: dict[str, Any]) -> None:
    if isinstance(target, ast.Name):
        env[target.id] = item
    elif isinstance(target, (ast.Tuple, ast.List)):
        parts = list(item)
        if len(parts) != len(target.elts):
            raise UnfoldableError
        for inner, part in zip(target.elts, parts, strict=True):
            _unpack(inner, part, env)
    else:
        raise UnfoldableError


_FOLD: dict[type[ast.AST], Callable[[Folder, Any, Mapping[str, Any]], Any]] = {
    ast.BinOp: Folder.binary,
    ast.UnaryOp: Folder.unary,
    ast.Compare: Folder.compare,
    ast.BoolOp: Folder.boolean,
    ast.IfExp: Folder.conditional,
    ast.JoinedStr: Folder.joined,
    ast.Subscript: Folder.subscript,
    ast.List: Folder.display,
    ast.Tuple: Folder.display,
    ast.Set: Folder.display,
    ast.Dict: Folder.display,
    ast.ListComp: Folder.comprehension,
    ast.SetComp: Folder.comprehension,
    ast.GeneratorExp: Folder.comprehension,
    ast.DictComp: Folder.comprehension,
    ast.Call: Folder.call,
    ast.NamedExpr: Folder.named,
}
