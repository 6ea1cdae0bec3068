"""In what order the kept statements run: the order of first imports, as the interpreter would do it.

The outcome is a tree of items that :mod:`kernel_lint.packager.emit` writes out. A module that
is first imported under a condition, or inside a function, is written before that place when
running it early makes no difference; else its statements go into a function that runs them once.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict

from kernel_lint.packager.effects import EffectFinder
from kernel_lint.packager.errors import PackageError
from kernel_lint.packager.graph import Program
from kernel_lint.packager.items import Assign, Item, Load, Loader, Namespace, Place, Prelude, Raise, Statement
from kernel_lint.packager.known import BUILTINS
from kernel_lint.packager.load import is_certain_external, type_only
from kernel_lint.packager.model import (
    ENTRY,
    Ext,
    ImportSite,
    Missing,
    Mod,
    Module,
    Sym,
    Unit,
    Use,
)
from kernel_lint.packager.shake import Kept


class Planner:
    """Follows the imports from the entry."""

    def __init__(self, program: Program, kept: Kept, finder: EffectFinder) -> None:
        self.program = program
        self.kept = kept
        self.finder = finder
        self.items: list[Item] = []
        self.hoist = self.items
        self.state: dict[str, str] = {}
        self.loaders: dict[str, Loader] = {}
        self.placed: set[Ext] = set()
        self.problems: list[PackageError] = []
        self._environment_changed = False
        self._settled: set[Ext] = set()
        self._eager = self._unconditional()
        self._movable: dict[str, bool] = {}
        # The modules that are loaded directly in a list of items, by the list's id.
        self._loads: defaultdict[int, set[str]] = defaultdict(set)
        # Statements with all that they need, by what they call, run already.
        self._needed: set[int] = set()
        self._starred: dict[str, dict[int, list[str]]] = {}
        self._sites: Counter[str] | None = None
        self._selves = {use.unit.module.name for use in kept.uses if self._is_self(use)}

    def run(self) -> list[Item]:
        """Return the items of the whole result."""
        self._module(ENTRY, self.items)
        return self.items

    # -- modules ---------------------------------------------------------------------

    def _unconditional(self) -> set[str]:
        """Return the modules that are imported in any case."""
        seen = {ENTRY}
        stack = [ENTRY]
        while stack:
            for unit in self.program.modules[stack.pop()].all_units():
                if not unit.is_import or unit.conditional:
                    continue
                for site in unit.imports:
                    for name in self.program.executed(site):
                        if name not in seen:
                            seen.add(name)
                            stack.append(name)
        return seen

    def _module(self, name: str, out: list[Item]) -> None:
        self.state[name] = "running"
        module = self.program.modules[name]
        cyclic = self.program.reaches(name, name)
        live = name in self.kept.namespaces and (cyclic or self._changes(name) or name in self._selves)
        lazy = [other for other in self._lazy_modules(module) if other not in self._eager]
        early = [other for other in lazy if not self.program.reaches(other, name)]
        if live:
            out.append(Namespace(None, name, self._names(name), True, cyclic))
        for unit in module.units:
            if early and self.kept.has(unit) and not unit.is_import:
                for other in early:
                    self._lazy(other)
                early = []
            self._unit(unit, out)
        if name in self.kept.namespaces and not live:
            out.append(Namespace(None, name, self._names(name), False))
        self.state[name] = "done"
        replaced = self.program.late_submodules.get(name)
        if replaced in self.kept.symbols:
            out.append(Assign(None, replaced, Mod(name)))
        for other in lazy:
            self._lazy(other)

    def _names(self, name: str) -> list[str]:
        from kernel_lint.packager.shake import namespace_names

        names = []
        for public in namespace_names(self.program, self.kept, name):
            target = self.program.attribute(name, public)
            if isinstance(target, Sym) and target.module == name and not self._is_bound(name, public):
                continue
            ready = not isinstance(target, Mod) or self.state.get(target.module) == "done"
            if target is not None and (ready or target == Mod(name)):
                names.append(public)
        return names

    def _is_bound(self, name: str, public: str) -> bool:
        """Whether a name is there once its module has run, whatever branches it took."""
        module = self.program.modules[name]
        bound = public in self.program.definite(name) or public in self.program.star_bindings(module)
        return bound or self._changes(name)

    def _is_self(self, use: Use) -> bool:
        """Whether a use is a module's use of itself as a value, as ``sys.modules[__name__]``."""
        target = self.program.resolve_use(use)[0]
        return isinstance(target, Mod) and target.module == use.unit.module.name

    def _changes(self, name: str) -> bool:
        return bool(self.program.rebound_in(name))

    def _lazy_modules(self, module: Module) -> list[str]:
        found: dict[str, None] = {}
        for unit in module.all_units():
            if self.kept.has(unit) and not unit.is_import:
                for site in unit.imports:
                    found.update(dict.fromkeys(self.program.executed(site)))
                for use in unit.uses:
                    if use.deferred:
                        found.update(dict.fromkeys(self.program.import_call_modules(use)))
        return list(found)

    def _lazy(self, name: str) -> None:
        if self.state.get(name):
            return
        if self.movable(name):
            self._module(name, self.hoist)
        else:
            self._loader(name)

    def movable(self, name: str) -> bool:
        """Whether running the kept statements of a module early, or at all, makes no difference."""
        if name not in self._movable:
            self._movable[name] = True  # in a cycle: decided by the others
            self._movable[name] = self._is_movable(name)
        return self._movable[name]

    def _is_movable(self, name: str) -> bool:
        module = self.program.modules[name]
        if name in self.program.late_submodules:
            return False
        for unit in module.all_units():
            if unit.is_import:
                if not unit.conditional and not all(self._import_movable(site) for site in unit.imports):
                    return False
            elif self.kept.has(unit):
                effects = self.finder.unit(unit)
                foreign = any(not isinstance(t, Sym) or t.module != name for t in effects.mutates)
                calls = effects.external or effects.opaque
                if effects.output or foreign or (calls and not self.program.has_model):
                    return False
                if calls and isinstance(unit.node, ast.Expr):
                    return False
        return True

    def _import_movable(self, site: ImportSite) -> bool:
        if type_only(site):
            return True
        if self.program.is_local(site):
            if isinstance(self.program.site_target(site), Missing):
                return False
            return all(self.state.get(other) or self.movable(other) for other in self.program.executed(site))
        used = self.program.has_model is False or self.program.site_target(site) in self.kept.externals
        return not used or is_certain_external(site.module or "")

    def _loader(self, name: str) -> None:
        loader = Loader(None, name, [], self.program.reaches(name, name))
        self.loaders[name] = loader
        outer = self.hoist
        self.state[name] = "running"
        self._module(name, loader.items)
        outer.append(loader)

    def _run(self, name: str, unit: Unit, out: list[Item]) -> None:
        """Run a module at an import statement."""
        if self.state.get(name):
            ran = name in self._loads[id(out)]
            # Imported by what it imports itself: it is running then, and its loader is not written yet.
            ran |= out is self.hoist and self.state[name] == "running"
            if name in self.loaders and not ran:
                self._load(name, unit, out)
        elif out is self.hoist:
            self._module(name, out)
        elif self.movable(name):
            self._module(name, self.hoist)
        elif self._count_sites(name) == 1:
            self._module(name, out)
        else:
            self._loader(name)
            self._load(name, unit, out)

    def _load(self, name: str, unit: Unit, out: list[Item]) -> None:
        out.append(Load(unit, name))
        self._loads[id(out)].add(name)

    def _count_sites(self, name: str) -> int:
        if self._sites is None:
            sites = (site for other in self.kept.modules for site in self.program.modules[other].sites)
            self._sites = Counter(ran for site in sites for ran in dict.fromkeys(self.program.executed(site)))
        return self._sites[name]

    # -- statements ------------------------------------------------------------------

    def _unit(self, unit: Unit, out: list[Item]) -> None:
        if unit.is_import:
            self._import(unit, out)
        elif unit.blocks:
            self._compound(unit, out)
        elif self.kept.has(unit):
            self._before(unit, out)
            for use in unit.uses:
                for name in self.program.import_call_modules(use) if not use.deferred else []:
                    self._run(name, unit, out)
            self._run_needed(unit)
            out.append(Statement(unit))
            effects = self.finder.unit(unit)
            if effects.external or any(isinstance(target, Ext) for target in effects.mutates):
                self._environment_changed = True

    def _before(self, unit: Unit, out: list[Item]) -> None:
        """Save a builtin that a conditional binding may or may not replace."""
        for binding in unit.bindings:
            symbol = Sym(unit.module.name, binding.name)
            if binding.name in BUILTINS and symbol in self.kept.symbols and unit.conditional:
                first = self.program.effective(unit.module, binding.name)[0]
                if first is binding:
                    self.hoist.append(Prelude(unit, symbol))

    def _compound(self, unit: Unit, out: list[Item]) -> None:
        statement = Statement(unit)
        if self.kept.has(unit):
            self._run_needed(unit)
        for block, children in unit.blocks.items():
            items = statement.blocks[block] = []
            for child in children:
                self._unit(child, items)
        # A test that has effects, or changes what is kept, runs even where nothing is left under it.
        effects = self.finder.unit(unit)
        tested = effects.any and not self.program.has_model
        tested |= any(target in self.kept.symbols for target in effects.mutates)
        if self.kept.has(unit) and (any(statement.blocks.values()) or tested):
            out.append(statement)

    def _import(self, unit: Unit, out: list[Item]) -> None:
        if isinstance(unit.node, ast.ImportFrom) and unit.node.module == "__future__":
            return
        for site in unit.imports:
            if type_only(site):
                if self.kept.has(unit) and not self.program.is_local(site) and not _has(out, unit):
                    out.append(Statement(unit))
            elif self.program.is_local(site):
                self._local_import(site, unit, out)
            else:
                self._external_import(site, unit, out)

    def _external_import(self, site: ImportSite, unit: Unit, out: list[Item]) -> None:
        target = self.program.site_target(site)
        own = Sym(unit.module.name, site.local_name)
        if unit.conditional or self.program.resolve_name(unit.module.name, site.local_name) == own:
            if self.kept.has(unit) and not _has(out, unit):
                self._before(unit, out)
                out.append(Statement(unit))
        elif isinstance(target, Ext) and target in self.kept.externals and target not in self._settled:
            certain = out is self.hoist or is_certain_external(target.module)
            if certain:
                self._settled.add(target)
                self.placed.discard(target)
            if not certain or (self._environment_changed and not _is_standard(target.module)):
                self.placed.add(target)
                out.append(Place(unit, [target]))

    def _local_import(self, site: ImportSite, unit: Unit, out: list[Item]) -> None:
        for name in self.program.executed(site):
            self._run(name, unit, out)
        if site.star:
            names = self._from_star(site)
        else:
            names = [site.local_name]
        for name in names:
            symbol = Sym(unit.module.name, name)
            if site.star:
                assert site.module is not None
                target = self.program.attribute(site.module, name)
            else:
                target = self.program.site_target(site)
            if isinstance(target, Missing):
                self._missing(site, unit, target, out)
            elif self.kept.reads(symbol) and target is not None and target != symbol:
                if self.program.resolve_name(unit.module.name, name) == symbol:
                    out.append(Assign(unit, symbol, target))

    def _from_star(self, site: ImportSite) -> list[str]:
        """Return the names that a star import binds."""
        module = site.unit.module
        if module.name not in self._starred:
            names: dict[int, dict[str, None]] = {}
            for name, bindings in self.program.star_bindings(module).items():
                for binding in bindings:
                    names.setdefault(id(binding.site), {})[name] = None
            self._starred[module.name] = {key: list(found) for key, found in names.items()}
        return self._starred[module.name].get(id(site), [])

    def _missing(self, site: ImportSite, unit: Unit, target: Missing, out: list[Item]) -> None:
        if unit.conditional:
            out.append(Raise(unit, target))
            return
        self.problems.append(
            PackageError(
                f"this import cannot succeed: {target.message}",
                "correct the name, or give the folder that holds the module with --root",
                unit.module.path,
                unit.node.lineno,
            )
        )

    def _run_needed(self, unit: Unit) -> None:
        """Run the modules that functions called by this statement import when they run."""
        if isinstance(unit.node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not unit.node.decorator_list:
            return
        seen: set[int] = set()
        read: set[Sym] = set()
        whole = True
        stack = [use for use in unit.uses if not use.deferred]
        while stack:
            use = stack.pop()
            target, _ = self.program.resolve_use(use)
            if not isinstance(target, Sym) or target in read:
                continue
            read.add(target)
            for binding in self.program.effective(self.program.modules[target.module], target.name):
                if id(binding.unit) in seen or id(binding.unit) in self._needed:
                    continue
                if binding.unit is unit:
                    whole = False
                    continue
                seen.add(id(binding.unit))
                stack.extend(binding.unit.uses)
                for site in binding.unit.imports if not binding.unit.is_import else []:
                    for name in self.program.executed(site):
                        self._lazy(name)
        if whole:
            self._needed |= seen  # nothing is left to be run for any of them


def _has(out: list[Item], unit: Unit) -> bool:
    return bool(out) and isinstance(out[-1], Statement) and out[-1].unit is unit


def _is_standard(name: str) -> bool:
    import sys

    return name.partition(".")[0] in sys.stdlib_module_names
