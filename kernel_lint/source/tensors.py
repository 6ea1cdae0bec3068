"""Which storage a tensor expression may share: where what is returned, or written, comes from."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernel_lint import TYPE_CHECKING
from kernel_lint.frameworks import FRAMEWORKS
from kernel_lint.records import dataclass
from kernel_lint.source import members
from kernel_lint.source.domain import Attr, Class, Const, Func, Instance, Qual
from kernel_lint.source.flow import Flow
from kernel_lint.source.kinds import KindFinder
from kernel_lint.source.reaching import reaching_bindings
from kernel_lint.source.scopes import Binding, BindingKind, Scope, ScopeKind, Step
from kernel_lint.source.torch_names import (
    ALLOCATION,
    HOST_RESULT,
    MOVEMENT,
    VIEWS,
    returns_tensor,
)

if TYPE_CHECKING:
    from typing import Any

_LANGUAGES = frozenset(name for framework in FRAMEWORKS.values() for name in framework.imports)
# What hands on the address of a tensor's storage: a kernel that gets it writes there.
_ADDRESSES = frozenset(
    {"data_ptr", "const_data_ptr", "mutable_data_ptr", "untyped_storage", "storage", "__dlpack__"}
)
# Functions whose result holds, or is, what they are given.
_HOLDING = frozenset(
    f"builtins.{name}" for name in "tuple list dict set next iter zip enumerate reversed sorted int".split()
) | {
    "copy.copy",
    "ctypes.c_void_p",
    "itertools.chain",
    "itertools.cycle",
    "itertools.islice",
    "collections.deque",
}
_LOOKUPS = frozenset({"get", "pop", "setdefault", "popitem", "__getitem__"})


@dataclass(frozen=True, slots=True)
class Root:
    """Where the storage of a tensor expression comes from.

    ``kind`` is ``alloc`` (``node`` is the call), ``param`` (of an entry, or of a function that
    nothing here calls), ``attribute`` (of ``self``), ``global``, ``default``, ``compute`` (the result
    of an operation) or ``unknown``.
    """

    kind: str
    name: str
    node: ast.AST | None = None


UNKNOWN_ROOT = Root("unknown", "")
# A set that grows beyond this says nothing precise any more.
MAX_ROOTS = 48
_NOT_SEEN = frozenset({UNKNOWN_ROOT})


class Tensors(KindFinder):
    """Answers ``kinds(expression)`` and ``roots(expression)`` for one module."""

    def __init__(self, flow: Flow) -> None:
        super().__init__(flow)
        self._roots: dict[ast.AST, frozenset[Root]] = {}

    def roots(self, node: ast.expr) -> frozenset[Root]:
        """Return where the storage of a tensor expression (or of the tensors in it) comes from."""
        known = self._roots.get(node)
        if known is not None:
            return known
        result: frozenset[Root] = self.guarded(
            ("root", node), node, self._roots, Tensors._all_roots, frozenset(), _NOT_SEEN
        )
        return result

    def _all_roots(self, node: ast.expr) -> frozenset[Root]:
        found: set[Root] = set()
        for root in self._roots_of(node):
            found.add(root)
            if len(found) > MAX_ROOTS:
                return _NOT_SEEN
        return frozenset(found)

    def _settle(self, keys: list[object], result: Any) -> None:
        """All around a cycle of storages reach each other: what its head may share, so may they."""
        super()._settle(keys, result)
        for key in keys:
            if isinstance(key, tuple):
                self._roots[key[1]] = result

    def _roots_of(self, node: ast.expr) -> Iterator[Root]:
        if isinstance(node, ast.Name):
            yield from self._name_roots(node)
        elif isinstance(node, ast.Attribute):
            yield from self._attribute_roots(node)
        elif isinstance(node, ast.Subscript):
            for part in self._shown_items(node) or [node.value]:
                yield from self.roots(part)
        elif isinstance(node, ast.Call):
            yield from self._call_roots(node)
        elif isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            for element in node.elts:
                yield from self.roots(element)
        elif isinstance(node, ast.Dict):
            for value in node.values:
                yield from self.roots(value)
        elif isinstance(node, ast.IfExp):
            for side in self.values.sides(node):
                yield from self.roots(side)
        elif isinstance(node, ast.BoolOp):
            for value in node.values:
                yield from self.roots(value)
        elif isinstance(node, (ast.NamedExpr, ast.Await, ast.Starred)):
            yield from self.roots(node.value)
        elif isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Compare)):
            if self.may_be_tensor(node):
                yield Root("compute", "operator", node)
            elif isinstance(node, ast.BinOp):
                # An address with an offset.
                yield from self.roots(node.left)
                yield from self.roots(node.right)
        elif isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp)):
            yield from self.roots(node.elt)
        elif isinstance(node, ast.DictComp):
            yield from self.roots(node.value)

    def _shown_items(self, node: ast.Subscript) -> list[ast.expr]:
        """Return the one item of a tuple or dict that ``t[1]`` takes, when nothing is put into it later."""
        value = node.value
        if isinstance(value, ast.Name):
            found = self.scopes.scope[value].lookup(value.id)
            bound = found[1] if found is not None else []
            if len(bound) != 1 or bound[0].path or self._stored_in(value.id):
                return []
            value = bound[0].value or value
        key = self.values.constant(node.slice)
        if key is None or not isinstance(value, (ast.Tuple, ast.List, ast.Dict)):
            return []
        if isinstance(value, ast.Dict):
            keys = [self.values.constant(k) if k is not None else None for k in value.keys]
            return (
                [v for k, v in zip(keys, value.values, strict=True) if k == key] if None not in keys else []
            )
        if not isinstance(key.value, int) or any(isinstance(e, ast.Starred) for e in value.elts):
            return []
        return value.elts[key.value : key.value + 1 or None]

    def _name_roots(self, node: ast.Name) -> Iterator[Root]:
        found = self.scopes.scope[node].lookup(node.id)
        if found is None:
            return
        owner, bindings = found
        for binding in reaching_bindings(self.scopes, node, owner, bindings):
            if binding.kind is BindingKind.PARAMETER:
                yield from self._parameter_roots(binding, owner)
            elif owner.kind is ScopeKind.MODULE and binding.kind is BindingKind.ASSIGN:
                yield Root("global", node.id)
            elif binding.value is not None:
                yield from self._bound_roots(binding.value, binding.path)
            elif binding.kind in (BindingKind.PATTERN, BindingKind.EXCEPT):
                yield UNKNOWN_ROOT
        if owner.kind is not ScopeKind.MODULE:
            for stored in self._stored_in(node.id):
                yield from self.roots(stored)

    def _stored_in(self, name: str) -> list[ast.expr]:
        stored = [b.value for _, b in self.scopes.item_stores.get(name, ()) if b.value is not None]
        return stored + self.values.sites.inserted(name)

    def _bound_roots(self, value: ast.expr, path: tuple[Step, ...]) -> Iterator[Root]:
        parts = self._parts(value, path[0]) if path else None
        if parts is not None:
            for part in parts:
                yield from self._bound_roots(part, path[1:])
        else:
            yield from self.roots(value)

    def _parameter_roots(self, binding: Binding, owner: Scope) -> Iterator[Root]:
        function = owner.node
        assert isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        passed = self.values.sites.argument_nodes(function, binding.name)
        if binding.value is not None and isinstance(binding.value, (ast.Dict, ast.List, ast.Set, ast.Call)):
            yield Root("default", binding.name)
        for argument in passed:
            yield from self.roots(argument)
        if not passed:
            known = function in self.flow.entries
            yield Root("param", binding.name, function) if known else UNKNOWN_ROOT

    def _attribute_roots(self, node: ast.Attribute) -> Iterator[Root]:
        if self._on_self(node) or any(isinstance(v, (Class, Func)) for v in self.values.of(node.value)):
            yield Root("attribute", node.attr)
        elif node.attr not in HOST_RESULT:
            yield from self.roots(node.value)

    def _call_roots(self, node: ast.Call) -> Iterator[Root]:
        func = node.func
        if isinstance(func, ast.Attribute) and self.may_be_tensor(func.value) and not self._on_self(func):
            yield from self._method_roots(node, func)
            return
        if isinstance(func, ast.Attribute) and func.attr in _LOOKUPS:
            for part in (func.value, *node.args[1:]):
                yield from self.roots(part)
            return
        for value in self.values.of(func):
            if isinstance(value, Func):
                for returned in self._returned(value.node):
                    yield from self.roots(returned)
            elif isinstance(value, Qual):
                yield from self._external_roots(node, value.name)
            elif isinstance(value, Instance):
                for forward in members.class_attribute(self.values, value.cls, "forward", value):
                    if isinstance(forward, Func):
                        for returned in self._returned(forward.node):
                            yield from self.roots(returned)
            elif isinstance(value, Attr) and value.name in (
                "get",
                "pop",
                "setdefault",
                "popitem",
                "__getitem__",
            ):
                if isinstance(func, ast.Attribute):
                    yield from self.roots(func.value)
                for default in node.args[1:]:
                    yield from self.roots(default)
            elif not isinstance(value, (Class, Const)):
                yield UNKNOWN_ROOT

    def _method_roots(self, node: ast.Call, func: ast.Attribute) -> Iterator[Root]:
        name = func.attr
        if name in (
            "clone",
            "new_empty",
            "new_zeros",
            "new_ones",
            "new_full",
            "new_tensor",
            "new_empty_strided",
        ):
            yield Root("alloc", name, node)
        elif name in VIEWS or name in MOVEMENT:
            # A copy still carries what a launch wrote; a conversion of the input does not make an output.
            yield from self.roots(func.value)
        elif name in _ADDRESSES:
            yield from self.roots(func.value)
        elif name not in HOST_RESULT:
            yield Root("compute", name, node)

    def _external_roots(self, node: ast.Call, path: str) -> Iterator[Root]:
        name = path.rpartition(".")[2]
        if path.startswith("torch."):
            if name in ALLOCATION:
                yield Root("alloc", name, node)
            elif name in VIEWS or name in MOVEMENT:
                for argument in node.args[:1]:
                    yield from self.roots(argument)
            elif path == "torch.nn.Parameter":
                yield from self.roots(node.args[0]) if node.args else ()
            elif returns_tensor(path + "()"):
                yield Root("compute", name, node)
        elif path in _HOLDING:
            for argument in [*node.args, *(k.value for k in node.keywords)]:
                yield from self.roots(argument)
        elif path.partition(".")[0] in _LANGUAGES:
            # from_dlpack(y), and methods of what it gives, are other views of y.
            yield from self._wrapped_roots(node)
        elif path.endswith("()"):
            yield UNKNOWN_ROOT

    def _wrapped_roots(self, node: ast.Call) -> Iterator[Root]:
        sources = [*node.args, *(k.value for k in node.keywords)]
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, (ast.Call, ast.Name)):
            sources.append(node.func.value)
        if not sources:
            yield UNKNOWN_ROOT
        for source in sources:
            yield from self.roots(source)
