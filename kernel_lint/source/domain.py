"""The abstract values: what an expression may be, as far as the text tells.

A value is one of a small set of records that nobody changes (frozen ones cost three times as much
to make, and many are made). ``Qual`` is the important one: a thing
that is reached by a dotted path from an imported module or from the builtins, written
with ``()`` for a call and ``[]`` for a subscript on the way:
``torch.softmax``, ``builtins.print``, ``pathlib.Path().read_text``.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import lru_cache
from operator import itemgetter

from kernel_lint import TYPE_CHECKING
from kernel_lint.records import dataclass
from kernel_lint.source.scopes import FunctionNode, Scope

if TYPE_CHECKING:
    from typing import Any, TypeAlias


@dataclass(slots=True, unsafe_hash=True)
class Qual:
    """An object outside the module, by the dotted path that reaches it."""

    name: str

    # The most often compared of all records: its own methods take half the time of the general ones.
    def __eq__(self, other: object) -> bool:
        return other.__class__ is Qual and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)


_PLAIN_CONSTANTS = frozenset({str, bytes, int, bool, type(None), type(...)})


class Const:
    """A constant that the text spells out or that folding worked out.

    Equal only to a constant of the same type, so that ``True`` is not ``1``.
    """

    __slots__ = ("_key", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        # Lists cannot be hashed, and 0.0 equals -0.0: what they look like tells them apart.
        kind = value.__class__
        self._key = value if kind in _PLAIN_CONSTANTS else repr(value)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Const)
            and other.value.__class__ is self.value.__class__
            and bool(other._key == self._key)
        )

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"Const({self.value!r})"


@dataclass(slots=True, unsafe_hash=True)
class Func:
    """A function or lambda of this module; ``owner`` is what it is bound to, if anything."""

    node: FunctionNode
    owner: Value | None = None

    def __hash__(self) -> int:
        return hash(self.node)


@dataclass(slots=True, unsafe_hash=True)
class Class:
    """A class of this module."""

    node: ast.ClassDef


@dataclass(slots=True, unsafe_hash=True)
class Instance:
    """An object made by calling a class of this module (or ``self`` in its methods)."""

    cls: ast.ClassDef


@dataclass(slots=True, unsafe_hash=True)
class Container:
    """A list, tuple, set or dict display or comprehension of this module."""

    node: ast.expr

    def __hash__(self) -> int:
        return hash(self.node)


@dataclass(slots=True, unsafe_hash=True)
class Param:
    """A parameter of a function whose arguments are not all known."""

    function: FunctionNode
    name: str

    def __hash__(self) -> int:
        return hash(self.function) ^ hash(self.name)


@dataclass(slots=True, unsafe_hash=True)
class Attr:
    """An attribute (or, for ``()`` and ``[]``, a call or an item) of a value that is no Qual."""

    base: Value
    name: str

    def __hash__(self) -> int:
        return hash((self.base, self.name))


@dataclass(slots=True, unsafe_hash=True)
class Namespace:
    """The ``__dict__`` of ``base``; of the module itself, or of a scope, for ``globals()``/``locals()``."""

    base: Value | None
    scope: Scope | None = None


@dataclass(slots=True, unsafe_hash=True)
class Partial:
    """``functools.partial(function, ...)``: calling it calls ``function``; ``call`` made it."""

    function: Value
    call: ast.Call


@dataclass(slots=True, unsafe_hash=True)
class Getter:
    """``operator.attrgetter`` (kind ``attr``), ``itemgetter`` (``item``) or ``methodcaller`` (``method``)."""

    kind: str
    name: str


@dataclass(slots=True, unsafe_hash=True)
class Super:
    """``super()`` in a method of ``cls``."""

    cls: ast.ClassDef


@dataclass(slots=True, unsafe_hash=True)
class Unknown:
    """Anything at all."""


Value: TypeAlias = (
    Qual
    | Const
    | Func
    | Class
    | Instance
    | Container
    | Param
    | Attr
    | Namespace
    | Partial
    | Getter
    | Super
    | Unknown
)
Values: TypeAlias = frozenset[Value]

UNKNOWN: Values = frozenset({Unknown()})
NOTHING: Values = frozenset()
# A set that grows beyond this says nothing precise any more; the rest becomes unknown.
MAX_VALUES = 24


@lru_cache(maxsize=16384)
def outside(path: str) -> Values:
    """Return the set of the one thing that a dotted path reaches; the same set for the same path."""
    return frozenset({Qual(path)})


def quals(values: Values) -> list[str]:
    """Return the dotted paths among ``values``, sorted."""
    if len(values) == 1:
        (only,) = values
        return [only.name] if only.__class__ is Qual else []
    return sorted(value.name for value in values if isinstance(value, Qual))


def in_order(values: Values) -> list[Value]:
    """Return the values in an order that is the same in every run."""
    return list(values) if len(values) < 2 else sorted(values, key=repr)


def constants(values: Values) -> list[Any]:
    """Return the constants among ``values``."""
    return [value.value for value in values if isinstance(value, Const)]


def union(parts: list[Values]) -> Values:
    """Join value sets, capped at MAX_VALUES."""
    if len(parts) == 1:
        return parts[0]
    joined = NOTHING.union(*parts)
    if len(joined) > MAX_VALUES:
        # The same in every run, and of each module that paths begin in some: a rule asks for few of them.
        turns: defaultdict[str, int] = defaultdict(int)
        queue: list[tuple[int, int, Value]] = []
        for index, value in enumerate(sorted(joined, key=_rank)):
            root = value.name.partition(".")[0] if isinstance(value, Qual) else type(value).__name__
            queue.append((turns[root], index, value))
            turns[root] += 1
        kept = [value for _, _, value in sorted(queue, key=itemgetter(0, 1))]
        return frozenset(kept[:MAX_VALUES]) | UNKNOWN
    return joined


def _rank(value: Any) -> tuple[bool, str, int, int, int, str]:
    """Order values so that the same are kept in every run: precise ones first, then by text and place.

    Short paths come before long ones, which mostly grew out of them around a loop.
    """
    kind = value.__class__
    if kind is Qual:
        return False, "Qual", 0, 0, len(value.name), value.name
    if kind is Attr or kind is Const:
        text = repr(value.value) if kind is Const else f"{_rank(value.base)[-1]}.{value.name}"
        return True, kind.__name__, 0, 0, len(text), text
    node = getattr(value, "node", None) or getattr(value, "function", None) or getattr(value, "cls", None)
    text = getattr(value, "name", "")
    vague = kind is not Func and kind is not Class
    line, column = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
    return vague, kind.__name__, line, column, len(text), text
