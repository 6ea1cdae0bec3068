"""The effects of running statements and calling functions, found once and remembered."""

from __future__ import annotations

import ast

from kernel_lint import TYPE_CHECKING
from kernel_lint.packager.calls import is_hook, is_only_code, known_result, setters
from kernel_lint.packager.graph import Program
from kernel_lint.packager.model import Binding, Module, Sym, Target, Unit, Use
from kernel_lint.packager.walker import Effects, Walker

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["EffectFinder", "Effects"]


NOTHING = Effects()


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
            if isinstance(unit.node, (ast.FunctionDef, ast.AsyncFunctionDef)) and _is_bare(unit.node):
                return NOTHING
            walker = Walker(self, unit.module, params=frozenset())
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
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
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
        walker = Walker(self, module, frozenset(names), in_function=True)
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
                if isinstance(value, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)):
                    root, _, _ = Walker(self, module, frozenset()).root(value)
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


def _is_bare(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether defining a function evaluates nothing."""
    return not (node.decorator_list or node.args.defaults or any(node.args.kw_defaults))
