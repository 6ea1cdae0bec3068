"""Scopes, uses and bindings of one module: the language's name rules over its syntax tree.

The walk follows evaluation order, so that the sequence numbers of uses and bindings can be
compared where order matters (a class body that reads a global before it binds the name).
``tests/packager/test_scopes.py`` checks the outcome against the standard library's ``symtable``.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from kernel_lint.packager.forms import getattr_name, import_call_name, is_globals_call, is_modules_item
from kernel_lint.packager.model import Binding, ImportSite, Link, Module, Scope, Unit, Use
from kernel_lint.packager.resolve import relative_name

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_CONTEXT = {ast.Load: "load", ast.Store: "store", ast.Del: "del"}


class ScopeVisitor:
    """Fills a module's units with the uses, bindings and imports found in them."""

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

    def visit_unit(self, unit: Unit) -> None:
        """Record everything in one unit; of a compound one only the header, then its blocks."""
        self.unit = unit
        node = unit.node
        if not unit.blocks:
            self.visit(node)
            return
        if isinstance(node, ast.If):
            self.visit(node.test)
        for block, children in unit.blocks.items():
            if block.startswith("handler "):
                self.unit = unit
                self._handler_header(node.handlers[int(block[8:])])  # type: ignore[attr-defined]
            for child in children:
                self.visit_unit(child)
        self.unit = unit

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
                self.visit(inner.func)
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

    # -- statements that bind --------------------------------------------------------

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        self.visit_all(node.targets)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            # Read and stored under one name; the one record is a store, which also keeps what is read.
            self.visit(node.value)
            self.use(node.target, "store")
        else:
            self.visit(node.target)
            self.visit(node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)
        if self.scope.kind == "function":
            # Annotations of local variables are never evaluated; their names still have to exist for readers.
            outer, self.deferred = self.deferred, True
            self.visit_annotation(node.annotation)
            self.deferred = outer
        else:
            self.visit_annotation(node.annotation)
        if node.value is None and isinstance(node.target, ast.Name):
            # A bare annotation makes the name local to the scope and binds nothing.
            if self.scope.kind != "module":
                self.scope.bound.setdefault(self.mangle(node.target.id), self.seq)
            return
        self.visit(node.target)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        self.visit(node.target)
        self.visit_all(node.body)
        self.visit_all(node.orelse)

    visit_AsyncFor = visit_For  # noqa: N815 - the name is the syntax tree's

    def visit_Global(self, node: ast.Global) -> None:
        self.scope.globals.update(map(self.mangle, node.names))
        self.module.identifiers.update(node.names)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        self.scope.nonlocals.update(map(self.mangle, node.names))

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        self._handler_header(node)
        self.visit_all(node.body)

    def _handler_header(self, node: ast.ExceptHandler) -> None:
        if node.type is not None:
            self.visit(node.type)
        if node.name:
            self.bind(self.mangle(node.name), "except", node)

    def visit_MatchValue(self, node: ast.MatchValue) -> None:
        self._pattern_value(node.value)

    def _pattern_value(self, node: ast.expr) -> None:
        """Visit a value in a pattern; its last dot has to stay, as a bare name would capture instead."""
        if isinstance(node, ast.Attribute):
            self.visit(node.value)
        else:
            self.visit(node)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        if node.pattern is not None:
            self.visit(node.pattern)
        if node.name:
            self.bind(self.mangle(node.name), "match", node)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        if node.name:
            self.bind(self.mangle(node.name), "match", node)

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        for key in node.keys:
            self._pattern_value(key)
        self.visit_all(node.patterns)
        if node.rest:
            self.bind(self.mangle(node.rest), "match", node)

    # -- imports ---------------------------------------------------------------------

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._import(node, alias, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.module == "__future__" and not node.level:
            return
        module = relative_name(self.module.package, node.level, node.module)
        for alias in node.names:
            self._import(node, alias, module)

    def _import(self, node: ast.Import | ast.ImportFrom, alias: ast.alias, module: str | None) -> None:
        site = ImportSite(node, alias, self.scope, self.unit, self.deferred, module, self.seq)
        self.module.sites.append(site)
        self.unit.imports.append(site)
        if not site.star:
            self.bind(self.mangle(site.local_name), "import", node, site)

    # -- scopes ----------------------------------------------------------------------

    def visit_annotation(self, node: ast.expr | None) -> None:
        """Visit an annotation; under the annotations future it is never evaluated at import."""
        if node is None:
            return
        outer = self.annotation, self.deferred
        self.annotation = True
        if self.module.future_annotations:
            self.deferred = True
        self.visit(node)
        self.annotation, self.deferred = outer

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.visit_all(node.decorator_list)
        self.visit_all([*node.args.defaults, *node.args.kw_defaults])
        outer_scope = self.scope
        self._type_params(node)
        for arg in _arguments(node.args):
            self.visit_annotation(arg.annotation)
        self.visit_annotation(node.returns)
        function_scope = self.scope
        self.scope = outer_scope
        self.bind(self.mangle(node.name), "def", node)
        self.scope = function_scope
        self._body(node, node.args, node.body)
        self.scope = outer_scope

    visit_FunctionDef = _function  # noqa: N815
    visit_AsyncFunctionDef = _function  # noqa: N815

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.visit_all([*node.args.defaults, *node.args.kw_defaults])
        self._body(node, node.args, [node.body])

    def _body(self, node: ast.AST, args: ast.arguments, body: Sequence[ast.AST]) -> None:
        outer = self.scope, self.deferred
        self.scope = Scope("function", self.scope, owner=node)
        self.deferred = True
        _declare_globals(self, body)
        for arg in _arguments(args):
            self.bind(self.mangle(arg.arg), "param", arg)
        self.visit_all(body)
        self.scope, self.deferred = outer

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.visit_all(node.decorator_list)
        outer = self.scope
        self._type_params(node)
        self.visit_all(node.bases)
        for keyword in node.keywords:
            self.visit(keyword.value)
        self.scope = Scope("class", self.scope, owner=node)
        self.classes.append(node.name)
        _declare_globals(self, node.body)
        self.visit_all(node.body)
        self.classes.pop()
        self.scope = outer
        self.bind(self.mangle(node.name), "class", node)

    def visit_TypeAlias(self, node: ast.AST) -> None:
        self.visit(node.name)  # type: ignore[attr-defined]
        outer = self.scope, self.deferred
        self._type_params(node)
        self.scope, self.deferred = Scope("function", self.scope, owner=node), True
        self.visit(node.value)  # type: ignore[attr-defined]
        self.scope, self.deferred = outer

    def _type_params(self, node: ast.AST) -> None:
        params = getattr(node, "type_params", None)
        if params:
            self.scope = Scope("function", self.scope, owner=node)
            for param in params:
                self.bind(param.name, "param", param)
                if getattr(param, "bound", None) is not None:
                    self.visit(param.bound)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> None:
        self.visit(node.generators[0].iter)
        outer = self.scope, self.deferred
        self.scope = Scope("comprehension", self.scope, owner=node)
        for index, generator in enumerate(node.generators):
            if index:
                self.visit(generator.iter)
            self.visit(generator.target)
            self.visit_all(generator.ifs)
        if isinstance(node, ast.DictComp):
            self.visit_all([node.key, node.value])
        else:
            self.visit(node.elt)
        self.scope, self.deferred = outer

    visit_ListComp = _comprehension  # noqa: N815
    visit_SetComp = _comprehension  # noqa: N815
    visit_DictComp = _comprehension  # noqa: N815
    visit_GeneratorExp = _comprehension  # noqa: N815


def _arguments(args: ast.arguments) -> list[ast.arg]:
    extra = [arg for arg in (args.vararg, args.kwarg) if arg is not None]
    return [*args.posonlyargs, *args.args, *args.kwonlyargs, *extra]


def _declare_globals(visitor: ScopeVisitor, body: Sequence[ast.AST]) -> None:
    """Find ``global`` and ``nonlocal`` first: they rule the whole scope, wherever they stand."""
    stack = list(body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Global):
            visitor.visit_Global(node)
        elif isinstance(node, ast.Nonlocal):
            visitor.visit_Nonlocal(node)
        elif isinstance(node, ast.stmt) and not isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            for name in ("body", "orelse", "finalbody", "handlers", "cases"):
                stack.extend(getattr(node, name, ()))
        elif isinstance(node, ast.ExceptHandler | ast.match_case):
            stack.extend(node.body)
