"""The workspace as one graph: which module, and which variable of it, each name means."""

from __future__ import annotations

import ast
from pathlib import Path

from kernel_lint import TYPE_CHECKING
from kernel_lint.packager.definite import definite_names
from kernel_lint.packager.exports import all_names, offers
from kernel_lint.packager.forms import is_modules_item
from kernel_lint.packager.known import BUILTINS
from kernel_lint.packager.load import type_only
from kernel_lint.packager.model import (
    ENTRY,
    Binding,
    Dynamic,
    Ext,
    ImportSite,
    Link,
    Missing,
    Mod,
    Module,
    Scope,
    Sym,
    Target,
    Use,
)
from kernel_lint.packager.reach import Reach
from kernel_lint.packager.rebound import rebound_variables
from kernel_lint.packager.stars import find_star_bindings
from kernel_lint.packager.submodules import (
    is_unbound_yet,
    late_submodules,
    running_times,
)
from kernel_lint.packager.targets import is_deleted, missing_module, module_constant, read_before, same_target
from kernel_lint.packager.workspace import MODEL, Workspace, prefixes

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["MODEL", "Program"]


class Program(Workspace):
    """A workspace with the meaning of its names."""

    def __init__(self, entry: Path, roots: Sequence[Path] = (), inline: Sequence[str] = ()) -> None:
        super().__init__(entry, roots, inline)
        self.rebound: set[Sym] = set()
        # Variables that a store into an object that is not known may change, by their name.
        self.reachable_by: dict[str, set[Target]] = {}
        self._effective: dict[tuple[str, str], list[Binding]] = {}
        self._starring = 0  # how many searches for star imports are going on
        self._names: dict[tuple[str, str], Target | None] = {}
        self._resolving: set[tuple[str, str]] = set()
        self._stars: dict[str, dict[str, list[Binding]]] = {}
        self._definite: dict[str, set[str]] = {}
        self._sites: dict[int, Target] = {}
        self._open: dict[int, Target] = {}
        self._provisional = False
        self._uses: dict[int, tuple[Target | None, int]] = {}
        self._reach = Reach(self.modules)
        self._times: dict[str, tuple[int, int]] = {}
        self._load_listed()
        self._stars.clear()
        self._effective.clear()
        self._reach.clear()
        self._times.clear()
        self.late_submodules = late_submodules(self)
        self.rebound, self.reachable_by = rebound_variables(self)
        self.rebound |= set(self.late_submodules.values())
        self._rebound_in: dict[str, list[str]] = {}
        for symbol in self.rebound:
            self._rebound_in.setdefault(symbol.module, []).append(symbol.name)
        self._effective.clear()
        self._names.clear()
        self._sites.clear()
        self._uses.clear()

    def _load_listed(self) -> None:
        """Load the submodules that ``__all__`` names, which a star import imports."""
        seen: set[str] = set()
        while new := [module for name, module in self.modules.items() if name not in seen]:
            seen.update(module.name for module in new)
            for site in [site for module in new for site in module.sites]:
                if site.star and not type_only(site):
                    for name in self._listed(site):
                        self.load(name)

    def _listed(self, site: ImportSite) -> list[str]:
        """Return the submodules that a star import of a package imports as ``__all__`` names them."""
        module = self.modules.get(site.module or "")
        if module is None or not module.is_package:
            return []
        names = [name for name in all_names(self, module) or () if name not in module.bindings]
        subs = [f"{module.name}.{name}" for name in names if name not in self.star_bindings(module)]
        return [name for name in subs if name in self.modules or self.finder.find(name) is not None]

    # -- imports ---------------------------------------------------------------------

    def executed(self, site: ImportSite) -> list[str]:
        """Return the local modules that an import statement runs if they have not run yet, in order."""
        if site.module is None or type_only(site):
            return []
        names = [name for name in prefixes(site.module) if name in self.modules]
        if isinstance(site.node, ast.ImportFrom) and not site.star:
            sub = f"{site.module}.{site.alias.name}" if site.module else site.alias.name
            target = self.site_target(site)
            if sub in self.modules and isinstance(target, Mod) and target.module == sub:
                names.append(sub)
        return names + (self._listed(site) if site.star else [])

    def site_target(self, site: ImportSite) -> Target:
        """Return what one imported name stands for."""
        key = id(site)
        if key in self._open:
            # Met again on the way, as a package imports its own submodule: that, or the bare variable.
            self._provisional = True
            return self._open[key]
        if key not in self._sites:
            sub = f"{site.module}.{site.alias.name}"
            self._open[key] = Mod(sub) if sub in self.modules else Sym(site.module or "", site.alias.name)
            try:
                result = self._site_target(site)
            finally:
                del self._open[key]
            if self._is_provisional():
                return result
            self._sites[key] = result
        return self._sites[key]

    def _is_provisional(self) -> bool:
        """Whether what was just found rests on a guess made further up, so that it must not be remembered."""
        if not self._open and not self._resolving:
            self._provisional = False
        return self._provisional

    def _site_target(self, site: ImportSite) -> Target:
        if site.module is None:
            return Missing("ImportError", "attempted relative import beyond top-level package")
        alias = site.alias
        if not self.is_local(site):
            if isinstance(site.node, ast.ImportFrom):
                return Ext(site.module, alias.name, site.local_name)
            return Ext(alias.name if alias.asname else site.local_name, None, site.local_name)
        if site.module and self.finder.find(site.module) is None:
            return missing_module(self.finder, site.module)
        if isinstance(site.node, ast.Import):
            return self._module_value(site.module) if alias.asname else self._top(site.module)
        sub = f"{site.module}.{alias.name}" if site.module else alias.name
        if site.module:
            found = self.attribute(site.module, alias.name, fallback=False)
            if found is not None:
                both = found == Sym(site.module, alias.name) and self.load(sub) is not None
                return Mod(sub) if both and is_unbound_yet(self, site) else found
        if self.load(sub) is not None:
            return Mod(sub)
        if not site.module:
            return Missing("ImportError", f"cannot import name {alias.name!r}")
        found = self.attribute(site.module, alias.name)
        return found or Missing("ImportError", f"cannot import name {alias.name!r} from {site.module!r}")

    def _top(self, name: str) -> Target:
        top = name.partition(".")[0]
        return Mod(top) if top in self.modules else Ext(top, None, top)

    def _module_value(self, name: str) -> Target:
        parts = name.split(".")
        value: Target = Mod(parts[0]) if parts[0] in self.modules else Mod(name)
        for part in parts[1:]:
            if isinstance(value, Mod) and value.module != name:
                value = self.attribute(value.module, part) or Mod(name)
        return value

    # -- names -----------------------------------------------------------------------

    def effective(self, module: Module, name: str) -> list[Binding]:
        """Return the bindings of a module-level name that can take place, star imports included."""
        known = self._effective.get((module.name, name)) if not self._open else None
        if known is None:
            known = self._find_effective(module, name)
            if not (self._open or self._starring or self._is_provisional()):
                self._effective[module.name, name] = known
        return known

    def _find_effective(self, module: Module, name: str) -> list[Binding]:
        result = []
        for binding in module.bindings.get(name, []):
            if binding.site is not None and self.is_local(binding.site):
                if id(binding.site) in self._open:
                    # What this import binds is being asked for: a package that imports its own submodule.
                    self._provisional = True
                    continue
                if type_only(binding.site) or isinstance(self.site_target(binding.site), Missing):
                    continue
            result.append(binding)
        result.extend(self.star_bindings(module).get(name, ()))
        result.sort(key=lambda binding: binding.seq)
        return result

    def star_bindings(self, module: Module) -> dict[str, list[Binding]]:
        """Return the names that ``from local import *`` statements bind in ``module``."""
        if module.name not in self._stars:
            found = self._stars[module.name] = {}
            self._starring += 1
            find_star_bindings(self, module, found)
            self._starring -= 1
        return self._stars[module.name]

    def resolve_name(self, module_name: str, name: str) -> Target | None:
        """Return what a module-level name means; None for a builtin or an unbound name."""
        key = (module_name, name)
        if key in self._names:
            return self._names[key]
        if key in self._resolving:
            self._provisional = True
            return Sym(module_name, name)
        self._resolving.add(key)
        try:
            result = self._resolve_name(module_name, name)
        finally:
            self._resolving.discard(key)
        if not self._is_provisional():
            self._names[key] = result
        return result

    def _resolve_name(self, module_name: str, name: str) -> Target | None:
        module = self.modules[module_name]
        bindings = self.effective(module, name)
        if not bindings:
            if Sym(module_name, name) in self.rebound:
                return Sym(module_name, name)
            return module_constant(module, name) or self._from_installed_star(module, name)
        own = Sym(module_name, name)
        if own in self.rebound or any(b.site is None or b.deferred or b.unit.conditional for b in bindings):
            return own
        targets = [self.binding_target(binding) for binding in bindings]
        first = targets[0]
        if first is None or any(not same_target(first, target) for target in targets[1:]):
            return own
        if isinstance(first, Ext) and name in BUILTINS and read_before(module, bindings[0]):
            return own  # the builtin until the import has run
        if isinstance(first, (Ext, Mod)):
            return first
        if isinstance(first, Sym) and self.stable(first, module_name):
            return first
        return own

    def _from_installed_star(self, module: Module, name: str) -> Target | None:
        """Return the import that a name comes from when only ``from installed import *`` can bind it."""
        for site in reversed(module.sites):
            if site.star and site.module and not self.is_local(site) and not site.unit.conditional:
                if offers(site.module, name):
                    return Ext(site.module, name, name)
        return None

    def binding_target(self, binding: Binding) -> Target | None:
        """Return what an import binding stands for (of a star import: the name's own target)."""
        site = binding.site
        if site is None:
            return None
        if binding.kind == "star":
            assert site.module is not None
            return self.attribute(site.module, binding.name)
        return self.site_target(site)

    def stable(self, symbol: Sym, importer: str) -> bool:
        """Whether a variable cannot change after ``importer`` has imported it by name."""
        if symbol in self.rebound:
            return False
        bindings = self.effective(self.modules[symbol.module], symbol.name)
        return len(bindings) == 1 or not self.reaches(symbol.module, importer)

    def reaches(self, name: str, other: str) -> bool:
        """Whether running ``name`` may run ``other``; of a module itself, whether it is in a cycle."""
        return self._reach.reaches(name, other)

    def rebound_in(self, name: str) -> list[str]:
        """Return the variables of a module that change after it has run."""
        return self._rebound_in.get(name, [])

    def running_times(self) -> dict[str, tuple[int, int]]:
        """Return when each module starts and ends to run, in an order that starts and ends share."""
        self._times = self._times or running_times(self)
        return self._times

    def attribute(self, module_name: str, name: str, fallback: bool = True) -> Target | None:
        """Return what ``module.name`` means; None where nothing in the files binds it.

        ``fallback`` also looks at submodules, and asks the module's ``__getattr__``.
        """
        module = self.modules[module_name]
        if self.effective(module, name) or Sym(module_name, name) in self.rebound:
            return self.resolve_name(module_name, name)
        if not fallback:
            return None
        if f"{module_name}.{name}" in self.modules:
            return Mod(f"{module_name}.{name}")
        constant = module_constant(module, name)
        if constant is None and "__getattr__" in module.bindings and not name.startswith("__"):
            return Dynamic(module_name, name)
        return constant

    def resolve_use(self, use: Use) -> tuple[Target | None, int]:
        """Return what a use means and how many of its attribute links that consumes."""
        found = self._uses.get(id(use))
        if found is None:
            found = self._uses[id(use)] = self._resolve_use(use)
        return found

    def _resolve_use(self, use: Use) -> tuple[Target | None, int]:
        target: Target | None
        if isinstance(use.node, ast.Call):
            name = self.import_call(use)
            target = Mod(name) if name else None
        elif isinstance(use.node, ast.Subscript) and is_modules_item(use.node):
            target = self._modules_item(use)
        elif use.sites:
            target = self._local_import(use)
        else:
            target = self.resolve_name(use.unit.module.name, use.name)
        depth = 0
        while isinstance(target, Mod) and depth < len(use.links):
            link = use.links[depth]
            found = self.attribute(target.module, link.name)
            if link.ctx != "load":
                found = Sym(target.module, link.name)
            if found is None or self._may_be_missing(found, link):
                break
            target = found
            depth += 1
        if isinstance(target, Mod) and target.module == ENTRY:
            return None, 0  # the entry is the result's own module
        return target, depth

    def _modules_item(self, use: Use) -> Target | None:
        assert isinstance(use.node, ast.Subscript)
        key = use.node.slice
        own = isinstance(key, ast.Name) and key.id == "__name__"
        name = use.unit.module.name if own else self.fold(use.unit.module, key)
        return Mod(name) if name is not None and name in self.modules else None

    def _may_be_missing(self, found: Target, link: Link) -> bool:
        """Whether ``module.name`` may fail, or ``getattr`` with a default may have to give that."""
        if isinstance(link.node, ast.Call):
            with_default = len(link.node.args) == 3
            return with_default and (
                isinstance(found, Dynamic)
                or (isinstance(found, Sym) and found.name not in self.definite(found.module))
            )
        return isinstance(found, Sym) and is_deleted(self, found)

    def definite(self, name: str) -> set[str]:
        """Return the names that a module has bound for certain once it has run."""
        if name not in self._definite:
            self._definite[name] = definite_names(self.modules[name])
        return self._definite[name]

    def _local_import(self, use: Use) -> Target | None:
        """Return what a name imported inside a function means, None where it stays a local variable."""
        targets = [self.site_target(site) for site in use.sites]
        first = targets[0]
        if any(not same_target(first, target) for target in targets[1:]) or any(
            type_only(s) for s in use.sites
        ):
            return None
        if isinstance(first, Mod) or (isinstance(first, Sym) and self.stable_always(first)):
            return first
        return None

    def needs_binding(self, site: ImportSite) -> bool:
        """Whether an import inside another statement has to bind its name, for uses that stay."""
        if site.scope.kind == "module" or site.local_name in site.scope.globals:
            own = Sym(site.unit.module.name, site.local_name)
            return self.resolve_name(own.module, own.name) == own
        return not self.elided(site.scope, site.local_name)

    def elided(self, scope: Scope, name: str) -> bool:
        """Whether imports alone bind ``name`` in a function and every use of it can be written out."""
        if scope.kind != "function" or name in scope.globals:
            return False
        sites = scope.imports.get(name, [])
        if not sites or len(sites) != scope.counts.get(name) or any(type_only(site) for site in sites):
            return False
        targets = [self.site_target(site) for site in sites]
        if any(not same_target(targets[0], target) for target in targets[1:]):
            return False
        first = targets[0]
        return isinstance(first, Mod) or (isinstance(first, Sym) and self.stable_always(first))

    def stable_always(self, symbol: Sym) -> bool:
        """Whether a variable is bound once for all, so that when it is read makes no difference."""
        return (
            symbol not in self.rebound and len(self.effective(self.modules[symbol.module], symbol.name)) == 1
        )
