"""May-analysis: the set of values that each expression may have.

Flow-insensitive and scope-aware: every binding of a name counts, wherever it stands. A
result never leaves out a value that a path through the text could give, except where a
set contains :class:`~kernel_lint.source.domain.Unknown`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from kernel_lint import TYPE_CHECKING
from kernel_lint.source import calls, foldable, items, members
from kernel_lint.source.call_sites import CallSites
from kernel_lint.source.domain import (
    NOTHING,
    UNKNOWN,
    Attr,
    Class,
    Const,
    Container,
    Func,
    Getter,
    Instance,
    Param,
    Qual,
    Unknown,
    Value,
    outside,
    union,
)
from kernel_lint.source.domain import Values as ValueSet
from kernel_lint.source.folding import accumulated
from kernel_lint.source.names import BUILTIN_NAMES, MODULE_DUNDERS, canonical, join
from kernel_lint.source.scopes import Binding, BindingKind, Scope, ScopeTable, Step

if TYPE_CHECKING:
    from typing import Any

MAX_DEPTH = 60
MAX_EVALUATIONS = 400_000
# The depth of the outermost cycle that a result waits for, when there is none.
_COMPLETE = 1 << 60
_NAME = ast.Name
# Reading them off the enumeration each time would be felt.
_ASSIGN, _AUGMENTED, _CLASS = BindingKind.ASSIGN, BindingKind.AUGMENTED, BindingKind.CLASS
_FUNCTION, _IMPORT, _PARAMETER = BindingKind.FUNCTION, BindingKind.IMPORT, BindingKind.PARAMETER


class Values:
    """Answers ``of(expression)`` for one module, with memory.

    ``memory`` holds what :meth:`of` gave for each expression, and for all mentions of a name in a scope.
    """

    def __init__(self, scopes: ScopeTable) -> None:
        self.scopes = scopes
        self._scope_of = scopes.scope
        self.memory: dict[Any, ValueSet] = {}
        # By the first binding of a name.
        self._names: dict[Binding, ValueSet] = {}
        # The mentions of a name in one scope whose value the memory holds; and names that nothing mentions.
        self._mentions: list[list[ast.Name]] = []
        self._unmentioned: dict[tuple[Scope, str], ValueSet] = {}
        self._open: dict[object, int] = {}
        self._lowest = _COMPLETE
        self._partial: dict[object, tuple[ValueSet, int]] = {}
        self._waiting: dict[int, list[object]] = {}
        self._evaluations = 0
        self.sites = CallSites(self)
        # What is being worked out by folding.
        self.folding: set[ast.AST] = set()

    def of(self, node: ast.expr) -> ValueSet:
        """Return every value that ``node`` may have, as far as the text tells."""
        known = self.memory.get(node)
        if known is not None:
            return known
        kind = node.__class__
        if kind is _NAME:
            name, scope = node.id, self._scope_of[node]  # type: ignore[attr-defined]
            return self.read(name, scope, scope.lookup(name))
        if kind is ast.Attribute:
            return self._attribute(node)  # type: ignore[arg-type]
        if kind is ast.Call:
            return self._call(node)  # type: ignore[arg-type]
        if kind is ast.Subscript:
            return self._subscript(node)  # type: ignore[arg-type]
        leaf = _LEAVES.get(kind)
        if leaf is not None:
            found = self.memory[node] = frozenset((leaf(node),))
            return found
        handler = _EVALUATE.get(kind)
        return UNKNOWN if handler is None else self.guarded(node, self.memory, handler, node)

    def known(self, node: ast.expr) -> ValueSet | None:
        """Return what :meth:`of` gives, if it was worked out already.

        Around a cycle it matters what is asked for first; asking for this changes nothing.
        """
        return self.memory.get(node)

    def guarded(
        self, key: Any, memo: dict[Any, ValueSet], compute: Callable[[Values, Any], ValueSet], argument: Any
    ) -> ValueSet:
        """Return ``compute(self, argument)``; what a value depends on itself for adds nothing to it.

        A result found while a cycle was cut above it is partial: it is kept only until the
        computation that it waits for ends, lest every way through a cycle be walked again.
        """
        opened = self._open
        position = opened.get(key)
        if position is not None:
            self._lowest = min(self._lowest, position)
            return NOTHING
        if self._partial:
            partial = self._partial.get(key)
            if partial is not None:
                self._lowest = min(self._lowest, partial[1])
                return partial[0]
        self._evaluations += 1
        depth = len(opened)
        if depth > MAX_DEPTH or self._evaluations > MAX_EVALUATIONS:
            return UNKNOWN
        outer_lowest = self._lowest
        self._lowest = _COMPLETE
        opened[key] = depth
        try:
            result = compute(self, argument)
        finally:
            del opened[key]
        lowest = self._lowest
        if lowest >= depth:
            memo[key] = result
            self._lowest = outer_lowest
        else:
            self._partial[key] = (result, lowest)
            self._waiting.setdefault(lowest, []).append(key)
            self._lowest = min(lowest, outer_lowest)
        if self._waiting and depth in self._waiting:
            for waiting in self._waiting.pop(depth):
                self._partial.pop(waiting, None)
        return result

    def forget(self) -> None:
        """Drop what was worked out: something that it depends on is known only now."""
        self.memory.clear()
        self._names.clear()
        self.forget_reads()

    def forget_reads(self) -> None:
        """Look names up anew: something was bound since."""
        for mentions in self._mentions:
            for node in mentions:
                self.memory.pop(node, None)
        self._mentions.clear()
        self._unmentioned.clear()

    # -- names -----------------------------------------------------------------

    def name(self, name: str, scope: Scope) -> ValueSet:
        """Return what a read of ``name`` in ``scope`` may give."""
        mentions = scope.names.get(name)
        known = self.memory.get(mentions[0]) if mentions else self._unmentioned.get((scope, name))
        return self.read(name, scope, scope.lookup(name)) if known is None else known

    def read(self, name: str, scope: Scope, found: tuple[Scope, list[Binding]] | None) -> ValueSet:
        """Like :meth:`name`, for what a lookup of the name gave, when it is read for the first time."""
        if found is None:
            known = self._unbound(name)
        else:
            bindings = found[1]
            key = bindings[0]
            kept = self._names.get(key)
            if kept is None:
                if key.kind is _IMPORT and len(bindings) == 1:
                    kept = self._names[key] = outside(canonical(key.target))
                elif len(bindings) == 1 and (kept := self._value_of(key)) is not None:
                    self._names[key] = kept
                else:
                    result = self.guarded(key, self._names, Values._bound, found)
                    kept = self._names.get(key)
                    # A result in which a cycle was cut is not kept.
                    if kept is None:
                        return result
            known = kept
        mentions = scope.names.get(name)
        if mentions:
            # Each mention of the name in the scope is found at once from now on.
            self.memory.update(dict.fromkeys(mentions, known))
            self._mentions.append(mentions)
        else:
            self._unmentioned[scope, name] = known
        return known

    def _value_of(self, binding: Binding) -> ValueSet | None:
        """Return what a plain assignment gives its name, if that was worked out already."""
        if binding.value is None or binding.path or binding.kind is not _ASSIGN:
            return None
        return self.memory.get(binding.value)

    def _unbound(self, name: str) -> ValueSet:
        if name in MODULE_DUNDERS:
            return outside(name)
        if name == "__builtins__":
            return outside("builtins")
        known = outside(f"builtins.{name}") if name in BUILTIN_NAMES else NOTHING
        if self.scopes.star_imports:
            known = known.union(*(outside(join(module, name)) for module in self.scopes.star_imports))
        return known or UNKNOWN

    def _bound(self, found: tuple[Scope, list[Binding]]) -> ValueSet:
        owner, bindings = found
        if len(bindings) == 1:
            return self.binding(bindings[0], owner)
        parts = [self.binding(binding, owner) for binding in bindings]
        if any(binding.kind is _AUGMENTED for binding in bindings):
            total = accumulated(bindings, self.constant)
            parts.append(UNKNOWN if total is None else frozenset({total}))
        return union(parts)

    def binding(self, binding: Binding, owner: Scope) -> ValueSet:
        """Return what one binding gives its name."""
        kind, node = binding.kind, binding.node
        if kind is _PARAMETER:
            return self._parameter(binding, owner)
        if binding.value is not None:
            if kind is _AUGMENTED:
                return UNKNOWN
            found = self.of(binding.value)
            if not binding.path:
                return found
            # A list holds what was put into it too.
            put = items.stored_items(self, binding.value) if binding.path[0] == "*" else NOTHING
            return self.follow(found, binding.path) | self.follow(put, binding.path[1:])
        if kind is _IMPORT:
            return outside(canonical(binding.target))
        if kind is _FUNCTION:
            assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            return members.decorated(self, node)
        if kind is _CLASS:
            assert isinstance(node, ast.ClassDef)
            return frozenset({Class(node)})
        return UNKNOWN

    def _parameter(self, binding: Binding, owner: Scope) -> ValueSet:
        function = owner.node
        assert isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        receiver = members.receiver(self.scopes, function, binding.name)
        if receiver is not None:
            return frozenset({receiver})
        parts: list[ValueSet] = [frozenset({Param(function, binding.name)})]
        if binding.value is not None:
            parts.append(self.of(binding.value))
        sites = self.sites
        parts += sites.arguments(function, binding.name)
        parts += sites.decorated(function, binding.name)
        return union(parts)

    def follow(self, values: ValueSet, path: tuple[Step, ...]) -> ValueSet:
        """Take ``values`` apart along a binding's path."""
        for step in path:
            values = union([items.step(self, value, step) for value in values]) if values else values
        return values

    # -- pieces that calls and members share -------------------------------------

    def attribute(self, values: ValueSet, name: str) -> ValueSet:
        """Return what attribute ``name`` of ``values`` may be."""
        if len(values) == 1:
            (value,) = values
            return members.attribute(self, value, name)
        return union([members.attribute(self, value, name) for value in values])

    def returned(self, function: Func) -> ValueSet:
        """Return what calling a function of this module may give."""
        node = function.node
        if isinstance(node, ast.Lambda):
            return self.of(node.body)
        return self.guarded(("returns", node), self.memory, Values._returned, node)

    def _known_return(self, function: Func) -> ValueSet | None:
        """Return what calling a function may give; None where that waits for something still open."""
        self.returned(function)
        return self.memory.get(("returns", function.node))

    def _returned(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ValueSet:
        parts = [self.of(value) for value in self.sites.returns(node)]
        return union(parts) if parts else frozenset({Const(None)})

    def sides(self, node: ast.IfExp) -> list[ast.expr]:
        """Return the sides of a conditional expression that can be taken: one when the test is a constant."""
        test = self.fold(node.test)
        if test is None:
            return [node.body, node.orelse]
        return [node.body if test.value else node.orelse]

    def constant(self, node: ast.expr) -> Const | None:
        """Return the one constant that ``node`` is, or None when it may be anything else."""
        values = self.of(node)
        if len(values) == 1:
            (value,) = values
            if isinstance(value, Const):
                return value
            if isinstance(value, Container):
                return self.fold(node)
        return None

    def fold(self, node: ast.expr) -> Const | None:
        """Work out a pure expression; None when it is not one."""
        return foldable.fold(self, node)

    # -- expressions ---------------------------------------------------------------

    def _attribute(self, node: ast.Attribute) -> ValueSet:
        """Take the short way where what the attribute is of is known, and asks for nothing more."""
        found = self.memory.get(node.value)
        if found is not None and len(found) == 1 and node.attr not in self.scopes.attribute_stores:
            (owner,) = found
            if owner.__class__ in _SIMPLE_OWNERS:
                result = self.memory[node] = members.attribute(self, owner, node.attr)
                return result
        return self.guarded(node, self.memory, Values._any_attribute, node)

    def _any_attribute(self, node: ast.Attribute) -> ValueSet:
        owners, name = self.of(node.value), node.attr
        if name not in self.scopes.attribute_stores:
            return self.attribute(owners, name)
        stored = members.stored_on(self, node)
        found = self.attribute(owners, name)
        return union([found, stored]) if stored else found

    def _call(self, node: ast.Call) -> ValueSet:
        """Take the short way where what is called is known, and asks for nothing more."""
        found = self.memory.get(node.func)
        if found is not None and len(found) == 1:
            (function,) = found
            result = self._known_return(function) if function.__class__ is Func else calls.plain(function)
            if result is not None:
                self.memory[node] = result
                return result
        return self.guarded(node, self.memory, calls.call, node)

    def _subscript(self, node: ast.Subscript) -> ValueSet:
        """Likewise."""
        found = self.memory.get(node.value)
        if found is not None and len(found) == 1:
            (owner,) = found
            result = items.plain(self, node, owner)
            if result is not None:
                self.memory[node] = result
                return result
        return self.guarded(node, self.memory, items.subscript, node)

    def _conditional(self, node: ast.IfExp) -> ValueSet:
        return union([self.of(side) for side in self.sides(node)])

    def _boolean(self, node: ast.BoolOp) -> ValueSet:
        return union([self.of(part) for part in node.values])

    def _inner(self, node: ast.NamedExpr | ast.Await | ast.Starred) -> ValueSet:
        return self.of(node.value)


def _constant(node: Any) -> Value:
    return Const(node.value)


# What an attribute of is found without asking for anything else.
_SIMPLE_OWNERS = frozenset({Qual, Attr, Param, Unknown})
# What stands for itself; everything else depends on something.
_LEAVES: dict[type[ast.AST], Callable[[Any], Value]] = {
    ast.Constant: _constant,
    ast.Lambda: Func,
    ast.List: Container,
    ast.Tuple: Container,
    ast.Set: Container,
    ast.Dict: Container,
    ast.ListComp: Container,
    ast.SetComp: Container,
    ast.DictComp: Container,
    ast.GeneratorExp: Container,
}
_EVALUATE: dict[type[ast.AST], Callable[[Values, Any], ValueSet]] = {
    ast.BinOp: foldable.evaluate,
    ast.UnaryOp: foldable.evaluate,
    ast.JoinedStr: foldable.evaluate,
    ast.Compare: foldable.evaluate,
    ast.IfExp: Values._conditional,
    ast.BoolOp: Values._boolean,
    ast.NamedExpr: Values._inner,
    ast.Await: Values._inner,
    ast.Starred: Values._inner,
}

__all__ = ["Class", "Func", "Getter", "Instance", "Value", "ValueSet", "Values"]
