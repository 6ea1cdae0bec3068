"""What of the workspace the result needs: reachability from the entry, effects included.

With a class ``Model`` in the entry, the root is ``Model``, and a statement that runs for its
effect is kept when it changes something that is kept, or the state of installed code. Without
one, the entry is a script and every effect of every module that it imports is kept.
"""

from __future__ import annotations

import ast
from collections import defaultdict

from kernel_lint.packager.effects import EffectFinder, Effects
from kernel_lint.packager.forms import is_globals_call
from kernel_lint.packager.graph import MODEL, Program
from kernel_lint.packager.load import type_only
from kernel_lint.packager.model import ENTRY, Dynamic, Ext, ImportSite, Mod, Sym, Target, Unit, Use
from kernel_lint.records import dataclass, field

_BARE = (ast.Expr, ast.For, ast.While, ast.With, ast.Delete, ast.AsyncFor, ast.AsyncWith)


@dataclass(slots=True)
class Kept:
    """The outcome of shaking."""

    units: set[int] = field(default_factory=set)
    symbols: dict[Sym, None] = field(default_factory=dict)
    # Those of the symbols that a kept statement binds and nothing reads.
    unread: set[Sym] = field(default_factory=set)
    externals: dict[Ext, None] = field(default_factory=dict)
    namespaces: dict[str, None] = field(default_factory=dict)
    modules: dict[str, None] = field(default_factory=dict)
    reasons: dict[object, tuple[object, str]] = field(default_factory=dict)
    dropped: list[tuple[Unit, str]] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    builtins: set[str] = field(default_factory=set)

    def reads(self, symbol: Sym) -> bool:
        """Whether a variable is kept because something reads it."""
        return symbol in self.symbols and symbol not in self.unread

    def has(self, unit: Unit) -> bool:
        """Whether a unit is kept."""
        return id(unit) in self.units


