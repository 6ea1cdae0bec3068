"""Scopes, bindings, parents and nodes by type: one iterative pass over the tree.

The pass records where names are bound and to which expression; it decides nothing about
values (:mod:`kernel_lint.source.values` does).
"""

from __future__ import annotations

import ast
import enum
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar, cast

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Step: TypeAlias = int | str
NodeT = TypeVar("NodeT", bound=ast.AST)


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


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """One place that gives a name a value.

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


@dataclass(slots=True, eq=False)
class Scope:
    """A block with names of its own."""

    kind: ScopeKind
    node: ast.AST
    parent: Scope | None
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    global_names: set[str] = field(default_factory=set)
    nonlocal_names: set[str] = field(default_factory=set)

    @property
    def module(self) -> Scope:
        """The outermost scope."""
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    @property
    def function(self) -> FunctionNode | None:
        """The innermost function or lambda around this scope's code, or None."""
        scope: Scope | None = self
        while scope is not None:
            if scope.kind is ScopeKind.FUNCTION:
                assert isinstance(scope.node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
                return scope.node
            scope = scope.parent
        return None

    def bind(self, binding: Binding) -> None:
        """Record a binding in the scope that the name belongs to."""
        self._owner(binding.name).bindings.setdefault(binding.name, []).append(binding)

    def _owner(self, name: str) -> Scope:
        if name in self.global_names:
            return self.module
        if name in self.nonlocal_names and self.parent is not None:
            found = self.parent.lookup(name)
            return found[0] if found else self.parent
        return self

    def lookup(self, name: str) -> tuple[Scope, list[Binding]] | None:
        """Find the scope and the bindings that a read of ``name`` here refers to.

        Class scopes are visible only from their own statements, as in Python.
        """
        scope: Scope | None = self
        if name in self.global_names:
            scope = self.module
        first = True
        while scope is not None:
            if first or scope.kind is not ScopeKind.CLASS:
                found = scope.bindings.get(name)
                if found is not None and not (name in scope.nonlocal_names or name in scope.global_names):
                    return scope, found
            # A comprehension in a class body sees the class's names in its first iterable.
            first = first and scope.kind is ScopeKind.COMPREHENSION
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
        if kind in (ast.Constant, ast.Name, ast.Global, ast.Nonlocal):
            fields = ()
        _FIELDS[kind] = fields
    return fields


Pending: TypeAlias = tuple[ast.AST, "ast.AST | None", Scope]


class ScopeTable:
    """All scopes of a module with what the pass found.

    ``nodes`` maps a node type to its nodes in document order; ``parent`` and ``scope`` map
    each node to the node around it and to the scope that its names are looked up in;
    ``inner`` maps functions, classes and comprehensions to their own scope.
    ``attribute_stores`` and ``item_stores`` list what is stored as ``x.NAME = value`` and
    ``NAME[k] = value`` (or ``x.NAME[k] = value``), by NAME.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.nodes: defaultdict[type[ast.AST], list[ast.AST]] = defaultdict(list)
        self.parent: dict[ast.AST, ast.AST | None] = {}
        self.scope: dict[ast.AST, Scope] = {}
        self.inner: dict[ast.AST, Scope] = {}
        self.attribute_stores: defaultdict[str, list[tuple[ast.Attribute, Binding]]] = defaultdict(list)
        self.item_stores: defaultdict[str, list[tuple[ast.Subscript, Binding]]] = defaultdict(list)
        self.star_imports: list[str] = []
        self.nonlocal_names: set[str] = set()
        self.module = Scope(ScopeKind.MODULE, tree, None)
        self.inner[tree] = self.module
        self._stores: list[tuple[Scope, Binding]] = []
        self.add(tree, None, self.module)

    def add(self, root: ast.AST, parent: ast.AST | None, scope: Scope) -> None:
        """Walk ``root`` as if it stood under ``parent`` in ``scope``, recording everything."""
        stack: list[Pending] = [(root, parent, scope)]
        nodes, parents, scopes = self.nodes, self.parent, self.scope
        while stack:
            node, above, where = stack.pop()
            kind = type(node)
            parents[node] = above
            scopes[node] = where
            nodes[kind].append(node)
            handler = _HANDLERS.get(kind)
            if handler is not None:
                handler(self, node, where, stack)
            elif fields := child_fields(kind):
                _push(stack, node, fields, where)
        # Bindings wait until every global and nonlocal statement of their scope is known.
        for owner, binding in self._stores:
            owner.bind(binding)
        self._stores.clear()

    def of_type(self, kind: type[NodeT]) -> list[NodeT]:
        """Return the nodes of one type in document order."""
        return cast("list[NodeT]", self.nodes.get(kind, []))

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes around ``node``, innermost first."""
        above = self.parent.get(node)
        while above is not None:
            yield above
            above = self.parent.get(above)

    def statement(self, node: ast.AST) -> ast.stmt | None:
        """Return the statement that ``node`` is or belongs to, or None for the module."""
        here: ast.AST | None = node
        while here is not None and not isinstance(here, ast.stmt):
            here = self.parent.get(here)
        return here

    def store(self, scope: Scope, binding: Binding) -> None:
        """Record a binding made somewhere in ``scope``."""
        self._stores.append((scope, binding))

    def bind_target(
        self,
        target: ast.AST,
        value: ast.expr | None,
        kind: BindingKind,
        scope: Scope,
        path: tuple[Step, ...] = (),
    ) -> None:
        """Record every name, attribute and item that an assignment target binds."""
        if isinstance(target, ast.Name):
            owner = scope
            while (
                kind is BindingKind.ASSIGN and path == ("walrus",) and owner.kind is ScopeKind.COMPREHENSION
            ):
                assert owner.parent is not None
                owner = owner.parent
            self.store(owner, Binding(target.id, kind, target, value, () if path == ("walrus",) else path))
        elif isinstance(target, (ast.Tuple, ast.List)):
            starred = False
            for index, element in enumerate(target.elts):
                starred = starred or isinstance(element, ast.Starred)
                inner = element.value if isinstance(element, ast.Starred) else element
                # After a starred target the index is unknown: any element may be meant.
                step: Step = "*" if starred else index
                self.bind_target(inner, value, kind, scope, (*path, step))
        elif isinstance(target, ast.Attribute):
            self.attribute_stores[target.attr].append(
                (target, Binding(target.attr, kind, target, value, path))
            )
        elif isinstance(target, ast.Subscript):
            name = last_name(target.value)
            if name:
                self.item_stores[name].append((target, Binding(name, kind, target, value, path)))


def last_name(node: ast.AST) -> str:
    """Return the identifier that a name or attribute chain ends in, or an empty string."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    return ""


def _push(stack: list[Pending], node: ast.AST, fields: tuple[str, ...], scope: Scope) -> None:
    children: list[Pending] = []
    for name in fields:
        value = getattr(node, name, None)
        if value.__class__ is list:
            for item in value:
                if item is not None:
                    children.append((item, node, scope))
        elif value is not None:
            children.append((value, node, scope))
    children.reverse()
    stack.extend(children)


def children(node: ast.AST) -> list[ast.AST]:
    """Return the nodes right under ``node``, but for contexts and operators."""
    found: list[ast.AST] = []
    for name in child_fields(node.__class__):
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
        for name in child_fields(inner.__class__):
            value = getattr(inner, name, None)
            if value.__class__ is list:
                pending.extend([item for item in value if item is not None])
            elif value is not None:
                pending.append(value)


def _function(table: ScopeTable, node: ast.AST, scope: Scope, stack: list[Pending]) -> None:
    assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
    inner = Scope(ScopeKind.FUNCTION, node, scope)
    table.inner[node] = inner
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
    defaults.extend(arguments.defaults)
    for argument, default in zip(positional, defaults, strict=True):
        table.store(inner, Binding(argument.arg, BindingKind.PARAMETER, argument, default))
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        table.store(inner, Binding(argument.arg, BindingKind.PARAMETER, argument, default))
    for variadic in (arguments.vararg, arguments.kwarg):
        if variadic is not None:
            table.store(inner, Binding(variadic.arg, BindingKind.PARAMETER, variadic, None, ("*",)))
    body = [node.body] if isinstance(node, ast.Lambda) else node.body
    stack.extend((item, node, inner) for item in reversed(body))
    if not isinstance(node, ast.Lambda):
        table.store(scope, Binding(node.name, BindingKind.FUNCTION, node))
        _push(stack, node, ("type_params", "decorator_list", "args", "returns"), scope)
    else:
        _push(stack, node, ("args",), scope)


def _class(table: ScopeTable, node: ast.AST, scope: Scope, stack: list[Pending]) -> None:
    assert isinstance(node, ast.ClassDef)
    inner = Scope(ScopeKind.CLASS, node, scope)
    table.inner[node] = inner
    table.store(scope, Binding(node.name, BindingKind.CLASS, node))
    stack.extend((item, node, inner) for item in reversed(node.body))
    _push(stack, node, ("type_params", "decorator_list", "bases", "keywords"), scope)


def _comprehension(table: ScopeTable, node: ast.AST, scope: Scope, stack: list[Pending]) -> None:
    inner = Scope(ScopeKind.COMPREHENSION, node, scope)
    table.inner[node] = inner
    generators: list[ast.comprehension] = node.generators  # type: ignore[attr-defined]
    for generator in generators:
        table.bind_target(generator.target, generator.iter, BindingKind.LOOP, inner, ("*",))
    _push(stack, node, ("generators", "elt", "key", "value"), inner)


def _import(table: ScopeTable, node: ast.AST, scope: Scope, stack: list[Pending]) -> None:
    assert isinstance(node, ast.Import)
    for alias in node.names:
        table.parent[alias], table.scope[alias] = node, scope
        # ``import a.b`` binds a; ``import a.b as c`` binds a.b.
        name = alias.asname or alias.name.partition(".")[0]
        target = alias.name if alias.asname else name
        table.store(scope, Binding(name, BindingKind.IMPORT, alias, target=target))


def _import_from(table: ScopeTable, node: ast.AST, scope: Scope, stack: list[Pending]) -> None:
    assert isinstance(node, ast.ImportFrom)
    base = "." * node.level + (node.module or "")
    for alias in node.names:
        table.parent[alias], table.scope[alias] = node, scope
        if alias.name == "*":
            table.star_imports.append(base)
            continue
        target = f"{base}{'' if base.endswith('.') else '.'}{alias.name}"
        table.store(scope, Binding(alias.asname or alias.name, BindingKind.IMPORT, alias, target=target))


def _assign(table: ScopeTable, node: ast.AST, scope: Scope, stack: list[Pending]) -> None:
    assert isinstance(node, ast.Assign)
    for target in node.targets:
        table.bind_target(target, node.value, BindingKind.ASSIGN, scope)
    _push(stack, node, ("targets", "value"), scope)


def _annotated(table: ScopeTable, node: ast.AST, scope: Scope, stack: list[Pending]) -> None:
    assert isinstance(node, ast.AnnAssign)
    if node.value is not None:
        table.bind_target(node.target, node.value, BindingKind.ASSIGN, scope)
    _push(stack, node, ("target", "annotation", "value"), scope)


def _augmented(table: ScopeTable, node: ast.AST, scope: Scope, stack: list[Pending]) -> None:
    assert isinstance(node, ast.AugAssign)
    table.bind_target(node.target, node.value, BindingKind.AUGMENTED, scope)
    _push(stack, node, ("target", "value"), scope)


def _walrus(table: ScopeTable, node: ast.AST, scope: Scope, stack: list[Pending]) -> None:
    assert isinstance(node, ast.NamedExpr)
    table.bind_target(node.target, node.value, BindingKind.ASSIGN, scope, ("walrus",))
    _push(stack, node, ("target", "value"), scope)


def _for(table: ScopeTable, node: ast.AST, scope: Scope, stack: list[Pending]) -> None:
    assert isinstance(node, (ast.For, ast.AsyncFor))
    table.bind_target(node.target, node.iter, BindingKind.LOOP, scope, ("*",))
    _push(stack, node, ("target", "iter", "body", "orelse"), scope)


def _with(table: ScopeTable, node: ast.AST, scope: Scope, stack: list[Pending]) -> None:
    assert isinstance(node, (ast.With, ast.AsyncWith))
    for item in node.items:
        if item.optional_vars is not None:
            table.bind_target(item.optional_vars, item.context_expr, BindingKind.WITH, scope, ("enter",))
    _push(stack, node, ("items", "body"), scope)


def _except(table: ScopeTable, node: ast.AST, scope: Scope, stack: list[Pending]) -> None:
    assert isinstance(node, ast.ExceptHandler)
    if node.name:
        table.store(scope, Binding(node.name, BindingKind.EXCEPT, node))
    _push(stack, node, ("type", "body"), scope)


def _match_name(table: ScopeTable, node: ast.AST, scope: Scope, stack: list[Pending]) -> None:
    assert isinstance(node, (ast.MatchAs, ast.MatchStar))
    if node.name:
        table.store(scope, Binding(node.name, BindingKind.PATTERN, node))
    _push(stack, node, ("pattern",), scope)


def _match_mapping(table: ScopeTable, node: ast.AST, scope: Scope, stack: list[Pending]) -> None:
    assert isinstance(node, ast.MatchMapping)
    if node.rest:
        table.store(scope, Binding(node.rest, BindingKind.PATTERN, node))
    _push(stack, node, ("keys", "patterns"), scope)


def _global(table: ScopeTable, node: ast.AST, scope: Scope, stack: list[Pending]) -> None:
    assert isinstance(node, ast.Global)
    scope.global_names.update(node.names)


def _nonlocal(table: ScopeTable, node: ast.AST, scope: Scope, stack: list[Pending]) -> None:
    assert isinstance(node, ast.Nonlocal)
    scope.nonlocal_names.update(node.names)
    table.nonlocal_names.update(node.names)


_HANDLERS: dict[type[ast.AST], Callable[[ScopeTable, ast.AST, Scope, list[Pending]], None]] = {
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.Lambda: _function,
    ast.ClassDef: _class,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.DictComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.NamedExpr: _walrus,
    ast.For: _for,
    ast.AsyncFor: _for,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.ExceptHandler: _except,
    ast.MatchAs: _match_name,
    ast.MatchStar: _match_name,
    ast.MatchMapping: _match_mapping,
    ast.Global: _global,
    ast.Nonlocal: _nonlocal,
}
