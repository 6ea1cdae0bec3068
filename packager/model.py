"""The packager's facts about one module: scopes, uses of names, bindings, imports, units."""

from __future__ import annotations

import ast
import operator
from pathlib import Path

from kernel_lint import TYPE_CHECKING
from kernel_lint.records import dataclass

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


# Of the classes below every run makes dozens: they spell out what ``dataclass`` would have to compile first.


class Scope:
    """One lexical scope. ``kind`` is module, class, function or comprehension."""

    __slots__ = (
        *("kind", "parent", "owner", "bound", "globals", "nonlocals", "imports", "counts", "plain"),
        "meanings",
    )

    def __init__(self, kind: str, parent: Scope | None, owner: ast.AST | None = None) -> None:
        self.kind = kind
        self.parent = parent
        self.owner = owner
        self.bound: dict[str, int] = {}
        self.globals: set[str] = set()
        self.nonlocals: set[str] = set()
        # Names that imports bind here, with how often anything binds them.
        self.imports: dict[str, list[ImportSite]] = {}
        self.counts: dict[str, int] = {}
        # Names of a function that something but an import binds: they mean local variables.
        self.plain: set[str] = set()
        # What names mean in it, as far as they have been looked up.
        self.meanings: dict[str, bool | tuple[ImportSite, ...]] = {}

    def chain(self) -> Iterator[Scope]:
        """Yield this scope and those around it, innermost first, the module's excluded."""
        scope: Scope | None = self
        while scope is not None and scope.kind != "module":
            yield scope
            scope = scope.parent


class Link:
    """One step ``.name`` (or ``getattr(x, "name")``) from a used name; ``node`` spans all up to it."""

    __slots__ = ("ctx", "name", "node")

    def __init__(self, name: str, node: ast.expr, ctx: str) -> None:
        self.name = name
        self.node = node
        self.ctx = ctx


class Use:
    """One occurrence of a name that may mean a module-level variable or an import."""

    __slots__ = (
        *("name", "node", "ctx", "scope", "deferred", "annotation", "seq", "links", "unit", "string"),
        *("call", "sites", "is_global"),
    )

    def __init__(
        self,
        name: str,
        node: ast.Name | ast.Call | ast.Subscript,
        ctx: str,
        scope: Scope,
        deferred: bool,
        annotation: bool,
        seq: int,
        links: tuple[Link, ...],
        unit: Unit,
        string: ast.expr | None,
        call: ast.Call | None,
    ) -> None:
        self.name = name
        self.node = node
        self.ctx = ctx
        self.scope = scope
        self.deferred = deferred
        self.annotation = annotation
        self.seq = seq
        self.links = links
        self.unit = unit
        # The f-string or string annotation in which the name stands; its own position is not to be trusted.
        self.string = string
        # The call whose function this is, and whether the use only tells a type apart (isinstance, bases).
        self.call = call
        # The import statements that bind the name in a function's scope.
        self.sites: tuple[ImportSite, ...] = ()
        self.is_global = False

    @property
    def text(self) -> str:
        """The name as it stands in the source (not mangled)."""
        return self.node.id if isinstance(self.node, ast.Name) else self.name


class ImportSite:
    """One name of one import statement. ``star`` is true for ``from m import *``."""

    __slots__ = ("alias", "deferred", "module", "node", "scope", "seq", "unit")

    def __init__(
        self,
        node: ast.Import | ast.ImportFrom,
        alias: ast.alias,
        scope: Scope,
        unit: Unit,
        deferred: bool,
        module: str | None,
        seq: int,
    ) -> None:
        self.node = node
        self.alias = alias
        self.scope = scope
        self.unit = unit
        self.deferred = deferred
        self.module = module  # absolute; None beyond the top-level package
        self.seq = seq

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


class Binding:
    """One place that binds a module-level name.

    ``kind`` is def, class, assign, import, except, global, store, del or star.
    """

    __slots__ = ("deferred", "kind", "name", "node", "seq", "site", "unit")

    def __init__(
        self,
        name: str,
        kind: str,
        node: ast.AST,
        unit: Unit,
        seq: int,
        deferred: bool,
        site: ImportSite | None,
    ) -> None:
        self.name = name
        self.kind = kind
        self.node = node
        self.unit = unit
        self.seq = seq
        self.deferred = deferred
        self.site = site


class Unit:
    """A module-level statement that is kept or dropped as a whole.

    The blocks of a top-level ``if`` or ``try`` hold units of their own: ``blocks`` maps
    ``body``, ``orelse``, ``finalbody`` and ``handler N`` to them; such a unit itself stands
    for the header only.
    """

    __slots__ = (
        *("module", "node", "parent", "block", "index", "blocks", "uses", "bindings", "imports"),
        "is_import",
    )

    def __init__(self, module: Module, node: ast.stmt, parent: Unit | None, block: str, index: int) -> None:
        self.module = module
        self.node = node
        self.parent = parent
        self.block = block
        self.index = index
        self.blocks: dict[str, list[Unit]] = {}
        self.uses: list[Use] = []
        self.bindings: list[Binding] = []
        self.imports: list[ImportSite] = []
        self.is_import = isinstance(node, (ast.Import, ast.ImportFrom))

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


class Module:
    """One parsed local module."""

    __slots__ = (
        *("name", "path", "package", "is_package", "text", "tree", "scope", "lines", "units", "flat"),
        *("uses", "bindings", "sites", "stores", "identifiers", "stored_attributes"),
        *("future_annotations", "doc"),
    )

    def __init__(
        self, name: str, path: Path | None, package: str, is_package: bool, text: str, tree: ast.Module
    ) -> None:
        self.name = name
        self.path = path
        self.package = package
        self.is_package = is_package
        self.text = text
        self.tree = tree
        self.scope = Scope("module", None)
        self.lines: list[str] = []
        self.units: list[Unit] = []
        self.flat: list[Unit] = []
        self.uses: list[Use] = []
        self.bindings: dict[str, list[Binding]] = {}
        self.sites: list[ImportSite] = []
        self.stores: list[Use] = []
        self.identifiers: set[str] = set()
        # Attributes stored into objects that the text does not name as self.
        self.stored_attributes: set[str] = set()
        self.future_annotations = False
        self.doc: str | None = None

    @property
    def last(self) -> str:
        """The last component of the name, for naming things after the module."""
        return self.path.stem if self.name == ENTRY and self.path else self.name.rpartition(".")[2]

    def all_units(self) -> list[Unit]:
        """Return all units, those in blocks included, in source order."""
        if not self.flat:
            self.flat = [inner for unit in self.units for inner in (unit.walk() if unit.blocks else (unit,))]
        return self.flat
