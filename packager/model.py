"""The packager's facts about one module: scopes, uses of names, bindings, imports, units."""

from __future__ import annotations

import ast
import operator
from pathlib import Path

from kernel_lint import TYPE_CHECKING
from kernel_lint.records import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Iterator

ENTRY = "__main__"


# The three that are looked up all the time are tuples, which hash and compare as fast as strings; the
# first item tells them apart.


class Sym(tuple[str, str, str]):
    """A variable of a local module."""

    __slots__ = ()

    def __new__(cls, module: str, name: str) -> Sym:
        return tuple.__new__(cls, ("variable", module, name))

    module: str = property(operator.itemgetter(1))  # type: ignore[assignment]
    name: str = property(operator.itemgetter(2))  # type: ignore[assignment]


class Mod(tuple[str, str]):
    """A local module itself."""

    __slots__ = ()

    def __new__(cls, module: str) -> Mod:
        return tuple.__new__(cls, ("module", module))

    module: str = property(operator.itemgetter(1))  # type: ignore[assignment]


class Ext(tuple[str, str, "str | None", str]):
    """What an import of installed code binds: module ``module``, or its attribute ``attr``.

    ``alias`` is the name that the author gave it.
    """

    __slots__ = ()

    def __new__(cls, module: str, attr: str | None, alias: str) -> Ext:
        return tuple.__new__(cls, ("installed", module, attr, alias))

    module: str = property(operator.itemgetter(1))  # type: ignore[assignment]
    attr: str | None = property(operator.itemgetter(2))  # type: ignore[assignment]
    alias: str = property(operator.itemgetter(3))  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class Const:
    """A value known as source text, such as a module's ``__name__``."""

    text: str


@dataclass(frozen=True, slots=True)
class Dynamic:
    """An attribute that the module-level function ``__getattr__`` of a local module answers."""

    module: str
    name: str


@dataclass(frozen=True, slots=True)
class Missing:
    """A local name that does not exist: reaching it raises ``error`` with ``message``."""

    error: str
    message: str


Target = Sym | Mod | Ext | Const | Dynamic | Missing


@dataclass(eq=False, slots=True)
class Scope:
    """One lexical scope. ``kind`` is module, class, function or comprehension."""

    kind: str
    parent: Scope | None
    bound: dict[str, int] = field(default_factory=dict)
    globals: set[str] = field(default_factory=set)
    nonlocals: set[str] = field(default_factory=set)
    # Names that imports bind here, with how often anything binds them.
    imports: dict[str, list[ImportSite]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    # Names of a function that something but an import binds: they mean local variables.
    plain: set[str] = field(default_factory=set)
    owner: ast.AST | None = None
    # What names mean in it, as far as they have been looked up.
    meanings: dict[str, bool | tuple[ImportSite, ...]] = field(default_factory=dict)

    def chain(self) -> Iterator[Scope]:
        """Yield this scope and those around it, innermost first, the module's excluded."""
        scope: Scope | None = self
        while scope is not None and scope.kind != "module":
            yield scope
            scope = scope.parent


@dataclass(frozen=True, slots=True)
class Link:
    """One step ``.name`` (or ``getattr(x, "name")``) from a used name; ``node`` spans all up to it."""

    name: str
    node: ast.expr
    ctx: str


@dataclass(eq=False, slots=True)
class Use:
    """One occurrence of a name that may mean a module-level variable or an import."""

    name: str
    node: ast.Name | ast.Call | ast.Subscript
    ctx: str
    scope: Scope
    deferred: bool
    annotation: bool
    seq: int
    links: tuple[Link, ...]
    unit: Unit
    # The f-string or string annotation in which the name stands; its own position is not to be trusted.
    string: ast.expr | None = None
    # The call whose function this is, and whether the use only tells a type apart (isinstance, bases).
    call: ast.Call | None = None
    # The import statements that bind the name in a function's scope.
    sites: tuple[ImportSite, ...] = ()
    is_global: bool = False

    @property
    def text(self) -> str:
        """The name as it stands in the source (not mangled)."""
        return self.node.id if isinstance(self.node, ast.Name) else self.name


@dataclass(eq=False, slots=True)
class ImportSite:
    """One name of one import statement. ``star`` is true for ``from m import *``."""

    node: ast.Import | ast.ImportFrom
    alias: ast.alias
    scope: Scope
    unit: Unit
    deferred: bool
    module: str | None  # absolute; None beyond the top-level package
    seq: int

    @property
    def star(self) -> bool:
        """Whether this is ``from m import *``."""
        return self.alias.name == "*"

    @property
    def local_name(self) -> str:
        """The name that the import binds."""
        if self.alias.asname:
            return self.alias.asname
        return self.alias.name.partition(".")[0] if isinstance(self.node, ast.Import) else self.alias.name


@dataclass(eq=False, slots=True)
class Binding:
    """One place that binds a module-level name."""

    name: str
    kind: str  # def, class, assign, import, except, global, store, del, star
    node: ast.AST
    unit: Unit
    seq: int
    deferred: bool
    site: ImportSite | None = None


@dataclass(eq=False, slots=True)
class Unit:
    """A module-level statement that is kept or dropped as a whole.

    The blocks of a top-level ``if`` or ``try`` hold units of their own: ``blocks`` maps
    ``body``, ``orelse``, ``finalbody`` and ``handler N`` to them; such a unit itself stands
    for the header only.
    """

    module: Module
    node: ast.stmt
    parent: Unit | None
    block: str
    index: int
    blocks: dict[str, list[Unit]] = field(default_factory=dict)
    uses: list[Use] = field(default_factory=list)
    bindings: list[Binding] = field(default_factory=list)
    imports: list[ImportSite] = field(default_factory=list)
    is_import: bool = field(init=False)  # whether the statement is an import

    def __post_init__(self) -> None:
        self.is_import = isinstance(self.node, (ast.Import, ast.ImportFrom))

    @property
    def conditional(self) -> bool:
        """Whether the statement may not run."""
        return self.parent is not None

    @property
    def line(self) -> int:
        """The first line, decorators included."""
        decorators = getattr(self.node, "decorator_list", None)
        return min(self.node.lineno, decorators[0].lineno) if decorators else self.node.lineno

    def walk(self) -> Iterator[Unit]:
        """Yield this unit and those in its blocks."""
        yield self
        for block in self.blocks.values():
            for child in block:
                yield from child.walk()


@dataclass(eq=False, slots=True)
class Module:
    """One parsed local module."""

    name: str
    path: Path | None
    package: str
    is_package: bool
    text: str
    tree: ast.Module
    scope: Scope
    lines: list[str] = field(default_factory=list)
    units: list[Unit] = field(default_factory=list)
    flat: list[Unit] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    sites: list[ImportSite] = field(default_factory=list)
    stores: list[Use] = field(default_factory=list)
    identifiers: set[str] = field(default_factory=set)
    # Attributes stored into objects that the text does not name as self.
    stored_attributes: set[str] = field(default_factory=set)
    future_annotations: bool = False
    doc: str | None = None

    @property
    def last(self) -> str:
        """The last component of the name, for naming things after the module."""
        return self.path.stem if self.name == ENTRY and self.path else self.name.rpartition(".")[2]

    def all_units(self) -> list[Unit]:
        """Return all units, those in blocks included, in source order."""
        if not self.flat:
            self.flat = [inner for unit in self.units for inner in (unit.walk() if unit.blocks else (unit,))]
        return self.flat
