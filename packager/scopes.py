"""Scopes, uses and bindings of one module: the language's name rules over its syntax tree.

The walk follows evaluation order, so that the sequence numbers of uses and bindings can be
compared where order matters (a class body that reads a global before it binds the name).
``tests/packager/test_scopes.py`` checks the outcome against the standard library's ``symtable``.
"""

from __future__ import annotations

import ast
import bisect

from kernel_lint import TYPE_CHECKING
from kernel_lint.packager.model import ImportSite, Module, Scope, Unit
from kernel_lint.packager.names import NameVisitor
from kernel_lint.packager.resolve import relative_name

if TYPE_CHECKING:
    from collections.abc import Sequence

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class ScopeVisitor(NameVisitor):
    """Fills a module's units with the bindings and imports found in them, and records the uses."""

    def __init__(self, module: Module) -> None:
        super().__init__(module)
        # The lines on which "global" or "nonlocal" stands, be it in a string.
        text = module.text
        lines = text.split("\n") if "global" in text or "nonlocal" in text else []
        self._declarations = [n for n, line in enumerate(lines, 1) if "global" in line or "nonlocal" in line]

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
        self._declare_globals(node, body)
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
        self._declare_globals(node, node.body)
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

    def _declare_globals(self, owner: ast.AST, body: Sequence[ast.AST]) -> None:
        """Find ``global`` and ``nonlocal`` first: they rule the whole scope, wherever they stand."""
        at = bisect.bisect_left(self._declarations, owner.lineno)  # type: ignore[attr-defined]
        if at == len(self._declarations) or self._declarations[at] > owner.end_lineno:  # type: ignore[attr-defined]
            return
        stack = list(body)
        while stack:
            node = stack.pop()
            if isinstance(node, ast.Global):
                self.visit_Global(node)
            elif isinstance(node, ast.Nonlocal):
                self.visit_Nonlocal(node)
            elif isinstance(node, ast.stmt) and not isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
                for name in ("body", "orelse", "finalbody", "handlers", "cases"):
                    stack.extend(getattr(node, name, ()))
            elif isinstance(node, (ast.ExceptHandler, ast.match_case)):
                stack.extend(node.body)


def _arguments(args: ast.arguments) -> list[ast.arg]:
    extra = [arg for arg in (args.vararg, args.kwarg) if arg is not None]
    return [*args.posonlyargs, *args.args, *args.kwonlyargs, *extra]
