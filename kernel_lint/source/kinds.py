"""Which host expressions may be tensors.

Works on the code that runs when the model is called. Like the values, a may-analysis: an
expression "may be a tensor" when some binding makes it one.
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Callable, Iterator

from kernel_lint import TYPE_CHECKING
from kernel_lint.source import members
from kernel_lint.source.domain import Attr, Class, Const, Container, Func, Instance, Param, Qual
from kernel_lint.source.flow import Flow
from kernel_lint.source.given import (
    asked_for_number,
    gone_through,
    is_host_annotation,
    shown_elements,
    variadic,
)
from kernel_lint.source.guarded import Guarded
from kernel_lint.source.reaching import reaching_bindings
from kernel_lint.source.scopes import (
    Binding,
    BindingKind,
    FunctionNode,
    Scope,
    ScopeKind,
    Step,
)
from kernel_lint.source.torch_names import (
    HOST_RESULT,
    returns_tensor,
)

if TYPE_CHECKING:
    from typing import Any, TypeAlias

# Functions whose result is of the kind of their arguments.
_LIKE_ARGUMENTS = frozenset(
    {f"builtins.{name}" for name in ("getattr", "next", "sum", "max", "min", "abs", "pow")}
    | {"copy.copy", "copy.deepcopy"}
)


class Kind(enum.Enum):
    """What sort of thing an expression may be on the host."""

    TENSOR = "tensor"
    HOST = "host"
    UNKNOWN = "unknown"

    # Enum's own is a function in Python; each member is one object.
    __hash__ = object.__hash__


Kinds: TypeAlias = frozenset[Kind]
# Reading them off the enumerations each time would be felt.
_TENSOR, _LOOP, _PARAMETER = Kind.TENSOR, BindingKind.LOOP, BindingKind.PARAMETER
# What such statements bind is no tensor.
_HOST_BINDINGS = (BindingKind.IMPORT, BindingKind.FUNCTION, BindingKind.CLASS, BindingKind.EXCEPT)
TENSOR: Kinds = frozenset({_TENSOR})
HOST: Kinds = frozenset({Kind.HOST})
UNKNOWN: Kinds = frozenset({Kind.UNKNOWN})
NONE: Kinds = frozenset()


class KindFinder(Guarded):
    """Answers ``kinds(expression)`` for one module, with memory."""

    def __init__(self, flow: Flow) -> None:
        super().__init__()
        self.flow = flow
        self.values = flow.values
        self.scopes = flow.values.scopes
        self._kinds: dict[ast.AST, Kinds] = {}
        self._apart: set[ast.expr] = set()
        self._annotations: dict[ast.expr, bool] = {}

    # -- kinds -------------------------------------------------------------------

    def may_be_tensor(self, node: ast.expr) -> bool:
        """Tell whether some path makes ``node`` a tensor."""
        return _TENSOR in self.kinds(node)

    def kinds(self, node: ast.expr) -> Kinds:
        """Return what ``node`` may be."""
        known = self._kinds.get(node)
        if known is not None:
            return known
        kind = node.__class__
        if kind in _HOST_NODES:
            return HOST
        handler = _KINDS.get(kind)
        return self.guarded(node, node, self._kinds, handler, NONE, NONE) if handler else UNKNOWN

    def _name(self, node: ast.Name) -> Kinds:
        found = self.scopes.scope[node].lookup(node.id)
        if found is None:
            return HOST
        owner, bindings = found
        if len(bindings) == 1:
            return self._binding(bindings[0], owner)
        reaching = reaching_bindings(self.scopes, node, owner, bindings)
        return join([self._binding(binding, owner) for binding in reaching])

    def _binding(self, binding: Binding, owner: Scope) -> Kinds:
        if binding.kind is _PARAMETER:
            return self._parameter(binding, owner)
        if binding.kind in _HOST_BINDINGS:
            return HOST
        if binding.value is None:
            return UNKNOWN
        if binding.kind is _LOOP and owner.kind is not ScopeKind.COMPREHENSION and not binding.path:
            return UNKNOWN
        return self.follow(binding.value, binding.path)

    def follow(self, value: ast.expr, path: tuple[Step, ...]) -> Kinds:
        """Return the kinds of what a binding's path leads to."""
        if not path:
            return self.kinds(value)
        step, rest = path[0], path[1:]
        parts = self._parts(value, step)
        if parts is not None:
            return join(self.follow(part, rest) for part in parts)
        kinds = self.kinds(value)
        return kinds if kinds <= (TENSOR | HOST) else UNKNOWN

    def _parts(self, value: ast.expr, step: Step) -> list[ast.expr] | None:
        """Return the expressions that one step into ``value`` may give, or None."""
        handed = variadic(self.values, value)
        if handed:
            return handed
        if isinstance(value, ast.IfExp):
            sides = [self._parts(side, step) for side in (value.body, value.orelse)]
            return None if None in sides else [part for side in sides if side for part in side]
        if isinstance(value, (ast.Tuple, ast.List)):
            if (
                isinstance(step, int)
                and step < len(value.elts)
                and not any(isinstance(e, ast.Starred) for e in value.elts)
            ):
                return [value.elts[step]]
            return [e.value if isinstance(e, ast.Starred) else e for e in value.elts]
        if isinstance(value, ast.Call) and value not in self._apart:
            # A function may return what it gives for something else.
            self._apart.add(value)
            functions = [f.node for f in self.values.of(value.func) if isinstance(f, Func)]
            inner = [self._parts(r, step) for f in functions for r in self._returned(f)]
            self._apart.discard(value)
            if inner:
                return None if None in inner else [part for side in inner if side for part in side]
        return None

    def _returned(self, node: FunctionNode) -> list[ast.expr]:
        return [node.body] if isinstance(node, ast.Lambda) else self.values.sites.returns(node)

    def _parameter(self, binding: Binding, owner: Scope) -> Kinds:
        function, argument = owner.node, binding.node
        assert isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        if members.receiver(self.scopes, function, binding.name) is not None:
            return HOST
        if argument in (function.args.vararg, function.args.kwarg):
            return HOST
        annotation = getattr(argument, "annotation", None)
        if annotation is not None and self._is_host_annotation(annotation):
            return HOST
        passed = self.values.sites.argument_nodes(function, binding.name)
        if passed:
            return join(
                [*(self.kinds(a) for a in passed), *([self.kinds(binding.value)] if binding.value else [])]
            )
        if function in self.flow.entries:
            default = self.values.constant(binding.value) if binding.value is not None else None
            if default is not None and default.value is not None:
                return HOST
            return TENSOR
        if annotation is not None and "Tensor" in ast.unparse(annotation):
            return TENSOR
        return join(map(self._element, gone_through(self.values, function))) or UNKNOWN

    def _element(self, node: ast.expr) -> Kinds:
        """Return the kinds of what going through ``node`` gives."""
        kinds = self.kinds(node)
        if _TENSOR in kinds:
            return kinds
        holders = [v.node for v in self.values.of(node) if isinstance(v, Container)]
        inner = [part for holder in holders for part in shown_elements(holder)]
        return join(map(self.kinds, inner)) or UNKNOWN

    def _is_host_annotation(self, node: ast.expr) -> bool:
        if node not in self._annotations:
            self._annotations[node] = is_host_annotation(node)
        return self._annotations[node]

    def _attribute(self, node: ast.Attribute) -> Kinds:
        if self._on_self(node):
            stored = [self.follow(b.value, b.path) for b in self._stores(node) if b.value is not None]
            named = [self.kinds(value) for value in self.values.sites.named_stores(node.attr)]
            if stored or named:
                return join([*stored, *named])
        if _TENSOR in self.kinds(node.value):
            return HOST if node.attr in HOST_RESULT else TENSOR
        return self._by_value(node)

    def _stores(self, node: ast.Attribute) -> Iterator[Binding]:
        """Return what is stored under an attribute of ``self``."""
        for target, binding in self.scopes.attribute_stores.get(node.attr, ()):
            if any(isinstance(v, Instance) for v in self.values.of(target.value)):
                yield binding

    def _on_self(self, node: ast.Attribute) -> bool:
        return Instance in map(type, self.values.of(node.value))

    def _by_value(self, node: ast.expr) -> Kinds:
        parts: list[Kinds] = []
        for value in self.values.of(node):
            if isinstance(value, Qual):
                parts.append(TENSOR if returns_tensor(value.name) else HOST)
            elif isinstance(value, (Const, Func, Class, Instance, Container)):
                parts.append(HOST)
            elif isinstance(value, Param):
                parts.append(TENSOR if value.function in self.flow.entries else UNKNOWN)
            elif isinstance(value, Attr) and value.name in HOST_RESULT:
                parts.append(HOST)
            else:
                parts.append(UNKNOWN)
        return join(parts) or UNKNOWN

    def _call(self, node: ast.Call) -> Kinds:
        func = node.func
        if isinstance(func, ast.Attribute) and _TENSOR in self.kinds(func.value) and not self._on_self(func):
            return HOST if func.attr in HOST_RESULT else TENSOR
        parts: list[Kinds] = []
        for value in self.values.of(func):
            if isinstance(value, Func):
                parts.append(join(self.kinds(r) for r in self._returned(value.node)) or HOST)
            elif isinstance(value, Qual):
                parts.append(self._external(value.name, node))
            elif isinstance(value, Instance):
                forwards = members.class_attribute(self.values, value.cls, "forward", value)
                parts.extend(
                    join(self.kinds(r) for r in self._returned(f.node))
                    for f in forwards
                    if isinstance(f, Func)
                )
            elif isinstance(value, Class):
                parts.append(HOST)
            elif isinstance(value, Attr) and value.name in ("get", "pop", "setdefault"):
                parts.append(join(self.kinds(a) for a in node.args[1:]) | self._inserted(func))
            else:
                parts.append(UNKNOWN)
        return join(parts) or UNKNOWN

    def _inserted(self, func: ast.expr) -> Kinds:
        if not isinstance(func, ast.Attribute):
            return UNKNOWN
        return self._items(func.value)

    def _items(self, base: ast.expr) -> Kinds:
        """Return the kinds of what is stored in the container that ``base`` names."""
        name = base.id if isinstance(base, ast.Name) else base.attr if isinstance(base, ast.Attribute) else ""
        stored = [b.value for _, b in self.scopes.item_stores.get(name, ()) if b.value is not None]
        stored.extend(self.values.sites.inserted(name) if name else ())
        return join(self.kinds(value) for value in stored) or UNKNOWN

    def _external(self, path: str, node: ast.Call) -> Kinds:
        if returns_tensor(path + "()"):
            return TENSOR
        if path in _LIKE_ARGUMENTS or path.startswith("operator."):
            return join(self.kinds(a) for a in node.args[:2]) or UNKNOWN
        return HOST

    def _subscript(self, node: ast.Subscript) -> Kinds:
        key = self.values.constant(node.slice) if not isinstance(node.slice, ast.Slice) else None
        index = key.value if key is not None and isinstance(key.value, int) else "*"
        if isinstance(node.value, (ast.Tuple, ast.List)) and isinstance(index, int):
            parts = self._parts(node.value, index)
            return join(self.kinds(p) for p in parts or [])
        base = self.kinds(node.value)
        if _TENSOR in base:
            return TENSOR | (base - TENSOR)
        stored = self._items(node.value)
        if stored != UNKNOWN:
            return stored
        handed = variadic(self.values, node.value)
        if handed:
            return join(map(self.kinds, handed))
        containers = [v.node for v in self.values.of(node.value) if isinstance(v, Container)]
        inner = [self.kinds(e) for c in containers for e in shown_elements(c)]
        return join(inner) if inner else (HOST if base == HOST and not containers else UNKNOWN)

    def _binary(self, node: ast.BinOp) -> Kinds:
        both = self.kinds(node.left) | self.kinds(node.right)
        return TENSOR if _TENSOR in both else both

    def _unary(self, node: ast.UnaryOp) -> Kinds:
        return HOST if isinstance(node.op, ast.Not) else self.kinds(node.operand)

    def _compare(self, node: ast.Compare) -> Kinds:
        if all(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in node.ops):
            return HOST
        both = self.kinds(node.left) | join(self.kinds(c) for c in node.comparators)
        return TENSOR if _TENSOR in both else HOST

    def _either(self, node: ast.IfExp) -> Kinds:
        number = asked_for_number(node.test)
        return join(
            HOST
            if number is not None and side is node.body and ast.dump(side) == ast.dump(number)
            else self.kinds(side)
            for side in self.values.sides(node)
        )

    def _boolean(self, node: ast.BoolOp) -> Kinds:
        return join(map(self.kinds, node.values))

    def _inner(self, node: Any) -> Kinds:
        kinds: Kinds = self.kinds(node.value)
        return kinds


def join(parts: Any) -> Kinds:
    """Join kinds."""
    out: Kinds = NONE
    for part in parts:
        out |= part
    return out


_KINDS: dict[type[ast.AST], Callable[[KindFinder, Any], Kinds]] = {
    ast.Name: KindFinder._name,
    ast.Attribute: KindFinder._attribute,
    ast.Call: KindFinder._call,
    ast.Subscript: KindFinder._subscript,
    ast.BinOp: KindFinder._binary,
    ast.UnaryOp: KindFinder._unary,
    ast.Compare: KindFinder._compare,
    ast.IfExp: KindFinder._either,
    ast.BoolOp: KindFinder._boolean,
    ast.NamedExpr: KindFinder._inner,
    ast.Await: KindFinder._inner,
    ast.Starred: KindFinder._inner,
}
# Expressions that are never a tensor.
_HOST_NODES = frozenset(
    {ast.Constant, ast.JoinedStr, ast.Lambda, ast.List, ast.Tuple, ast.Set, ast.Dict}
    | {ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp}
)
