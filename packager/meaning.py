"""Which scope each recorded use of a name refers to."""

from __future__ import annotations

from kernel_lint.packager.model import ImportSite, Module, Scope, Use


def resolve_uses(module: Module) -> None:
    """Decide for each use whether it means a module-level name or an import in a function.

    Uses of plain local names are dropped; what stays is attached to its unit.
    """
    for scope_use in module.uses:
        _resolve(scope_use)
    module.uses = [use for use in module.uses if use.is_global or use.sites]
    for use in module.uses:
        use.unit.uses.append(use)
    module.stores = [use for use in module.stores if use.is_global or use.sites]


def _resolve(use: Use) -> None:
    name = use.name
    scope: Scope | None = use.scope
    while scope is not None and scope.kind != "module":
        if name in scope.globals:
            use.is_global = True
            return
        if name in scope.nonlocals:
            scope = scope.parent
            continue
        if scope.kind == "class":
            if scope is use.scope and name in scope.bound:
                if use.ctx == "load" and use.seq < scope.bound[name]:
                    use.is_global = (
                        True  # read before the class binds it: the module's name, past any function's
                    )
                    return
                use.sites = _only_imports(scope, name)
                return
        elif name in scope.bound:
            use.sites = _only_imports(scope, name)
            return
        scope = scope.parent
    use.is_global = True


def _only_imports(scope: Scope, name: str) -> tuple[ImportSite, ...]:
    sites = scope.imports.get(name, [])
    return tuple(sites) if sites and len(sites) == scope.counts.get(name) else ()
