"""What one piece of code may change while it runs, beside the names that it binds.

A may-analysis: what it cannot see through counts as an effect. Output, calls into code that
is not known, and changes of variables are told apart, because the packager treats them
differently (see :mod:`kernel_lint.packager.shake`).
"""

from __future__ import annotations

import ast

from kernel_lint import TYPE_CHECKING
from kernel_lint.packager.calls import has_call, is_code, link_count
from kernel_lint.packager.known import (
    MUTATING_METHODS,
    OUTPUT_BUILTINS,
    PURE_BUILTINS,
    PURE_METHODS,
    external_kind,
)
from kernel_lint.packager.model import Ext, Mod, Module, Sym, Target
from kernel_lint.packager.names import PARTS
from kernel_lint.packager.paths import path_edit
from kernel_lint.records import dataclass, field

if TYPE_CHECKING:
    from kernel_lint.packager.effects import EffectFinder


@dataclass(slots=True)
class Effects:
    """What may happen.

    ``mutates``: variables changed, ``direct`` those of them that the code names itself; ``output``:
    prints or logs; ``external``: calls installed code that may do anything; ``opaque``: runs local
    code, or methods, that the analysis does not see through.
    """

    mutates: set[Target] = field(default_factory=set)
    direct: set[Target] = field(default_factory=set)
    output: bool = False
    external: bool = False
    opaque: bool = False
    params: bool = False
    path_edit: bool = False

    def add(self, other: Effects) -> None:
        """Take in the effects of another piece of code."""
        self.mutates |= other.mutates
        self.direct |= other.direct
        self.output |= other.output
        self.external |= other.external
        self.opaque |= other.opaque
        self.params |= other.params
        self.path_edit |= other.path_edit

    @property
    def any(self) -> bool:
        """Whether anything at all may happen."""
        return bool(self.mutates or self.output or self.external or self.opaque)


