"""What running a statement may change, beside the names that it binds.

A may-analysis: what it cannot see through counts as an effect. Output, calls into code that
is not known, and changes of variables are told apart, because the packager treats them
differently (see :mod:`kernel_lint.packager.shake`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field

from kernel_lint.packager.calls import (
    has_call,
    is_code,
    is_hook,
    is_only_code,
    known_result,
    link_count,
    setters,
)
from kernel_lint.packager.graph import Program
from kernel_lint.packager.known import (
    MUTATING_METHODS,
    OUTPUT_BUILTINS,
    PURE_BUILTINS,
    PURE_METHODS,
    external_kind,
)
from kernel_lint.packager.model import Binding, Ext, Mod, Module, Sym, Target, Unit, Use
from kernel_lint.packager.paths import path_edit


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


class EffectFinder:
    """Computes and remembers the effects of units and functions."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._units: dict[int, Effects] = {}
        self._callables: dict[Sym, Effects] = {}
        self._uses: dict[str, dict[int, Use]] = {}
        self._globals: dict[str, dict[int, list[str]]] = {}
        self._setters: dict[str, list[tuple[Module, ast.FunctionDef]]] | None = None
        self._walked: set[int] = set()

    def unit(self, unit: Unit) -> Effects:
        """Return the effects of running a unit (of a compound one: of its header)."""
        key = id(unit)
        if key not in self._units:
            walker = _Walker(self, unit.module, params=frozenset())
            if unit.blocks:
                if isinstance(unit.node, ast.If):
                    walker.expr(unit.node.test)
            else:
                walker.stmt(unit.node)
            if walker.mutates_local:
                walker.effects.opaque = True
                walker.effects.mutates |= walker.variables_read
            self._units[key] = walker.effects
        return self._units[key]

    def use_of(self, module: Module, node: ast.AST) -> Use | None:
        """Return the recorded use at a name node, None for a plain local variable."""
        table = self._uses.get(module.name)
        if table is None:
            table = self._uses[module.name] = {id(use.node): use for use in module.uses}
        return table.get(id(node))

    def global_bindings(self, module: Module) -> dict[int, list[str]]:
        """Return what definitions, imports, handlers and patterns in functions bind under ``global``."""
        table = self._globals.get(module.name)
        if table is None:
            table = self._globals[module.name] = {}
            for name, bindings in module.bindings.items():
                for binding in bindings:
                    if binding.deferred and not isinstance(binding.node, ast.Name):
                        table.setdefault(id(binding.node), []).append(name)
        return table

    def stored(self, attribute: str) -> set[Target]:
        """Return the variables that a store to an attribute of an unknown object may change.

        The object may be a module that is used as a value, or one with a property of that name.
        """
        if self._setters is None:
            self._setters = {}
            for module in self.program.modules.values():
                if ".setter" in module.text:
                    for node in setters(module.tree):
                        self._setters.setdefault(node.name, []).append((module, node))
        found = set(self.program.reachable_by.get(attribute, ()))
        for module, node in self._setters.get(attribute, ()):
            if id(node) not in self._walked:
                self._walked.add(id(node))
                found |= self._body(module, node.args, node.body).mutates
                self._walked.discard(id(node))
        return found

    def called(self, symbol: Sym) -> Effects:
        """Return the effects of calling a module-level variable."""
        known = self._callables.get(symbol)
        if known is not None:
            return known
        effects = self._callables[symbol] = Effects()
        module = self.program.modules[symbol.module]
        for binding in self.program.effective(module, symbol.name):
            node = binding.node
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                effects.add(self._body(module, node.args, node.body))
            elif isinstance(node, ast.ClassDef):
                effects.add(self._instance(module, node))
            elif isinstance(binding.unit.node, ast.Assign) and isinstance(
                binding.unit.node.value, ast.Lambda
            ):
                function = binding.unit.node.value
                effects.add(self._body(module, function.args, [ast.Expr(function.body)]))
            elif isinstance(source := self._source(module, binding), Sym):
                effects.add(self.called(source))
            elif not known_result(binding.unit.node):
                effects.opaque = True
                effects.mutates.add(symbol)
        return effects

    def _source(self, module: Module, binding: Binding) -> Target | None:
        """Return the variable whose object a binding takes over: an import, or ``x = y``."""
        if binding.site is not None:
            return self.program.binding_target(binding)
        node = binding.unit.node
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            return self.value_target(module, node.value)
        return None

    def _body(self, module: Module, args: ast.arguments, body: Iterable[ast.stmt]) -> Effects:
        names = [arg.arg for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs)]
        names += [arg.arg for arg in (args.vararg, args.kwarg) if arg]
        walker = _Walker(self, module, frozenset(names), in_function=True)
        for statement in body:
            walker.stmt(statement)
        if walker.mutates_local:
            walker.effects.mutates |= walker.variables_read
        return walker.effects

    def _instance(self, module: Module, node: ast.ClassDef) -> Effects:
        effects = Effects()
        wanted = ("__init__", "__new__", "__post_init__", "__set_name__", "__call__")
        for item in node.body:
            if isinstance(item, ast.FunctionDef) and item.name in wanted:
                effects.add(self._body(module, item.args, item.body))
        effects.params = False
        for base in node.bases:
            target = self.value_target(module, base)
            if isinstance(target, Sym):
                effects.add(self.called(target))
        return effects

    def subclassing(self, module: Module, base: ast.expr, seen: frozenset[Sym] = frozenset()) -> Effects:
        """Return the effects of deriving a class from ``base`` (``__init_subclass__``, metaclass)."""
        effects = Effects()
        target = self.value_target(module, base)
        if not isinstance(target, Sym) or target in seen:
            return effects
        owner = self.program.modules[target.module]
        for binding in self.program.effective(owner, target.name):
            node = binding.node
            if not isinstance(node, ast.ClassDef):
                effects.add(self._derived(owner, binding, seen | {target}))
                continue
            effects.add(self._hooks(owner, node, seen | {target}))
        return effects

    def _hooks(self, module: Module, node: ast.ClassDef, seen: frozenset[Sym]) -> Effects:
        """Return the effects of deriving from a class: its own hooks, and those of its bases."""
        effects = Effects()
        for item in node.body:
            if isinstance(item, ast.FunctionDef) and is_hook(item.name, node):
                effects.add(self._body(module, item.args, item.body))
        for inner in [*node.bases, *(keyword.value for keyword in node.keywords)]:
            effects.add(self.subclassing(module, inner, seen))
        return effects

    def _derived(self, module: Module, binding: Binding, seen: frozenset[Sym]) -> Effects:
        """Return the effects of deriving from what a binding other than a class statement gives."""
        source = self._source(module, binding)
        if isinstance(source, Sym):
            first = binding.unit.node
            if isinstance(first, ast.Assign) and source not in seen:
                return self.subclassing(module, first.value, seen)
            effects = Effects()
            owner = self.program.modules[source.module]
            for other in self.program.effective(owner, source.name) if source not in seen else ():
                if isinstance(other.node, ast.ClassDef):
                    effects.add(self._hooks(owner, other.node, seen | {source}))
                else:
                    effects.add(self._derived(owner, other, seen | {source}))
            return effects
        return Effects(opaque=source is None and not known_result(binding.unit.node))

    def aliases(self, target: Target) -> set[Target]:
        """Return a variable and those whose object it shares, as after ``x = y`` or ``x = y[k]``."""
        found: set[Target] = set()
        stack = [target]
        while stack:
            item = stack.pop()
            if item in found:
                continue
            found.add(item)
            if not isinstance(item, Sym):
                continue
            module = self.program.modules[item.module]
            for binding in self.program.effective(module, item.name):
                value = getattr(binding.unit.node, "value", None)
                if isinstance(value, ast.Name | ast.Attribute | ast.Subscript | ast.Call):
                    root, _, _ = _Walker(self, module, frozenset()).root(value)
                    if isinstance(root, Sym) and not is_only_code(self.program, root):
                        stack.append(root)
                if binding.site is not None:
                    source = self.program.binding_target(binding)
                    if isinstance(source, Sym) and not is_only_code(self.program, source):
                        stack.append(source)
        return found

    def value_target(self, module: Module, node: ast.expr) -> Target | None:
        """Return what a name or attribute chain means where all of it resolves, else None."""
        inner = node
        while isinstance(inner, ast.Attribute):
            inner = inner.value
        use = self.use_of(module, inner)
        if use is None:
            return None
        target, depth = self.program.resolve_use(use)
        return target if depth == len(use.links) else None


class _Walker:
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
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
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
        elif isinstance(node, ast.Assert | ast.Raise):
            self.effects.opaque = True
        elif isinstance(node, ast.Global | ast.Nonlocal | ast.Pass):
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
        for name in node._fields:
            value = getattr(node, name, None)
            for item in value if isinstance(value, list) else [value]:
                if isinstance(item, ast.stmt):
                    self.stmt(item)
                elif isinstance(item, ast.expr):
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
        elif isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            self.mutate(node)
            self.children(node)
        elif isinstance(node, ast.Name):
            self.name(node)
        elif isinstance(node, ast.Await):
            self.effects.opaque = True
            self.children(node)
        else:
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
        while isinstance(inner, ast.Attribute | ast.Subscript | ast.Call):
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
        if not isinstance(function, ast.Name | ast.Attribute):
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
