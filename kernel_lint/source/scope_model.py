"""Scopes and bindings as data, and walking a tree by the fields that hold nodes."""

from __future__ import annotations

import ast
import enum
from collections import defaultdict
from collections.abc import Iterator

from kernel_lint import TYPE_CHECKING
from kernel_lint.records import dataclass

if TYPE_CHECKING:
    from typing import TypeAlias, TypeVar

    NodeT = TypeVar("NodeT", bound=ast.AST)

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Step: TypeAlias = int | str


class BindingKind(enum.Enum):
    """The kind of statement that binds a name."""

    IMPORT = "import"
    ASSIGN = "assign"
    AUGMENTED = "augmented"
    PARAMETER = "parameter"
    FUNCTION = "function"
    CLASS = "class"
    LOOP = "loop"
    WITH = "with"
    EXCEPT = "except"
    PATTERN = "pattern"


class ScopeKind(enum.Enum):
    """The kind of block that a scope belongs to."""

    MODULE = "module"
    FUNCTION = "function"
    CLASS = "class"
    COMPREHENSION = "comprehension"


# Reading them off the enumeration each time would be felt.
_CLASS, _COMPREHENSION = ScopeKind.CLASS, ScopeKind.COMPREHENSION


@dataclass(slots=True, eq=False)
class Binding:
    """One place that gives a name a value; never changed, but not frozen: that would triple its cost.

    ``value`` is the expression bound (None for imports, definitions and parameters without
    default) and ``path`` how to get from it to the name's value: an index for each level of
    tuple unpacking, ``"*"`` for "an element of", ``"enter"`` for a ``with`` target.
    ``target`` is the dotted name that an import binds.
    """

    name: str
    kind: BindingKind
    node: ast.AST
    value: ast.expr | None = None
    path: tuple[Step, ...] = ()
    target: str = ""


class Scope:
    """A block with names of its own.

    ``names`` lists every name that the scope's own code mentions, to read, bind or delete it.
    ``function`` is the innermost function or lambda around the scope's code, or None.
    """

    __slots__ = (
        "bindings",
        "found",
        "function",
        "global_names",
        "kind",
        "names",
        "node",
        "nonlocal_names",
        "parent",
    )

    def __init__(self, kind: ScopeKind, node: ast.AST, parent: Scope | None) -> None:
        self.kind = kind
        self.node = node
        self.parent = parent
        self.bindings: dict[str, list[Binding]] = {}
        self.names: defaultdict[str, list[ast.Name]] = defaultdict(list)
        self.global_names: frozenset[str] = frozenset()
        self.nonlocal_names: frozenset[str] = frozenset()
        # What was looked up already and lies in a scope above. (A reference to the scope itself would be
        # a cycle, and the module would wait for the collector.)
        self.found: dict[str, tuple[Scope, list[Binding]] | None] = {}
        self.function: FunctionNode | None = parent.function if parent is not None else None
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            self.function = node

    @property
    def module(self) -> Scope:
        """The outermost scope."""
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def bind(self, binding: Binding) -> None:
        """Record a binding in the scope that the name belongs to."""
        plain = not self.global_names and not self.nonlocal_names
        owner = self if plain else self._owner(binding.name)
        owner.bindings.setdefault(binding.name, []).append(binding)

    def _owner(self, name: str) -> Scope:
        if name in self.global_names:
            return self.module
        if name in self.nonlocal_names and self.parent is not None:
            found = self.parent._search(name)
            return found[0] if found else self.parent
        return self

    def lookup(self, name: str) -> tuple[Scope, list[Binding]] | None:
        """Find the scope and the bindings that a read of ``name`` here refers to.

        Class scopes are visible only from their own statements, as in Python.
        """
        own = self.bindings.get(name)
        if own is not None and name not in self.global_names and name not in self.nonlocal_names:
            return self, own
        if name in self.found:
            return self.found[name]
        found = self._search(name)
        if found is None or found[0] is not self:
            self.found[name] = found
        return found

    def _search(self, name: str) -> tuple[Scope, list[Binding]] | None:
        scope: Scope | None = self
        if name in self.global_names:
            scope = self.module
        first = True
        while scope is not None:
            if first or scope.kind is not _CLASS:
                found = scope.bindings.get(name)
                if found is not None and not (name in scope.nonlocal_names or name in scope.global_names):
                    return scope, found
            # A comprehension in a class body sees the class's names in its first iterable.
            first = first and scope.kind is _COMPREHENSION
            scope = scope.parent
        return None


# Fields that never hold nodes worth visiting; walking them would cost a third of the pass.
_PLAIN = frozenset(
    """ctx op ops id attr kind name module level type_comment arg n s rest kwd_attrs asname conversion simple
    is_async tag""".split()
)
_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {}


def child_fields(kind: type[ast.AST]) -> tuple[str, ...]:
    """Return the names of the fields of a node type that may hold child nodes."""
    fields = _FIELDS.get(kind)
    if fields is None:
        plain = _PLAIN - ({"name"} if kind.__name__ == "TypeAlias" else set())
        fields = tuple(name for name in kind._fields if name not in plain)
        if kind in (ast.Constant, ast.MatchSingleton, ast.Name, ast.Global, ast.Nonlocal):
            fields = ()
        _FIELDS[kind] = fields
    return fields


def last_name(node: ast.AST) -> str:
    """Return the identifier that a name or attribute chain ends in, or an empty string."""
    kind = node.__class__
    if kind is ast.Attribute:
        return node.attr  # type: ignore[attr-defined, no-any-return]
    if kind is ast.Name:
        return node.id  # type: ignore[attr-defined, no-any-return]
    return ""


def children(node: ast.AST) -> list[ast.AST]:
    """Return the nodes right under ``node``, but for contexts and operators."""
    found: list[ast.AST] = []
    for name in _FIELDS.get(node.__class__) or child_fields(node.__class__):
        value = getattr(node, name, None)
        if value.__class__ is list:
            found.extend([item for item in value if item is not None])
        elif value is not None:
            found.append(value)
    return found


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield ``node`` and everything in it, as :func:`ast.walk` does in another order, at half its cost."""
    pending = [node]
    while pending:
        inner = pending.pop()
        yield inner
        for name in _FIELDS.get(inner.__class__) or child_fields(inner.__class__):
            value = getattr(inner, name, None)
            if value.__class__ is list:
                pending.extend([item for item in value if item is not None])
            elif value is not None:
                pending.append(value)
