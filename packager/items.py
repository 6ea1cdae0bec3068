"""What the plan is made of: the pieces of the result, in order."""

from __future__ import annotations

from kernel_lint.packager.model import Ext, Missing, Sym, Target, Unit
from kernel_lint.records import dataclass


@dataclass(slots=True, eq=False)
class Item:
    """Something to write; ``unit`` is the statement that it comes from."""

    unit: Unit | None


class Statement(Item):
    """A kept statement; the blocks of a kept ``if`` or ``try``."""

    __slots__ = ("blocks",)

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self.blocks: dict[str, list[Item]] = {}


@dataclass(slots=True, eq=False)
class Assign(Item):
    """``symbol = target``: an import that has to stay a variable of its own."""

    symbol: Sym
    target: Target


@dataclass(slots=True, eq=False)
class Prelude(Item):
    """``renamed = builtin``, before a variable that may or may not replace a builtin."""

    symbol: Sym


@dataclass(slots=True, eq=False)
class Raise(Item):
    """The error that an import of something missing raises."""

    missing: Missing


@dataclass(slots=True, eq=False)
class Namespace(Item):
    """A module used as a value. ``live`` reads and writes through to the variables."""

    module: str
    names: list[str]
    live: bool
    cyclic: bool = False


@dataclass(slots=True, eq=False)
class Place(Item):
    """Imports of installed code that must not move to the top."""

    externals: list[Ext]


@dataclass(slots=True, eq=False)
class Loader(Item):
    """The function that runs a module's statements at the first call."""

    module: str
    items: list[Item]
    cyclic: bool


@dataclass(slots=True, eq=False)
class Load(Item):
    """A call of a :class:`Loader`."""

    module: str
