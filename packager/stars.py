"""What ``from module import *`` binds."""

from __future__ import annotations

from kernel_lint import TYPE_CHECKING
from kernel_lint.packager.exports import all_names
from kernel_lint.packager.load import type_only
from kernel_lint.packager.model import Binding
from kernel_lint.packager.submodules import binds_too_late

if TYPE_CHECKING:
    from kernel_lint.packager.graph import Program
    from kernel_lint.packager.model import Module


def find_star_bindings(program: Program, module: Module, found: dict[str, list[Binding]]) -> None:
    """Add to ``found`` the names that ``from local import *`` statements bind in ``module``."""
    for site in module.sites:
        if not site.star or not site.module or program.finder.find(site.module) is None or type_only(site):
            continue
        names = public_names(program, site.module)
        cyclic = bool(names) and program.reaches(site.module, module.name)
        for name in names:
            if cyclic and binds_too_late(program, site, name):
                continue
            binding = Binding(name, "star", site.node, site.unit, site.seq, site.deferred, site)
            found.setdefault(name, []).append(binding)


def public_names(program: Program, name: str) -> list[str]:
    """Return what ``from name import *`` binds: ``__all__`` where known, else what may be public."""
    module = program.load(name)
    if module is None:
        return []
    listed = all_names(program, module)
    if listed is not None:
        return listed
    names = list(dict.fromkeys([*module.bindings, *program.star_bindings(module)]))
    return [item for item in names if not item.startswith("_")]
