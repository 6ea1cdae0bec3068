"""Names that a package and one of its submodules share: which of the two is meant, and when."""

from __future__ import annotations

import itertools

from kernel_lint import TYPE_CHECKING
from kernel_lint.packager.load import type_only
from kernel_lint.packager.model import ENTRY, Binding, ImportSite, Sym, Unit
from kernel_lint.packager.reach import named

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kernel_lint.packager.graph import Program


def is_unbound_yet(program: Program, site: ImportSite) -> bool:
    """Whether ``from package import name`` runs before the package binds ``name``, as in a cycle."""
    assert site.module is not None
    package = program.modules[site.module]
    bindings = [b for b in program.effective(package, site.alias.name) if b.site is not site]
    if not bindings or any(binding.deferred for binding in bindings):
        return False
    if site.unit.module is not package and not _runs_during(program, site.unit.module.name, package.name):
        return False
    if site.unit.module is package:
        return site.scope.kind == "module" and site.seq < bindings[0].seq
    before = _before(package.units, bindings[0].unit, inclusive=False)
    return not site.deferred and _starts(program, before, site.unit.module.name)


def binds_too_late(program: Program, site: ImportSite, name: str) -> bool:
    """Whether a star import in a cycle runs before the module that it names binds ``name``."""
    module = program.modules[site.module or ""]
    bindings = module.bindings.get(name)
    if not bindings or site.deferred or bindings[0].deferred:
        return False
    if not _runs_during(program, site.unit.module.name, module.name):
        return False
    before = _before(module.units, bindings[0].unit, inclusive=bindings[0].site is not None)
    return _starts(program, before, site.unit.module.name)


def late_submodules(program: Program) -> dict[str, Sym]:
    """Return the submodules whose import replaces a variable of their package, with that variable.

    Those are the ones that the package itself does not run before it binds the variable for the last time.
    """
    found: dict[str, Sym] = {}
    for name in program.modules:
        parent, _, last = name.rpartition(".")
        package = program.modules.get(parent)
        own = [b for b in package.bindings.get(last, ()) if not type_only_binding(b)] if package else []
        if package is None or not own or all(_takes(b.site, name) for b in own):
            continue
        if not _starts(program, _before(package.units, own[-1].unit, inclusive=True), name):
            found[name] = Sym(parent, last)
    return found


def type_only_binding(binding: Binding) -> bool:
    """Whether a binding is an import that never runs."""
    return binding.site is not None and type_only(binding.site)


def _takes(site: ImportSite | None, name: str) -> bool:
    """Whether an import binds the submodule ``name`` itself."""
    return site is not None and f"{site.module}.{site.alias.name}" == name


def running_times(program: Program) -> dict[str, tuple[int, int]]:
    """Return when each module starts and ends to run, in steps of the walk; functions are not called."""
    times = {ENTRY: (0, 0)}
    clock = 0
    stack: list[tuple[str, Iterator[ImportSite]]] = [(ENTRY, iter(program.modules[ENTRY].sites))]
    while stack:
        running, sites = stack[-1]
        site = next(sites, None)
        clock += 1
        if site is None:
            times[running] = (times[running][0], clock)
            stack.pop()
        elif not site.deferred and not type_only(site):
            new = [name for name in named(program.modules, site) if name not in times]
            for name in new[:1]:  # the parent first, then the same import again
                stack[-1] = (running, itertools.chain([site], sites))
                times[name] = (clock, 0)
                stack.append((name, iter(program.modules[name].sites)))
    return times


def _runs_during(program: Program, name: str, other: str) -> bool:
    """Whether ``name`` starts to run while ``other`` runs."""
    times = program.running_times()
    return name in times and other in times and times[other][0] < times[name][0] < times[other][1]


def _before(units: Iterable[Unit], last: Unit, inclusive: bool) -> list[Unit]:
    found: list[Unit] = []
    for unit in units:
        for inner in unit.walk():
            if inner is last:
                return [*found, inner] if inclusive else found
            found.append(inner)
    return found


def _starts(program: Program, units: list[Unit], wanted: str) -> bool:
    """Whether the imports of some statements run a module, or those of the modules that they run in turn."""
    seen: set[str] = set()
    while units:
        for site in units.pop().imports:
            if site.deferred or type_only(site):
                continue
            for name in named(program.modules, site):
                if name == wanted:
                    return True
                if name not in seen:
                    seen.add(name)
                    units.extend(program.modules[name].all_units())
    return False
