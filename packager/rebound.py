"""Which module-level variables change after their module has run."""

from __future__ import annotations

import ast

from kernel_lint import TYPE_CHECKING
from kernel_lint.packager.model import Mod, Module, Sym, Target, Use

if TYPE_CHECKING:
    from kernel_lint.packager.graph import Program


def rebound_variables(program: Program) -> tuple[set[Sym], dict[str, set[Target]]]:
    """Return the variables that ``global x``, ``module.x = ...`` or ``setattr(module, ...)`` may change.

    A store into an object that is not known counts for every module that is used as a value and
    has a variable of that name; the second result is those variables, by their name.
    """
    found: set[Sym] = set()
    for module in program.modules.values():
        for name, bindings in module.bindings.items():
            if any(binding.deferred for binding in bindings):
                found.add(Sym(module.name, name))
        for use in module.stores:
            target, depth = program.resolve_use(use)
            if isinstance(target, Sym) and depth and use.links[depth - 1].ctx != "load":
                found.add(target)
    attributes = set().union(*(module.stored_attributes for module in program.modules.values()))
    found |= _by_setattr(program, attributes)
    through: dict[str, set[Target]] = {}
    for symbol in _through_values(program, attributes):
        through.setdefault(symbol.name, set()).add(symbol)
    return found.union(*through.values()), through  # type: ignore[arg-type]


def _by_setattr(program: Program, attributes: set[str]) -> set[Sym]:
    """Return what ``setattr`` and ``delattr`` on a module change; other names go to ``attributes``."""
    found: set[Sym] = set()
    for module in program.modules.values():
        for use in [use for use in module.uses if use.name in ("setattr", "delattr")]:
            if use.call is None or len(use.call.args) < 2:
                continue
            owner = _module_of(program, module, use.call.args[0])
            name = program.fold(module, use.call.args[1])
            if owner is not None:
                names = program.modules[owner].bindings if name is None else [name]
                found.update(Sym(owner, item) for item in names)
            elif name is not None:
                attributes.add(name)
    return found


def _module_of(program: Program, module: Module, node: ast.expr) -> str | None:
    inner = node
    while isinstance(inner, ast.Attribute):
        inner = inner.value
    for use in module.uses:
        if use.node is inner:
            return _module_value(program, use)
    return None


def _module_value(program: Program, use: Use) -> str | None:
    target, depth = program.resolve_use(use)
    return target.module if isinstance(target, Mod) and depth == len(use.links) else None


def _through_values(program: Program, attributes: set[str]) -> set[Sym]:
    candidates = {
        module.name: names
        for module in program.modules.values()
        if (names := attributes & {*module.bindings, *program.star_bindings(module)})
    }
    if not candidates:
        return set()
    found: set[Sym] = set()
    for module in program.modules.values():
        for use in module.uses:
            owner = _module_value(program, use)
            if owner in candidates:
                found.update(Sym(owner, name) for name in candidates[owner])
    return found
