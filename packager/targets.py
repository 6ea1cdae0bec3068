"""Small questions about what names mean."""

from __future__ import annotations

from kernel_lint import TYPE_CHECKING
from kernel_lint.packager.model import ENTRY, Binding, Const, Ext, Missing, Module, Sym, Target
from kernel_lint.packager.resolve import Finder

if TYPE_CHECKING:
    from kernel_lint.packager.graph import Program


def missing_module(finder: Finder, name: str) -> Missing:
    """Return the error that importing a local module that is not there raises."""
    parts = name.split(".")
    for index in range(1, len(parts)):
        parent = ".".join(parts[:index])
        source = finder.find(parent)
        if source is not None and not source.is_package:
            missing = ".".join(parts[: index + 1])
            return Missing("ModuleNotFoundError", f"No module named {missing!r}; {parent!r} is not a package")
        if source is None:
            return Missing("ModuleNotFoundError", f"No module named {parent!r}")
    return Missing("ModuleNotFoundError", f"No module named {name!r}")


def same_target(first: Target | None, second: Target | None) -> bool:
    """Whether two names mean the same, whatever an import calls it."""
    if isinstance(first, Ext) and isinstance(second, Ext):
        return (first.module, first.attr) == (second.module, second.attr)
    return first == second


def module_constant(module: Module, name: str) -> Target | None:
    """Return the constant that a name of every module stands for, such as ``__name__``."""
    if module.name == ENTRY and name != "__doc__":
        return None
    if name == "__name__":
        return Const(repr(module.name))
    if name == "__package__":
        return Const(repr(module.package))
    if name == "__doc__":
        return Const(repr(module.doc))
    return None


def read_before(module: Module, binding: Binding) -> bool:
    """Whether running the module reads a name before ``binding`` binds it."""
    return any(use.name == binding.name and not use.deferred and use.seq < binding.seq for use in module.uses)


def is_deleted(program: Program, symbol: Sym) -> bool:
    """Whether the last thing that a module does with a name is to delete it."""
    if symbol in program.rebound:
        return False
    bindings = program.effective(program.modules[symbol.module], symbol.name)
    return bool(bindings) and bindings[-1].kind in ("del", "except") and not bindings[-1].unit.conditional
