"""Which names a module has bound for certain once it has run."""

from __future__ import annotations

import ast

from kernel_lint.packager.model import Module, Unit


def definite_names(module: Module) -> set[str]:
    """Return the names that are bound when the module has run to its end, whatever branches it took."""
    return _after(module.units, set())


def _after(units: list[Unit], bound: set[str]) -> set[str]:
    for unit in units:
        bound = _after_unit(unit, bound)
    return bound


def _after_unit(unit: Unit, bound: set[str]) -> set[str]:
    if not unit.blocks:
        bound = set(bound)
        for binding in unit.bindings:
            if binding.deferred:
                continue
            if binding.kind in ("del", "except"):
                bound.discard(binding.name)
            else:
                bound.add(binding.name)
        return bound
    blocks = unit.blocks
    if isinstance(unit.node, ast.If):
        return _after(blocks["body"], bound) & _after(blocks["orelse"], bound)
    finished = _after(blocks["orelse"], _after(blocks["body"], bound))
    ends = [finished]
    for name, children in blocks.items():
        if name.startswith("handler "):
            last = children[-1].node if children else None
            if not isinstance(last, ast.Raise):
                ends.append(_after(children, set(bound)))
    common = set.intersection(*ends)
    return _after(blocks["finalbody"], common)
