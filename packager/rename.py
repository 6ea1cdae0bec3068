"""One flat name for everything kept; renamed only where two things want the same name.

A variable that has to give way is renamed (``name`` becomes ``module_name``). A class, or a
function whose name can be seen by the program (it is decorated, or used as a value), keeps its
``def`` line and is bound to the new name right after it, so that ``__name__``, ``__qualname__``
and the code object's name stay what they were.
"""

from __future__ import annotations

import ast
import keyword
from collections import defaultdict

from kernel_lint.packager.graph import MODEL, Program
from kernel_lint.packager.items import Assign, Item, Loader, Namespace, Prelude, Statement
from kernel_lint.packager.known import BUILTINS
from kernel_lint.packager.load import type_only
from kernel_lint.packager.model import ENTRY, Ext, Mod, Scope, Sym, Use
from kernel_lint.packager.shake import Kept
from kernel_lint.records import dataclass, field

Entity = Sym | Ext | Mod


@dataclass(slots=True)
class Names:
    """The outcome: the flat name of each entity, and which of them are bound after their ``def``."""

    flat: dict[Entity, str] = field(default_factory=dict)
    bound_after: set[Sym] = field(default_factory=set)
    restored: set[str] = field(default_factory=set)
    loaders: dict[str, str] = field(default_factory=dict)
    builtin_reads: set[int] = field(default_factory=set)

    def of(self, entity: Entity) -> str:
        """Return the flat name of an entity."""
        return self.flat[entity]

    def renames(self) -> dict[str, str]:
        """Return what was renamed: ``module.name`` to the new name."""
        return {
            f"{entity.module}.{entity.name}": name
            for entity, name in self.flat.items()
            if isinstance(entity, Sym) and entity.name != name
        }


def builtin_reads(program: Program, kept: Kept) -> set[int]:
    """Return the uses that still mean the builtin, as they run before the module binds the name."""
    found = set()
    for use in kept.uses:
        target, depth = program.resolve_use(use)
        if (
            depth
            or not isinstance(target, Sym)
            or target.name not in BUILTINS
            or use.deferred
            or use.ctx != "load"
        ):
            continue
        if target.module != use.unit.module.name:
            continue
        first = program.effective(use.unit.module, target.name)[0]
        if use.seq < first.seq and not first.unit.conditional:
            found.add(id(use))
            kept.builtins.add(target.name)
    return found


