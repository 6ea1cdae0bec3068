"""Scopes, bindings, parents and nodes by type: one iterative pass over the tree.

The pass records where names are bound and to which expression; it decides nothing about
values (:mod:`kernel_lint.source.values` does).
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from kernel_lint import TYPE_CHECKING
from kernel_lint.source.binding_handlers import HANDLERS, other
from kernel_lint.source.scope_model import (
    Binding,
    BindingKind,
    FunctionNode,
    Scope,
    ScopeKind,
    Step,
    child_fields,
    children,
    last_name,
    walk,
)

if TYPE_CHECKING:
    from typing import Any

    from kernel_lint.source.scope_model import NodeT

__all__ = [
    "Binding",
    "BindingKind",
    "FunctionNode",
    "Scope",
    "ScopeKind",
    "ScopeTable",
    "Step",
    "child_fields",
    "children",
    "last_name",
    "walk",
]


class ScopeTable:
    """All scopes of a module with what the pass found.

    ``nodes`` maps a node type to its nodes in document order, but for names, which the scopes list, and
    constants; ``parent`` and ``scope`` map
    each node to the node around it and to the scope that its names are looked up in;
    ``inner`` maps functions, classes and comprehensions to their own scope. ``attributes`` lists
    the attribute nodes by the attribute's name, ``texts`` the constants that are str or bytes.
    ``attribute_stores`` and ``item_stores`` list what is stored as ``x.NAME = value`` and
    ``NAME[k] = value`` (or ``x.NAME[k] = value``), by NAME. ``stores`` are the bindings of names that
    are found and not yet made.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.nodes: defaultdict[type[ast.AST], list[ast.AST]] = defaultdict(list)
        self.parent: dict[ast.AST, ast.AST | None] = {}
        self.scope: dict[ast.AST, Scope] = {}
        self.inner: dict[ast.AST, Scope] = {}
        self.attribute_stores: defaultdict[str, list[tuple[ast.Attribute, Binding]]] = defaultdict(list)
        self.item_stores: defaultdict[str, list[tuple[ast.Subscript, Binding]]] = defaultdict(list)
        self.attributes: defaultdict[str, list[ast.Attribute]] = defaultdict(list)
        self.texts: list[ast.Constant] = []
        self.star_imports: list[str] = []
        self.nonlocal_names: set[str] = set()
        self.module = Scope(ScopeKind.MODULE, tree, None)
        self.inner[tree] = self.module
        self.stores: list[tuple[Scope, Binding]] = []
        self._nested: defaultdict[FunctionNode | None, list[FunctionNode]] = defaultdict(list)
        self._by_function: dict[type[ast.AST], tuple[int, dict[Any, list[ast.AST]]]] = {}
        self.add(tree, None, self.module)

    def add(self, root: ast.AST, parent: ast.AST | None, scope: Scope) -> None:
        """Walk ``root`` as if it stood under ``parent`` in ``scope``, recording everything."""
        self.parent[root] = parent
        self._walk(root, scope)
        self._bind_all()
        if root is not self.tree:
            for known in self.inner.values():
                known.found.clear()

    def _walk(self, root: ast.AST, scope: Scope) -> None:
        # Nodes to come, the next on top; a scope among them is the one of what lies below it.
        stack: list[Any] = [root, scope]
        nodes, parents, scopes, attributes = self.nodes, self.parent, self.scope, self.attributes
        name, constant, attribute, handler_of = ast.Name, ast.Constant, ast.Attribute, HANDLERS.get
        where = scope
        while stack:
            node = stack.pop()
            kind = node.__class__
            if kind is Scope:
                where = node
                continue
            # A node, then its first child, and so on: only what comes later waits on the stack.
            while True:
                scopes[node] = where
                if kind is name:
                    where.names[node.id].append(node)
                    break
                if kind is constant:
                    if node.value.__class__ is str or node.value.__class__ is bytes:
                        self.texts.append(node)
                    break
                nodes[kind].append(node)
                if kind is attribute:
                    attributes[node.attr].append(node)
                    child = node.value
                else:
                    child = handler_of(kind, other)(self, node, where, stack)
                    if child is None:
                        break
                parents[child] = node
                node, kind = child, child.__class__

    def _bind_all(self) -> None:
        """Bind what was found; only now is every global and nonlocal statement of its scope known."""
        for owner, binding in self.stores:
            if owner.global_names or owner.nonlocal_names:
                owner.bind(binding)
                continue
            known = owner.bindings.get(binding.name)
            if known is None:
                owner.bindings[binding.name] = [binding]
            else:
                known.append(binding)
        self.stores.clear()
        self._nested.clear()

    def of_type(self, kind: type[NodeT]) -> list[NodeT]:
        """Return the nodes of one type in document order."""
        found: Any = self.nodes.get(kind, [])
        nodes: list[NodeT] = found
        return nodes

    def by_function(self, kind: type[NodeT]) -> dict[FunctionNode | None, list[NodeT]]:
        """Return the nodes of one type by the innermost function whose code they are."""
        nodes = self.of_type(kind)
        # Text that is evaluated may have brought more of them since.
        known = self._by_function.get(kind)
        if known is None or known[0] != len(nodes):
            found: defaultdict[FunctionNode | None, list[ast.AST]] = defaultdict(list)
            scopes = self.scope
            for node in nodes:
                found[scopes[node].function].append(node)
            known = self._by_function[kind] = (len(nodes), dict(found))
        kept: Any = known[1]
        groups: dict[FunctionNode | None, list[NodeT]] = kept
        return groups

    def within(self, function: FunctionNode, kind: type[NodeT]) -> list[NodeT]:
        """Return the nodes of one type in the body of a function and of all that is defined in it."""
        if not self._nested:
            for scope in self.inner.values():
                if scope.function is scope.node and scope.parent is not None:
                    self._nested[scope.parent.function].append(scope.function)
        code, pending = self.by_function(kind), [function]
        found: list[NodeT] = []
        while pending:
            inner = pending.pop()
            found.extend(code.get(inner, ()))
            pending.extend(self._nested.get(inner, ()))
        return found

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
            if path == ("walrus",):
                path = ()
                while scope.kind is ScopeKind.COMPREHENSION and scope.parent is not None:
                    scope = scope.parent
            self.stores.append((scope, Binding(target.id, kind, target, value, path)))
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
