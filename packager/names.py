"""Names as they are met in a walk over a module's syntax tree: uses, bindings, chains of attributes."""

from __future__ import annotations

import ast

from kernel_lint import TYPE_CHECKING
from kernel_lint.packager.forms import (
    IMPORT_CALLS,
    getattr_name,
    import_call_name,
    is_globals_call,
    is_modules_item,
)
from kernel_lint.packager.model import Binding, Link

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kernel_lint.packager.meaning import RawUse
    from kernel_lint.packager.model import ImportSite, Module, Unit

_CONTEXT = {ast.Load: "load", ast.Store: "store", ast.Del: "del"}
# Fields of nodes that hold no names, or names that no visitor looks for there.
_NAMELESS = frozenset("ctx op ops id attr arg kind conversion type_comment is_async simple kwd_attrs".split())


class _Parts(dict[type[ast.AST], tuple[str, ...]]):
    """For each kind of node the fields that may hold names, found when they are first asked for."""

    def __missing__(self, kind: type[ast.AST]) -> tuple[str, ...]:
        parts = self[kind] = tuple(name for name in kind._fields if name not in _NAMELESS)
        return parts


PARTS = _Parts()


class NameVisitor:
    """Records uses and bindings of names in the scope and the unit in which the walk is.

    ``raw`` holds the arguments of :class:`Use` for each use, but for most of plain local names; ``stores``
    those of ``raw`` through which an attribute is stored.
    """

    _visitors: dict[type, Callable[..., None]]

    def __init_subclass__(cls) -> None:
        found = [name for name in dir(cls) if name.startswith("visit_") and hasattr(ast, name[6:])]
        cls._visitors = {getattr(ast, name[6:]): getattr(cls, name) for name in found}

    def __init__(self, module: Module) -> None:
        self.module = module
        self.scope = module.scope
        self.unit: Unit = None  # type: ignore[assignment]
        self.deferred = False
        self.annotation = False
        self.string: ast.expr | None = None
        self.seq = 0
        self.classes: list[str] = []
        self.raw: list[RawUse] = []
        self.stores: list[RawUse] = []

    # -- driving ---------------------------------------------------------------------

    def visit(self, node: ast.AST) -> None:
        """Visit one node."""
        kind = type(node)
        if kind is ast.Constant and not self.annotation:
            return
        visitor = self._visitors.get(kind)
        if visitor is not None:
            visitor(self, node)
            return
        for name in PARTS[kind]:
            value = getattr(node, name, None)
            if isinstance(value, list):
                for item in value:
                    if isinstance(item, ast.AST):
                        self.visit(item)
            elif isinstance(value, ast.AST):
                self.visit(value)

    def visit_all(self, nodes: Sequence[ast.AST | None]) -> None:
        """Visit nodes in order, skipping None."""
        for node in nodes:
            if node is not None:
                self.visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        self.visit(node.left)
        self.visit(node.right)

    def visit_Expr(self, node: ast.Expr) -> None:
        self.visit(node.value)

    def visit_keyword(self, node: ast.keyword) -> None:
        self.visit(node.value)

    # -- names -----------------------------------------------------------------------

    def mangle(self, name: str) -> str:
        """Apply private name mangling, as inside a class body."""
        if name[:2] == "__" and self.classes and name[-2:] != "__":
            owner = self.classes[-1].lstrip("_")
            return f"_{owner}{name}" if owner else name
        return name

    def use(
        self,
        node: ast.Name | ast.Call | ast.Subscript,
        ctx: str,
        links: tuple[Link, ...] = (),
        call: ast.Call | None = None,
    ) -> None:
        """Record a use of a name and, when it stores, the binding."""
        if isinstance(node, ast.Name):
            name = self.mangle(node.id) if node.id[:2] == "__" else node.id
        elif isinstance(node, ast.Subscript):
            name = "<module>" if is_modules_item(node) else node.slice.value  # type: ignore[attr-defined]
        else:
            name = "<import>"
        self.seq = seq = self.seq + 1
        scope = self.scope
        if name not in scope.plain:
            self.raw.append(
                (
                    name,
                    node,
                    ctx,
                    scope,
                    self.deferred,
                    self.annotation,
                    seq,
                    links,
                    self.unit,
                    self.string,
                    call,
                )
            )
        if ctx != "load":
            self.bind(name, "assign" if ctx == "store" else "del", node)

    def bind(
        self,
        name: str,
        kind: str,
        node: ast.AST,
        site: ImportSite | None = None,
    ) -> None:
        """Record that ``name`` is bound in the current scope."""
        self.seq += 1
        scope = self.scope
        self.module.identifiers.add(name)
        if kind != "del" or scope.kind != "module":
            scope.bound.setdefault(name, self.seq)
        scope.counts[name] = scope.counts.get(name, 0) + 1
        if site is not None:
            scope.imports.setdefault(name, []).append(site)
        elif scope.kind == "function" and name not in scope.globals and name not in scope.nonlocals:
            scope.plain.add(name)
        if scope.kind == "module" or name in scope.globals:
            binding = Binding(name, kind, node, self.unit, self.seq, self.deferred, site)
            self.unit.bindings.append(binding)
            self.module.bindings.setdefault(name, []).append(binding)

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in self.scope.plain and type(node.ctx) is ast.Load and node.id[:2] != "__":
            self.seq += 1  # as if it had been recorded
            return
        self.use(node, _CONTEXT[type(node.ctx)])

    def visit_Attribute(self, node: ast.Attribute, call: ast.Call | None = None) -> None:
        if not isinstance(node.ctx, ast.Load) and getattr(node.value, "id", "") not in ("self", "cls"):
            self.module.stored_attributes.add(node.attr)
        inner: ast.expr = node
        while type(inner) is ast.Attribute:
            inner = inner.value
        if type(inner) is ast.Name and inner.id in self.scope.plain and inner.id[:2] != "__":
            self.seq += 1  # as if it had been recorded
        else:
            self._chain(node, call)

    def _chain(self, node: ast.expr, call: ast.Call | None) -> None:
        """Visit a name with all that follows it: attributes, and ``getattr`` of constant names."""
        links: list[Link] = []
        inner = node
        while True:
            if isinstance(inner, ast.Attribute):
                links.append(Link(inner.attr, inner, _CONTEXT[type(inner.ctx)]))
                inner = inner.value
            elif constant := getattr_name(inner):
                assert isinstance(inner, ast.Call)
                links.append(Link(constant, inner, "load"))
                self.use(inner.func, "load")  # type: ignore[arg-type]
                self.visit_all(inner.args[2:])
                inner = inner.args[0]
            else:
                break
        if isinstance(inner, ast.Name):
            links.reverse()
            known = len(self.raw)
            self.use(inner, "load", tuple(links), call)
            if known == len(self.raw):
                return
        elif import_call_name(inner) or is_modules_item(inner):
            links.reverse()
            self._import_chain(inner, links, call)  # type: ignore[arg-type]
        else:
            self.visit(inner)
            return
        if links[-1].ctx != "load":
            self.stores.append(self.raw[-1])

    def _import_chain(
        self, inner: ast.Call | ast.Subscript, links: list[Link], call: ast.Call | None
    ) -> None:
        self.use(inner, "load", tuple(links), call)
        if isinstance(inner, ast.Subscript):
            self.visit(inner.value)
            self.visit(inner.slice)
            return
        if isinstance(inner.func, ast.Attribute):
            self.visit_Attribute(inner.func, inner)
        else:
            self.use(inner.func, "load", (), inner)  # type: ignore[arg-type]
        self.visit_all(inner.args)

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func
        if isinstance(function, ast.Name):
            if function.id == "getattr" and getattr_name(node):
                self._chain(node, None)
                return
            if function.id in IMPORT_CALLS and import_call_name(node):
                self.use(node, "load")
            self.use(function, "load", (), node)
        elif isinstance(function, ast.Attribute):
            if function.attr in IMPORT_CALLS and import_call_name(node):
                self.use(node, "load")
            self.visit_Attribute(function, node)
        else:
            self.visit(function)
        for argument in node.args:
            self.visit(argument)
        for keyword in node.keywords:
            self.visit(keyword.value)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        scope = self.scope
        while self.scope.kind == "comprehension" and self.scope.parent is not None:
            self.scope = self.scope.parent
        self.use(node.target, "store")
        self.scope = scope

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        outer, self.string = self.string, self.string or node
        self.visit_all(node.values)
        self.string = outer

    def visit_Constant(self, node: ast.Constant) -> None:
        if self.annotation and isinstance(node.value, str) and self.string is None:
            try:
                tree = ast.parse(node.value.strip(), mode="eval")
            except (SyntaxError, ValueError):
                return
            outer, self.string, self.deferred = self.deferred, node, True
            self.visit(tree.body)
            self.string, self.deferred = None, outer

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if is_modules_item(node):
            self.use(node, "load")
        if (
            is_globals_call(node.value)
            and isinstance(node.slice, ast.Constant)
            and isinstance(node.slice.value, str)
        ):
            if self.scope.kind == "module" or isinstance(node.ctx, ast.Load):
                scope, self.scope = self.scope, self.module.scope
                self.use(node, _CONTEXT[type(node.ctx)])
                self.scope = scope
                return
        self.visit(node.value)
        form = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
        if self.annotation and form in ("Literal", "Annotated"):
            # The strings in these are values, not the names of types.
            outer, self.annotation = self.annotation, False
            self.visit(node.slice)
            self.annotation = outer
        else:
            self.visit(node.slice)
