"""One pass over a module's expressions for all that ask about them: what is referred to, called, run.

Rules ask for "the calls of setattr" or "the references to time"; the flow asks which expressions may
run a function of the module. Each answer needs the values of every name, attribute, item and call,
so they are looked at once and the answers are filed here.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from kernel_lint import TYPE_CHECKING
from kernel_lint.records import cached_property
from kernel_lint.source.domain import (
    Attr,
    Class,
    Func,
    Getter,
    Instance,
    Namespace,
    Param,
    Partial,
    Qual,
    Super,
    Unknown,
    Value,
    quals,
)
from kernel_lint.source.domain import Values as ValueSet
from kernel_lint.source.items import stores_items
from kernel_lint.source.names import canonical
from kernel_lint.source.scopes import Binding, BindingKind, FunctionNode
from kernel_lint.source.values import Values

if TYPE_CHECKING:
    from typing import Any, TypeAlias


# Where a path is formed, an expression or the alias of an import, and the path.
Formed: TypeAlias = tuple[ast.AST, str]


class Survey:
    """What the expressions of a module refer to, call and run.

    ``formed`` are the places where a dotted path is formed, with the path: in imports, in bare names, in
    attributes, items and calls, each in document order. ``running`` lists, by the innermost function whose
    code they are, the expressions that may run or hand on a function of the module. ``calls`` are all calls,
    in order, ``written`` and ``written_items`` the attributes and items that are stored or deleted.
    ``unbound`` lists the reads of each name that nothing binds.
    """

    def __init__(self, values: Values) -> None:
        self.values = values
        self.running: defaultdict[FunctionNode | None, list[ast.expr]] = defaultdict(list)
        self.calls: list[ast.Call] = []
        self.written: list[ast.Attribute] = []
        self.written_items: list[ast.Subscript] = []
        self.unbound: defaultdict[str, list[ast.Name]] = defaultdict(list)
        self._paths: defaultdict[str, list[int]] = defaultdict(list)
        self._kinds: defaultdict[type, list[int]] = defaultdict(list)
        self._methods: defaultdict[str, list[int]] = defaultdict(list)
        # Calls first: what an eval("...") brings is then there for the others to see.
        calls = self._look_at_calls()
        attributes, items = self._attributes(), self._items()
        self.formed: list[Formed] = [*self._imports(), *self._names(), *attributes, *items, *calls]
        for node in values.scopes.of_type(ast.Lambda):
            self._run(node)

    # -- calls -------------------------------------------------------------------

    def calls_of(self, paths: Collection[str]) -> list[ast.Call]:
        """Return the calls of functions outside the module that have one of these dotted paths."""
        known = self._paths
        if known.keys().isdisjoint(paths):
            return []
        return self._in_order([known[path] for path in known.keys() & paths])

    def calls_ending(self, names: Iterable[str]) -> list[ast.Call]:
        """Return the calls of functions outside the module whose path ends in one of these names."""
        last = self._last
        return self._in_order([self._paths[path] for name in last.keys() & names for path in last[name]])

    @cached_property
    def _last(self) -> dict[str, list[str]]:
        """The paths of what is called by the name that each ends in."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for path in self._paths:
            found[path.rpartition(".")[2]].append(path)
        return found

    def calls_below(self, starts: tuple[str, ...]) -> list[ast.Call]:
        """Return the calls of functions outside the module whose path starts with one of these texts."""
        return self._in_order([self._paths[path] for path in self._paths if path.startswith(starts)])

    def method_calls(self, names: Iterable[str]) -> list[ast.Call]:
        """Return the calls of methods with one of these names, of objects that are no dotted path."""
        return self._in_order([self._methods[name] for name in self._methods.keys() & names])

    def calls_of_kind(self, *kinds: type) -> list[ast.Call]:
        """Return the calls whose callee may be a value of one of these types, paths and methods aside."""
        return self._in_order([self._kinds[kind] for kind in kinds if kind in self._kinds])

    def _in_order(self, parts: list[list[int]]) -> list[ast.Call]:
        return [self.calls[index] for index in sorted(set().union(*parts))] if parts else []

    # -- the pass ------------------------------------------------------------------

    def _run(self, node: ast.expr) -> None:
        self.running[self.values.scopes.scope[node].function].append(node)

    def _imports(self) -> Iterator[Formed]:
        scopes = self.values.scopes
        for node in scopes.of_type(ast.Import):
            for alias in node.names:
                yield alias, canonical(alias.name)
        for statement in scopes.of_type(ast.ImportFrom):
            base = "." * statement.level + (statement.module or "")
            for alias in statement.names:
                joined = f"{base}{'' if base.endswith('.') else '.'}{alias.name}"
                yield alias, canonical(joined) if alias.name != "*" else joined

    def _names(self) -> list[Formed]:
        """Names that nothing binds (builtins, star imports), and names of functions.

        The first read of a function's name in a scope stands for all; outside of functions each counts.
        """
        found: list[Formed] = []
        idle, read, known = self._idle_names(), self.values.read, self.values.memory
        for scope in list(self.values.scopes.inner.values()):
            for name, nodes in list(scope.names.items()):
                if name in idle:
                    continue
                values = known.get(nodes[0])
                if values is not None and _TELLING.isdisjoint(map(type, values)):
                    continue
                bound = scope.lookup(name)
                if values is None and bound is not None and not _may_hold_function(bound[1], known):
                    continue
                if values is None:
                    values = read(name, scope, bound)
                if bound is not None and Func not in map(type, values):
                    continue
                reads = [node for node in nodes if node.ctx.__class__ is ast.Load]
                if bound is None:
                    self.unbound[name].extend(reads)
                    paths = quals(values)
                    found.extend([(node, path) for node in reads for path in paths])
                elif reads:
                    self.running[scope.function].extend(reads if scope.function is None else reads[:1])
        return sorted(found, key=_place)

    def _idle_names(self) -> set[str]:
        """The names that only the module itself binds, to what is no function, wherever they are read."""
        scopes = self.values.scopes
        module = scopes.module
        if module.global_names or module.nonlocal_names:
            return set()
        idle = {name for name, bound in module.bindings.items() if not _may_hold_function(bound, {})}
        return idle.difference(*(scope.bindings for scope in scopes.inner.values() if scope is not module))

    def _attributes(self) -> list[Formed]:
        found: list[Formed] = []
        of, known = self.values.of, self.values.memory
        for node in self.values.scopes.of_type(ast.Attribute):
            if node.ctx.__class__ is not ast.Load:
                self.written.append(node)
                if node.ctx.__class__ is ast.Store:
                    continue
            owners = known.get(node.value) or of(node.value)
            values = known.get(node) or of(node)
            if len(values) == 1 == len(owners):
                (value,), (owner,) = values, owners
                kind, above = value.__class__, owner.__class__
                if kind is Qual:
                    if above is Qual or _extends(owner, node, value.name):  # type: ignore[union-attr]
                        found.append((node, value.name))  # type: ignore[union-attr]
                if kind is Func or above is Instance:
                    self._run(node)
                continue
            for path in quals(values):
                if any(_extends(owner, node, path) for owner in owners):
                    found.append((node, path))
            if Instance in map(type, owners) or Func in map(type, values):
                self._run(node)
        return found

    def _items(self) -> list[Formed]:
        found: list[Formed] = []
        of, known = self.values.of, self.values.memory
        for node in self.values.scopes.of_type(ast.Subscript):
            if node.ctx.__class__ is not ast.Load:
                self.written_items.append(node)
                if node.ctx.__class__ is ast.Store:
                    continue
            vague = known.get(node.value)
            if vague and _VAGUE.issuperset(map(type, vague)) and not stores_items(self.values, node.value):
                # An item of an unknown thing is no path and no function.
                continue
            values = of(node)
            for path in quals(values):
                if any(isinstance(owner, (Qual, Namespace)) for owner in of(node.value)):
                    found.append((node, path))
            if Func in map(type, values):
                self._run(node)
        return found

    def _look_at_calls(self) -> list[Formed]:
        found: list[Formed] = []
        of, known = self.values.of, self.values.memory
        # Looking at eval("...") adds what the text calls at the end of the list.
        for index, node in enumerate(self.values.scopes.of_type(ast.Call)):
            self.calls.append(node)
            functions = known.get(node.func) or of(node.func)
            values = known.get(node) or of(node)
            for function in functions:
                kind = function.__class__
                if kind is Qual:
                    self._paths[function.name].append(index)  # type: ignore[union-attr]
                elif kind is Attr:
                    self._methods[function.name].append(index)  # type: ignore[union-attr]
                else:
                    self._kinds[kind].append(index)
            if len(functions) == 1 == len(values) and _is_usual(function, *values):
                continue
            for path in quals(values):
                if _formed_by_call(functions, path):
                    found.append((node, path))
            if not (_MADE.isdisjoint(map(type, values)) and _MAKERS.isdisjoint(map(type, functions))):
                self._run(node)
        return found


