"""Names as they are met in a walk over a module's syntax tree: uses, bindings, chains of attributes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from kernel_lint.packager.forms import getattr_name, import_call_name, is_globals_call, is_modules_item
from kernel_lint.packager.model import Binding, ImportSite, Link, Module, Scope, Unit, Use

_CONTEXT = {ast.Load: "load", ast.Store: "store", ast.Del: "del"}


class NameVisitor:
    """Records uses and bindings of names in the scope and the unit in which the walk is."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.scope = module.scope
        self.unit: Unit = None  # type: ignore[assignment]
        self.deferred = False
        self.annotation = False
        self.string: ast.expr | None = None
        self.seq = 0
        self.classes: list[str] = []
        self._visitors: dict[type, Callable[..., None] | None] = {}

    # -- driving ---------------------------------------------------------------------

    def visit(self, node: ast.AST) -> None:
        """Visit one node."""
        kind = type(node)
        try:
            visitor = self._visitors[kind]
        except KeyError:
            visitor = self._visitors[kind] = getattr(self, "visit_" + kind.__name__, None)
        if visitor is not None:
            visitor(node)
            return
        for name in node._fields:
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
        self.seq += 1
        name = self.mangle(node.id) if isinstance(node, ast.Name) else "<import>"
        if isinstance(node, ast.Subscript):
            name = "<module>" if is_modules_item(node) else node.slice.value  # type: ignore[attr-defined]
        record = Use(
            name,
            node,
            ctx,
            self.scope,
            self.deferred,
            self.annotation,
            self.seq,
            links,
            self.unit,
            self.string,
            call,
        )
        self.module.uses.append(record)
        if ctx != "load":
            self.bind(name, "assign" if ctx == "store" else "del", node, record_scope=self.scope)

    def bind(
        self,
        name: str,
        kind: str,
        node: ast.AST,
        site: ImportSite | None = None,
        record_scope: Scope | None = None,
    ) -> None:
        """Record that ``name`` is bound in the current scope (or in ``record_scope``)."""
        self.seq += 1
        scope = record_scope or self.scope
        self.module.identifiers.add(name)
        if kind != "del" or scope.kind != "module":
            scope.bound.setdefault(name, self.seq)
        scope.counts[name] = scope.counts.get(name, 0) + 1
        if site is not None:
            scope.imports.setdefault(name, []).append(site)
        if scope.kind == "module" or name in scope.globals:
            binding = Binding(name, kind, node, self.unit, self.seq, self.deferred, site)
            self.unit.bindings.append(binding)
            self.module.bindings.setdefault(name, []).append(binding)

    def visit_Name(self, node: ast.Name) -> None:
        self.use(node, _CONTEXT[type(node.ctx)])

    def visit_Attribute(self, node: ast.Attribute, call: ast.Call | None = None) -> None:
        links: list[Link] = []
        inner: ast.expr = node
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            if getattr(node.value, "id", "") not in ("self", "cls"):
                self.module.stored_attributes.add(node.attr)
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
        if isinstance(inner, ast.Name) or import_call_name(inner) or is_modules_item(inner):
            self.use(inner, "load", tuple(reversed(links)), call)  # type: ignore[arg-type]
            if isinstance(inner, ast.Call):
                if isinstance(inner.func, ast.Attribute):
                    self.visit_Attribute(inner.func, inner)
                else:
                    self.use(inner.func, "load", (), inner)  # type: ignore[arg-type]
                self.visit_all(inner.args)
            elif isinstance(inner, ast.Subscript):
                self.visit(inner.value)
                self.visit(inner.slice)
            if links[0].ctx != "load":
                self.module.stores.append(self.module.uses[-1])
        else:
            self.visit(inner)

    def visit_Call(self, node: ast.Call) -> None:
        if getattr_name(node):
            self.visit_Attribute(node)  # type: ignore[arg-type]
            return
        if import_call_name(node):
            self.use(node, "load")
        if isinstance(node.func, ast.Name):
            self.use(node.func, "load", (), node)
        elif isinstance(node.func, ast.Attribute):
            self.visit_Attribute(node.func, node)
        else:
            self.visit(node.func)
        self.visit_all(node.args)
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