class Shaker:
    """Runs the reachability."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.finder = EffectFinder(program)
        self.kept = Kept()
        self._waiting: defaultdict[Target, list[Unit]] = defaultdict(list)
        self._queue: list[tuple[Unit, object, str]] = []
        self._units_of: dict[int, Unit] = {}

    def run(self) -> Kept:
        """Return what is kept."""
        self.visit_module(ENTRY)
        if self.program.has_model:
            target = self.program.resolve_name(ENTRY, MODEL)
            self.mark(target, "entry", "the class that is handed in")
        self._drain()
        while self._conditional_imports():
            self._drain()
        self._report_dropped()
        return self.kept

    def _drain(self) -> None:
        while self._queue:
            unit, reason, text = self._queue.pop()
            self._mark_unit(unit, reason, text)

    # -- marking ---------------------------------------------------------------------

    def mark(self, target: Target | None, reason: object, text: str) -> None:
        """Keep what a name means."""
        if isinstance(target, Sym):
            self._mark_symbol(target, reason, text)
        elif isinstance(target, Ext):
            self.kept.externals.setdefault(target)
            self.kept.reasons.setdefault(target, (reason, text))
        elif isinstance(target, Mod):
            self._mark_namespace(target.module, reason, text)
        elif isinstance(target, Dynamic):
            self._mark_symbol(Sym(target.module, "__getattr__"), reason, text)

    def _mark_symbol(self, symbol: Sym, reason: object, text: str) -> None:
        if symbol in self.kept.symbols and symbol not in self.kept.unread:
            return
        self.kept.unread.discard(symbol)
        self.kept.symbols[symbol] = None
        self.kept.reasons[symbol] = (reason, text)
        module = self.program.modules[symbol.module]
        for binding in self.program.effective(module, symbol.name):
            if binding.deferred:
                continue
            self._queue.append((binding.unit, symbol, "binds it"))
            if binding.site is not None and self.program.is_local(binding.site):
                self.mark(self.program.binding_target(binding), symbol, "is imported by it")
        sub = f"{symbol.module}.{symbol.name}"
        if sub in self.program.late_submodules and sub in self.kept.modules:
            self.mark(Mod(sub), symbol, "is a submodule that replaces it")
        for unit in self._waiting.pop(symbol, []):
            self._queue.append((unit, symbol, "changes it"))

    def _mark_namespace(self, name: str, reason: object, text: str) -> None:
        if name in self.kept.namespaces:
            return
        self.kept.namespaces[name] = None
        self.kept.reasons.setdefault(Mod(name), (reason, text))
        self.visit_module(name)
        late = self.program.rebound_in(name)
        for public in [*namespace_names(self.program, self.kept, name), *late]:
            self.mark(
                self.program.attribute(name, public), Mod(name), "is a name of the module used as a value"
            )

    def _mark_unit(self, unit: Unit, reason: object, text: str) -> None:
        if id(unit) in self.kept.units:
            return
        self.kept.units.add(id(unit))
        self._units_of[id(unit)] = unit
        self.kept.reasons.setdefault(unit, (reason, text))
        if unit.parent is not None:
            self._mark_unit(unit.parent, unit, "decides whether it runs")
        if isinstance(unit.node, ast.Try) and unit.blocks:
            for child in unit.blocks["body"]:
                if not isinstance(child.node, (ast.FunctionDef, ast.ClassDef)):
                    self._mark_unit(child, unit, "may raise what the try block catches")
        if unit.is_import:
            if isinstance(unit.parent, Unit) and not self.program.is_local(unit.imports[0]):
                for binding in unit.bindings:
                    self._mark_symbol(Sym(unit.module.name, binding.name), unit, "is bound by it")
            return
        for use in unit.uses:
            self._mark_use(use, unit)
        for binding in unit.bindings:
            # Whatever a kept statement binds needs a name of its own, be it read or not.
            symbol = Sym(unit.module.name, binding.name)
            if isinstance(binding.node, ast.Name) or binding.site or symbol in self.kept.symbols:
                continue
            self.kept.symbols[symbol] = None
            self.kept.reasons.setdefault(symbol, (unit, "is bound by it"))
            self.kept.unread.add(symbol)
        for site in unit.imports:
            self._mark_local_import(site)

    def _mark_use(self, use: Use, unit: Unit) -> None:
        self.kept.uses.append(use)
        target, depth = self.program.resolve_use(use)
        if isinstance(use.node, ast.Call):
            for name in self.program.import_call_modules(use):
                self.visit_module(name)
        if target is None:
            if use.is_global:
                self.kept.builtins.add(use.name)
            if use.name == "<module>" or (use.name in ("eval", "exec") and use.is_global):
                self._mark_own_names(use, unit)
            for name in globals_names(self.program, use) if reads_globals(use) else []:
                self.mark(self.program.attribute(use.unit.module.name, name), unit, "is listed by globals()")
            return
        if isinstance(target, Ext):
            chain = ".".join([target.module, *(link.name for link in use.links[depth:])])
            self.kept.reasons.setdefault(("chain", chain), (unit, "is read by it"))
        self.mark(target, unit, "is read by it")

    def _mark_own_names(self, use: Use, unit: Unit) -> None:
        """Keep all names of a module that looks itself up in ``sys.modules``, or runs code from text."""
        if not isinstance(use.node, ast.Subscript) or ast.unparse(use.node.slice) == "__name__":
            for name in namespace_names(self.program, self.kept, use.unit.module.name):
                self.mark(self.program.attribute(use.unit.module.name, name), unit, "may be looked up by it")

    def _mark_local_import(self, site: ImportSite) -> None:
        for name in self.program.executed(site):
            self.visit_module(name)
        if self.program.is_local(site) and not site.star and self.program.needs_binding(site):
            self.mark(self.program.site_target(site), site.unit, "is imported by it")

    # -- modules ---------------------------------------------------------------------

    def visit_module(self, name: str) -> None:
        """Take in that a module runs: what it imports runs, and its effects happen."""
        if name in self.kept.modules:
            return
        self.kept.modules[name] = None
        replaced = self.program.late_submodules.get(name)
        if replaced in self.kept.symbols:
            self.mark(Mod(name), replaced, "is a submodule that replaces it")
        module = self.program.modules[name]
        for unit in module.all_units():
            if unit.is_import:
                for site in unit.imports:
                    for other in self.program.executed(site):
                        self.visit_module(other)
                continue
            self._visit_unit(unit)

    def _visit_unit(self, unit: Unit) -> None:
        effects = self.finder.unit(unit)
        if self.is_root(unit, effects):
            self._queue.append(
                (unit, "entry" if unit.module.name == ENTRY else "import", "runs for its effect")
            )
            return
        for target in effects.mutates:
            if target in self.kept.symbols:
                self._queue.append((unit, target, "changes it"))
            else:
                self._waiting[target].append(unit)

    def is_root(self, unit: Unit, effects: Effects) -> bool:
        """Whether a statement is kept for its effects alone, whatever else is kept."""
        if effects.path_edit:
            return False
        changes_installed = any(isinstance(target, Ext) for target in effects.mutates)
        if not self.program.has_model:
            return effects.output or effects.external or effects.opaque or changes_installed
        if effects.output or not isinstance(unit.node, (*_BARE, ast.Assign, ast.AugAssign)):
            return False
        if changes_installed:
            return True
        return isinstance(unit.node, _BARE) and (effects.external or (effects.opaque and not effects.mutates))

    def _conditional_imports(self) -> bool:
        """Keep imports under ``if`` and ``try`` whose modules have effects; return whether any was new."""
        for name in list(self.kept.modules):
            for unit in self.program.modules[name].all_units():
                if (
                    not unit.is_import
                    or not unit.conditional
                    or self.kept.has(unit)
                    or type_only(unit.imports[0])
                ):
                    continue
                ran = {other for site in unit.imports for other in self.program.executed(site)}
                if any(self._effectful(other) for other in ran):
                    self._queue.append((unit, "import", "runs a module that has effects"))
        return bool(self._queue)

    def _effectful(self, name: str) -> bool:
        units = self.program.modules[name].all_units()
        return any(self.kept.has(unit) and self.finder.unit(unit).any for unit in units)

    def _report_dropped(self) -> None:
        for name in self.kept.modules:
            for unit in self.program.modules[name].all_units():
                if self.kept.has(unit) or unit.is_import:
                    continue
                effects = self.finder.unit(unit)
                if effects.path_edit:
                    self.kept.dropped.append((unit, "edits sys.path, which the result does not need"))
                elif effects.output:
                    self.kept.dropped.append((unit, "writes output"))
                elif isinstance(unit.node, (ast.Assert, ast.Raise)):
                    self.kept.dropped.append((unit, "checks something at import"))
                elif isinstance(unit.node, _BARE) and effects.any:
                    self.kept.dropped.append((unit, "changes only what is not kept"))


def reads_globals(use: Use) -> bool:
    """Whether a use is ``globals()``, or ``vars()``, ``locals()`` or ``dir()`` of the module itself."""
    if use.call is None or use.name not in ("globals", "vars", "locals", "dir") or use.links:
        return False
    return is_globals_call(
        use.call, ("globals",) if use.scope.kind != "module" else ("globals", "vars", "locals", "dir")
    )


def globals_names(program: Program, use: Use) -> list[str]:
    """Return the names that ``globals()`` shows at a use: those that are bound for certain by then."""
    module = use.unit.module
    names = []
    for name in [*module.bindings, *program.star_bindings(module)]:
        bindings = [b for b in program.effective(module, name) if not b.deferred and not b.unit.conditional]
        if any(b.kind == "del" for b in bindings) or not bindings or name.startswith("__"):
            continue
        if use.deferred or (bindings[0].seq < use.seq and bindings[0].unit is not use.unit):
            names.append(name)
    return names


def namespace_names(program: Program, kept: Kept, name: str) -> list[str]:
    """Return the names that a module used as a value has to offer."""
    module = program.modules[name]
    own = [*module.bindings, *program.star_bindings(module)]
    below = [sub for sub in program.submodules(name) if f"{name}.{sub}" in kept.modules]
    names = dict.fromkeys([*own, *below])
    return [
        item
        for item in names
        if not item.startswith("__") or item in ("__all__", "__version__", "__getattr__")
    ]