class Walker:
    """Collects the effects of one piece of code in its evaluation."""

    def __init__(
        self, finder: EffectFinder, module: Module, params: frozenset[str], in_function: bool = False
    ) -> None:
        self.finder = finder
        self.module = module
        self.params = params
        self.in_function = in_function
        self.effects = Effects()
        self.variables_read: set[Target] = set()
        self.mutates_local = False

    def stmt(self, node: ast.AST) -> None:
        """Take in a statement that runs."""
        if self.in_function:
            names = self.finder.global_bindings(self.module).get(id(node), ())
            self.effects.mutates.update(Sym(self.module.name, name) for name in names)
            self.effects.direct.update(Sym(self.module.name, name) for name in names)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for decorator in node.decorator_list:
                self.decorate(decorator)
            for default in [*node.args.defaults, *node.args.kw_defaults]:
                if default is not None:
                    self.expr(default)
            if self.in_function:
                for item in node.body:
                    self.stmt(item)
        elif isinstance(node, ast.ClassDef):
            self.class_def(node)
        elif isinstance(node, (ast.Assert, ast.Raise)):
            self.effects.opaque = True
        elif isinstance(node, (ast.Global, ast.Nonlocal, ast.Pass)):
            pass
        else:
            self.children(node)

    def class_def(self, node: ast.ClassDef) -> None:
        """Take in a class definition: its decorators, bases, hooks of bases and body."""
        for decorator in node.decorator_list:
            self.decorate(decorator)
        for base in [*node.bases, *(keyword.value for keyword in node.keywords)]:
            self.expr(base)
            self.effects.add(self.finder.subclassing(self.module, base))
        inner, self.in_function = self.in_function, False
        for item in node.body:
            self.stmt(item)
        self.in_function = inner

    def children(self, node: ast.AST) -> None:
        """Take in the parts of a node."""
        for name in PARTS[type(node)]:
            value = getattr(node, name, None)
            for item in value if isinstance(value, list) else (value,):
                if isinstance(item, ast.expr):
                    self.expr(item)
                elif isinstance(item, ast.AST):
                    self.stmt(item)

    def expr(self, node: ast.AST) -> None:
        """Take in an expression that is evaluated."""
        if isinstance(node, ast.Call):
            self.call(node)
        elif isinstance(node, ast.Lambda):
            if self.in_function:
                self.expr(node.body)
        elif isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
            self.mutate(node)
            self.children(node)
        elif isinstance(node, ast.Name):
            self.name(node)
        elif isinstance(node, ast.Await):
            self.effects.opaque = True
            self.children(node)
        elif not isinstance(node, ast.Constant):
            self.children(node)

    def name(self, node: ast.Name) -> None:
        """Take in a plain name, read or stored."""
        use = self.finder.use_of(self.module, node)
        if use is None or not use.is_global:
            return
        target, _ = self.finder.program.resolve_use(use)
        if use.ctx != "load" and self.in_function and use.is_global:
            self.effects.mutates.add(Sym(self.module.name, use.name))
            self.effects.direct.add(Sym(self.module.name, use.name))
        elif isinstance(target, Sym):
            self.variables_read.add(target)

    def root(self, node: ast.expr) -> tuple[Target | None, str | None, int]:
        """Return what the innermost name of ``a.b[c].d`` means, or its local name, and the links consumed."""
        inner: ast.AST = node
        called = False
        while isinstance(inner, (ast.Attribute, ast.Subscript, ast.Call)):
            called = called or isinstance(inner, ast.Call)
            inner = inner.func if isinstance(inner, ast.Call) else inner.value
        if not isinstance(inner, ast.Name):
            return None, None, 0
        use = self.finder.use_of(self.module, inner)
        if use is None:
            return None, inner.id, 0
        target, depth = self.finder.program.resolve_use(use)
        if called and isinstance(target, Ext):
            return None, None, 0  # what a library call returns is not the library's own state
        return target, inner.id if target is None else None, depth

    def mutate(self, node: ast.expr) -> None:
        """Take in a change of the object that ``node`` is part of."""
        if isinstance(node, ast.Attribute):
            self.effects.mutates |= self.finder.stored(node.attr)
        target, local, depth = self.root(node)
        if isinstance(target, Mod):
            self.effects.opaque = True
        elif isinstance(target, Sym) and depth and depth == link_count(node) and not has_call(node):
            self.effects.direct.add(target)
            self.effects.mutates.add(target)  # module.name = ...: the variable, not the object in it
        elif target is not None:
            self.effects.direct.add(target)
            self.effects.mutates |= self.finder.aliases(target)
        elif local in self.params:
            self.effects.params = True
        elif local is not None:
            self.mutates_local = True

    def decorate(self, node: ast.expr) -> None:
        """Take in the application of a decorator."""
        if isinstance(node, ast.Call):
            self.call(node)
        else:
            self.callee(node, [])

    def call(self, node: ast.Call) -> None:
        """Take in a call: its arguments, then what is called."""
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        for argument in arguments:
            self.expr(argument)
            target = self.finder.value_target(self.module, argument)
            if isinstance(target, Sym) and is_code(self.finder.program, target):
                self.effects.add(self.finder.called(target))
        if path_edit(node):
            self.effects.path_edit = True
            return
        self.callee(node.func, arguments)

    def callee(self, function: ast.expr, arguments: list[ast.expr]) -> None:
        """Take in what calling ``function`` with ``arguments`` may do."""
        if isinstance(function, ast.Lambda):
            self.expr(function.body)
            return
        if not isinstance(function, (ast.Name, ast.Attribute)):
            self.effects.opaque |= isinstance(function, ast.Subscript)
            self.expr(function)
            return
        target, local, depth = self.root(function)
        links = link_count(function)
        if isinstance(target, Sym) and depth == links:
            effects = self.finder.called(target)
            self.effects.add(effects)
            if effects.params:
                self.effects.params = False
                for argument in arguments:
                    self.mutate(argument)
        elif isinstance(target, Ext) and not has_call(function):
            self._external(target, function, depth, arguments)
        elif isinstance(function, ast.Attribute):
            self._method(function, target, len(arguments))
        elif local is not None:
            self._plain(local, arguments)

    def _external(self, target: Ext, function: ast.expr, depth: int, arguments: list[ast.expr]) -> None:
        names: list[str] = []
        inner = function
        while isinstance(inner, ast.Attribute):
            names.insert(0, inner.attr)
            inner = inner.value
        dotted = ".".join([target.module, *([target.attr] if target.attr else []), *names[depth:]])
        kind = external_kind(dotted)
        if kind == "output":
            self.effects.output = True
        elif kind == "changes":
            self.effects.mutates.add(target)
        elif kind == "unknown":
            self.effects.external = True
        for argument in arguments if kind == "unknown" else []:
            found = self.finder.value_target(self.module, argument)
            if isinstance(found, Sym):
                self.effects.direct.add(found)
                self.effects.mutates.add(found)

    def _method(self, function: ast.Attribute, target: Target | None, count: int) -> None:
        self.expr(function.value)
        # thread.join() and queue.get() are no methods of strings and dicts, which take arguments.
        ambiguous = not count and function.attr in ("join", "get", "index", "count")
        if function.attr in PURE_METHODS and not ambiguous:
            return
        if function.attr not in MUTATING_METHODS:
            self.effects.opaque = True  # a method of a class that is not known
        self.mutate(function.value)

    def _plain(self, name: str, arguments: list[ast.expr]) -> None:
        if name in OUTPUT_BUILTINS:
            self.effects.output = True
        elif name in ("setattr", "delattr", "next") and arguments:
            self.mutate(arguments[0])
            attribute = self.finder.program.fold(self.module, arguments[1]) if len(arguments) > 1 else None
            self.effects.mutates |= self.finder.stored(attribute or "")
        elif name not in PURE_BUILTINS:
            self.effects.opaque = True