class Namer:
    """Chooses the names."""

    def __init__(self, program: Program, kept: Kept, items: list[Item], loaders: dict[str, Loader]) -> None:
        self.program = program
        self.kept = kept
        self.names = Names(builtin_reads=builtin_reads(program, kept))
        self.reserved = set(kept.builtins) | set(keyword.kwlist)
        if all(isinstance(entity, Ext) or entity.module == ENTRY for entity in self._all()):
            # One module alone: its names already mean what they mean, builtins that it replaces included.
            self.reserved = set(keyword.kwlist)
        self.taken: set[str] = set()
        self.identifiers = set().union(*(program.modules[name].identifiers for name in kept.modules))
        self.uses: defaultdict[Entity, list[Use]] = defaultdict(list)
        for use in kept.uses:
            target, _ = program.resolve_use(use)
            if isinstance(target, Entity) and id(use) not in self.names.builtin_reads:
                self.uses[target].append(use)
        self.positions: defaultdict[Entity, list[float]] = defaultdict(list)
        self._position = 0
        self.assigned: set[Sym] = set()
        self.read_in: defaultdict[Entity, list[Scope]] = defaultdict(list)
        self._imported_values()
        self._number(items, late=False)
        self._loaders = loaders

    def run(self) -> Names:
        """Return the names of all kept entities."""
        groups: dict[str, list[Entity]] = {}
        for entity in self._entities():
            groups.setdefault(self._wanted(entity), []).append(entity)
        losers: list[Entity] = []
        for name, group in groups.items():
            holder = self._holder(name, group)
            if holder is not None:
                self.names.flat[holder] = name
                self.taken.add(name)
            losers.extend(entity for entity in group if entity is not holder)
        self.taken |= self.reserved
        for entity in losers:
            wanted = self._wanted(entity)
            if isinstance(entity, Sym) and self._observable(entity):
                self.names.bound_after.add(entity)
                if wanted in self.reserved:
                    self.names.restored.add(wanted)
                self.taken.add(wanted)
        for entity in losers:
            self.names.flat[entity] = self._fresh(entity)
        for name in self._loaders:
            self.names.loaders[name] = self._free(
                ["import_" + name.rpartition(".")[2], "import_" + _joined(name)]
            )
        return self.names

    # -- order -----------------------------------------------------------------------

    def _number(self, items: list[Item], late: bool) -> None:
        for item in items:
            self._position += 1
            here = float("inf") if late else float(self._position)
            if isinstance(item, Statement):
                assert item.unit is not None
                for binding in item.unit.bindings:
                    self.positions[Sym(item.unit.module.name, binding.name)].append(here)
                for block in item.blocks.values():
                    self._number(block, late)
            elif isinstance(item, (Assign, Prelude)):
                self.positions[item.symbol].append(here)
                if isinstance(item, Assign) and isinstance(item.target, Sym):
                    self.assigned.add(item.target)
            elif isinstance(item, Namespace):
                self.positions[Mod(item.module)].append(here)
            elif isinstance(item, Loader):
                self._number(item.items, late=True)

    def _imported_values(self) -> None:
        """Note what imports inside functions and classes bind to names that stay, and where."""
        for name in self.kept.modules:
            for site in self.program.modules[name].sites:
                inside = site.scope.kind != "module" and not site.star and not type_only(site)
                if inside and self.program.is_local(site) and self.program.needs_binding(site):
                    target = self.program.site_target(site)
                    if isinstance(target, Entity):
                        self.read_in[target].append(site.scope)
                    if isinstance(target, Sym):
                        self.assigned.add(target)

    def _all(self) -> list[Entity]:
        return [*self.kept.symbols, *self.kept.externals, *map(Mod, self.kept.namespaces)]

    def _entities(self) -> list[Entity]:
        entities = self._all()
        ranks = {name: index for index, name in enumerate(self.kept.modules)}

        def rank(entity: Entity) -> tuple[int, float, str]:
            if isinstance(entity, Sym) and entity.name == MODEL and self.program.has_model:
                model = self.program.resolve_name(ENTRY, MODEL)
                if entity == model:
                    return (-2, 0.0, "")
            if isinstance(entity, Ext):
                dotted = entity.attr is None and entity.alias == entity.module.partition(".")[0]
                return (-1 if dotted else 0, -1.0, entity.alias)
            return (ranks.get(entity.module, 0), min(self.positions[entity], default=0.0), "")

        return sorted(dict.fromkeys(entities), key=rank)

    def _wanted(self, entity: Entity) -> str:
        if isinstance(entity, Ext):
            return entity.alias
        if isinstance(entity, Mod):
            return self.program.modules[entity.module].last
        if entity == self.program.resolve_name(ENTRY, MODEL) and self.program.has_model:
            return MODEL
        return entity.name

    # -- who keeps a name --------------------------------------------------------------

    def _holder(self, name: str, group: list[Entity]) -> Entity | None:
        """Return the entity of a group that may have the plain name, None where none may."""
        if name in self.reserved:
            return None
        definitions = [entity for entity in group if isinstance(entity, Sym) and self._observable(entity)]
        # Where each is bound for the last time, the two last ones of them: one may be the candidate itself.
        last = sorted(
            ((max(self.positions[entity], default=0.0), entity) for entity in definitions),
            key=lambda item: -item[0],
        )[:2]
        for candidate in group:
            if self._captured(candidate, name) and not (name == MODEL and self.program.has_model):
                continue
            first = min(self.positions[candidate], default=-1.0)
            # What a loader binds is bound at a time that is not known: nothing may pass through its name.
            ready = first != float("inf")
            if all(entity is candidate or (ready and position < first) for position, entity in last):
                return candidate
        return None

    def _observable(self, symbol: Sym) -> bool:
        """Whether the program can see the name that a definition was given."""
        module = self.program.modules[symbol.module]
        bindings = self.program.effective(module, symbol.name)
        definitions = [binding for binding in bindings if binding.kind in ("def", "class")]
        if not definitions or any(binding.deferred for binding in definitions):
            return False
        if any(binding.kind == "class" or binding.node.decorator_list for binding in definitions):  # type: ignore[attr-defined]
            return True
        if symbol.module in self.kept.namespaces or symbol in self.assigned:
            return True
        return any(
            use.call is None or self.program.resolve_use(use)[1] != len(use.links)
            for use in self.uses[symbol]
        )

    def _captured(self, entity: Entity, name: str) -> bool:
        """Whether writing ``name`` for the entity would at some place mean a local variable."""
        for scope in self.read_in[entity]:
            if any(name in inner.bound for inner in scope.chain()):
                return True
        for use in self.uses[entity]:
            depth = self.program.resolve_use(use)[1]
            if use.text == name and not depth and not use.sites:
                continue
            for scope in use.scope.chain():
                if name not in scope.bound or (scope.kind == "class" and scope is not use.scope):
                    continue
                if not self.program.elided(scope, name):
                    return True
        return False

    # -- new names ---------------------------------------------------------------------

    def _fresh(self, entity: Entity) -> str:
        wanted = self._wanted(entity)
        if isinstance(entity, Mod):
            return self._free([f"{wanted}_module", f"{_joined(entity.module)}_module"])
        if isinstance(entity, Ext):
            owners = [entity.module.rpartition(".")[2], _joined(entity.module)]
        else:
            owners = [self.program.modules[entity.module].last, _joined(entity.module)]
        return self._free([_qualified(owner, wanted) for owner in owners])

    def _free(self, candidates: list[str]) -> str:
        candidates += [f"{candidates[-1]}_{number}" for number in range(2, 1000)]
        for name in candidates:
            if name not in self.identifiers and name not in self.taken and name not in BUILTINS:
                self.taken.add(name)
                return name
        raise AssertionError("no free name")


def _joined(module: str) -> str:
    return module.strip("_").replace(".", "_")


def _qualified(owner: str, name: str) -> str:
    """Return ``name`` prefixed with its module's name, in the style of the name."""
    bare = name.strip("_") or "value"
    lead = "_" if name.startswith("_") and not name.startswith("__") else ""
    owner = owner.strip("_") or "module"
    if not owner.isidentifier():
        owner = "".join(char if char.isalnum() else "_" for char in owner)
        owner = owner if owner.isidentifier() else "m_" + owner
    owner = owner.upper() if bare.isupper() and len(bare) > 1 else owner
    return f"{lead}{owner}_{bare}"


def uses_in(kept: Kept) -> dict[int, list[Use]]:
    """Return the kept uses by the id of their unit."""
    found: defaultdict[int, list[Use]] = defaultdict(list)
    for use in kept.uses:
        found[id(use.unit)].append(use)
    return found


def has_nodes(node: ast.AST, kinds: tuple[type[ast.AST], ...]) -> bool:
    """Whether any node of the given kinds is inside ``node``."""
    return any(isinstance(inner, kinds) for inner in ast.walk(node))