# What of the values of a name says that it may be bound by nothing, or be a function.
_TELLING = frozenset({Qual, Unknown, Func})
_VAGUE = frozenset({Attr, Param, Unknown})
_MADE = frozenset({Func, Instance})
_MAKERS = frozenset({Instance, Class, Partial})
_ASSIGN, _AUGMENTED, _IMPORT = BindingKind.ASSIGN, BindingKind.AUGMENTED, BindingKind.IMPORT
# Expressions whose value is never a function of the module.
_PLAIN = frozenset({ast.BinOp, ast.Compare, ast.Constant, ast.JoinedStr, ast.UnaryOp})


def _may_hold_function(bindings: Sequence[Binding], known: Mapping[Any, ValueSet]) -> bool:
    for binding in bindings:
        kind = binding.kind
        if kind is _ASSIGN and not binding.path:
            if binding.value.__class__ not in _PLAIN:
                values = known.get(binding.value)
                if values is None or Func in map(type, values):
                    return True
        elif kind is not _IMPORT and kind is not _AUGMENTED:
            return True
    return False


def _place(formed: Formed) -> tuple[int, int]:
    return formed[0].lineno, formed[0].col_offset  # type: ignore[attr-defined]


def _extends(owner: Value, node: ast.Attribute, path: str) -> bool:
    """Tell a place that forms a path from one that only passes it on."""
    kind = owner.__class__
    if kind is Instance or kind is Super:
        # self.compile comes from a base class outside; self.f = torch.f was formed elsewhere.
        return path.endswith(f"().{node.attr}")
    return kind is Qual or kind is Namespace


def _is_usual(function: Value, value: Value) -> bool:
    """Tell whether a call gives the term for it: nothing that it forms, nothing that can run."""
    kind = function.__class__
    if kind is not value.__class__:
        return False
    return kind is Attr or (kind is Qual and value.name == _result(function.name))  # type: ignore[union-attr]


def _formed_by_call(functions: ValueSet, path: str) -> bool:
    """Tell a call that forms a path from one that only passes it on.

    f() of a local f hands on what f's own text formed; torch.f() only calls torch.f;
    getattr(torch, "f"), import_module("torch") and ``sys.__dict__.get("f")`` form a path.
    """
    callees = []
    for function in functions:
        kind = function.__class__
        if kind is Qual:
            callees.append(_result(function.name))  # type: ignore[union-attr]
        elif kind is Getter or (kind is Attr and function.base.__class__ is Namespace):  # type: ignore[union-attr]
            return True
    return bool(callees) and path not in callees


@lru_cache(maxsize=4096)
def _result(callee: str) -> str:
    return canonical(f"{callee}()")
