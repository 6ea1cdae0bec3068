"""Which scope each recorded use of a name refers to."""

from __future__ import annotations

import ast

from kernel_lint import TYPE_CHECKING
from kernel_lint.packager.model import ImportSite, Link, Scope, Unit, Use

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kernel_lint.packager.model import Module

# The arguments of a Use: most uses are of local names, and not worth an object.
RawUse = tuple[
    str,
    ast.Name | ast.Call | ast.Subscript,
    str,
    Scope,
    bool,
    bool,
    int,
    tuple[Link, ...],
    Unit,
    ast.expr | None,
    ast.Call | None,
]
# What a name means in a scope: True for the module's, else the imports that alone bind it locally.
Meaning = bool | tuple[ImportSite, ...]


def resolve_uses(module: Module, raw: Iterable[RawUse], stores: Iterable[RawUse]) -> None:
    """Decide for each use whether it means a module-level name or an import in a function.

    Uses of plain local names are dropped; what stays is attached to the module and to its unit.
    """
    made: dict[int, Use] = {}
    for item in raw:
        name, scope = item[0], item[3]
        meaning = scope.meanings.get(name)
        if meaning is None:
            meaning = _in_class(item) if scope.kind == "class" else _meaning(scope, name)
        if not meaning:
            continue
        use = Use(*item)
        if isinstance(meaning, bool):
            use.is_global = True
        else:
            use.sites = meaning
        made[id(item)] = use
        item[8].uses.append(use)
    module.uses = list(made.values())
    module.stores = [made[id(item)] for item in stores if id(item) in made]


def _meaning(scope: Scope | None, name: str) -> Meaning:
    """Return what a name means in a scope, seen from inside it or, of a class, from a scope in it."""
    if scope is None or scope.kind == "module" or name in scope.globals:
        return True
    known = scope.meanings.get(name)
    if known is None:
        if name in scope.nonlocals or scope.kind == "class" or name not in scope.bound:
            known = _meaning(scope.parent, name)
        else:
            known = _only_imports(scope, name)
        if scope.kind != "class":
            scope.meanings[name] = known
    return known


def _in_class(item: RawUse) -> Meaning:
    """Return what a name means in the class body in which it stands."""
    name, ctx, scope, seq = item[0], item[2], item[3], item[6]
    if name in scope.globals:
        return True
    if name in scope.nonlocals or name not in scope.bound:
        return _meaning(scope.parent, name)
    if ctx == "load" and seq < scope.bound[name]:
        return True  # read before the class binds it: the module's name, past any function's
    return _only_imports(scope, name)


def _only_imports(scope: Scope, name: str) -> tuple[ImportSite, ...]:
    sites = scope.imports.get(name, [])
    return tuple(sites) if sites and len(sites) == scope.counts.get(name) else ()
