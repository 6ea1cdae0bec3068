"""Slotted dataclasses that cost next to nothing to define, and properties that are worked out once.

:func:`dataclasses.dataclass` compiles up to a dozen methods for each class while its module is
imported, about half a millisecond a class, and imports :mod:`inspect` to do so. The linter
has some forty such classes and makes objects of a few of them on one run. Here the methods
compare and print through what all classes share, and ``__init__`` is compiled when the first
object is made. Type checkers see the standard library's own functions; what is made here
answers :func:`dataclasses.fields`, ``asdict`` and ``replace`` too.
"""

from __future__ import annotations

import operator

# Type checkers take this for true; importing typing for it would cost as much as all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_MISSING: Any = type("_Missing", (), {"__repr__": lambda self: "<no default>"})()
_FEW = 4  # objects of a class that are made without compiling how
_ORDER = ("__lt__", "__le__", "__gt__", "__ge__")


class Field:
    """One field: its default or what makes it, and whether it is passed, compared and shown."""

    __slots__ = ("annotation", "compare", "default", "default_factory", "init", "name", "repr")

    def __init__(
        self,
        default: Any = _MISSING,
        default_factory: Any = _MISSING,
        init: bool = True,
        compare: bool = True,
        repr: bool = True,  # noqa: A002
    ) -> None:
        self.default, self.default_factory = default, default_factory
        self.init, self.compare, self.repr = init, compare, repr
        self.name, self.annotation = "", ""


def _field(**given: Any) -> Any:
    return Field(**given)


def _dataclass(
    *, slots: bool, frozen: bool = False, order: bool = False, eq: bool = True, unsafe_hash: bool = False
) -> Callable[[type], type]:
    """Return a decorator that turns a class with annotations into one with those fields."""
    if not slots:
        raise TypeError("only slots=True is made here; take dataclasses.dataclass for the rest")

    def decorate(cls: type) -> type:
        known: dict[str, Field] = {}
        for base in reversed(cls.__mro__[1:]):
            known.update(getattr(base, "__record_fields__", {}))
        own = _own_fields(cls)
        added = tuple(name for name in own if name not in known)
        known.update(own)
        skip = {"__dict__", "__weakref__", *own}
        space = {name: value for name, value in vars(cls).items() if name not in skip}
        space.update(__slots__=added, __record_fields__=known, __dataclass_fields__=_StandardFields())
        space["__match_args__"] = tuple(name for name, item in known.items() if item.init)
        # Set on the class once it is there, each of them would have it look through its slots again.
        for name, method in _methods(known, frozen, order, eq, unsafe_hash).items():
            if name not in space or (name == "__hash__" and space[name] is None):
                space[name] = method
        made = type(cls)(cls.__name__, cls.__bases__, space)
        made.__qualname__ = cls.__qualname__
        if "__init__" not in space:
            made.__init__ = _late_init(made, frozen)  # type: ignore[misc]
        return made

    return decorate


def _own_fields(cls: type) -> dict[str, Field]:
    own = {}
    for name, annotation in vars(cls).get("__annotations__", {}).items():
        if str(annotation).startswith(("ClassVar", "typing.ClassVar")):
            continue
        value = vars(cls).get(name, _MISSING)
        if isinstance(value, (list, dict, set)):
            raise ValueError(f"{cls.__name__}.{name}: use field(default_factory=...) for a mutable default")
        item = value if isinstance(value, Field) else Field(value)
        item.name, item.annotation = name, annotation
        own[name] = item
    return own


def _methods(
    known: dict[str, Field], frozen: bool, order: bool, eq: bool, unsafe_hash: bool
) -> dict[str, Any]:
    """Return what a class with those fields does, where it does not say so itself."""
    methods: dict[str, Any] = {"__repr__": _repr}
    compared = [item.name for item in known.values() if item.compare]
    key: Callable[[Any], Any] = operator.attrgetter(*compared) if compared else lambda _: ()
    if eq:
        methods["__eq__"] = _comparison(key, "__eq__")
        methods["__hash__"] = (lambda self: hash(key(self))) if frozen or unsafe_hash else None
    elif unsafe_hash:
        methods["__hash__"] = lambda self: hash(key(self))
    if order:
        for name in _ORDER:
            methods[name] = _comparison(key, name)
    if frozen:
        methods.update(__setattr__=_refuse_set, __delattr__=_refuse_delete, __reduce__=_reduce)
    return methods


def _comparison(key: Callable[[Any], Any], name: str) -> Callable[[Any, Any], Any]:
    compare = getattr(operator, name)

    def method(self: Any, other: Any) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return compare(key(self), key(other))

    return method


def _late_init(cls: type, frozen: bool) -> Callable[..., None]:
    """Return an ``__init__`` that replaces itself by a compiled one where it pays.

    Compiling takes as long as making some fifty objects field by field, and of many classes one run
    makes one object.
    """
    left = _FEW

    def __init__(self: Any, *arguments: Any, **keywords: Any) -> None:  # noqa: N807
        nonlocal left
        left -= 1
        if left >= 0 and _set_all(self, cls, arguments, keywords):
            return
        made = _compiled_init(cls, frozen)
        cls.__init__ = made  # type: ignore[misc]
        made(self, *arguments, **keywords)

    return __init__


def _set_all(record: Any, cls: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    """Set the fields of a new object one by one; False where the arguments do not fit or more is to do."""
    given = dict(zip(cls.__match_args__, arguments, strict=False), **keywords)
    if len(given) != len(arguments) + len(keywords) or hasattr(cls, "__post_init__"):
        return False
    for name, item in cls.__record_fields__.items():
        if item.init and name in given:
            value = given.pop(name)
        elif item.default_factory is not _MISSING:
            value = item.default_factory()
        elif item.default is not _MISSING:
            value = item.default
        elif item.init:
            return False
        else:
            continue
        getattr(cls, name).__set__(record, value)  # as __setattr__ may refuse
    return not given


def _compiled_init(cls: type, frozen: bool) -> Callable[..., None]:
    names: dict[str, Any] = {"_missing": _MISSING}
    parameters, lines = ["self"], []
    for item in cls.__record_fields__.values():  # type: ignore[attr-defined]
        name, value, fresh = item.name, item.name, ""
        if item.default_factory is not _MISSING:
            names[f"_make_{name}"], fresh = item.default_factory, f"_make_{name}()"
        elif item.default is not _MISSING:
            names[f"_default_{name}"], fresh = item.default, f"_default_{name}"
        if item.init:
            optional = "_missing" if fresh.startswith("_make") else fresh
            parameters.append(f"{name}={optional}" if fresh else name)
            value = f"{fresh} if {name} is _missing else {name}" if optional == "_missing" else name
        elif fresh:
            value = fresh
        else:
            continue
        if frozen:
            # The slot's own setter: __setattr__ refuses, and object.__setattr__ would look the slot up again.
            names[f"_set_{name}"] = getattr(cls, name).__set__
            lines.append(f" _set_{name}(self, {value})")
        else:
            lines.append(f" self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append(" self.__post_init__()")
    text = f"def __init__({', '.join(parameters)}):\n" + ("\n".join(lines) or " pass")
    exec(text, names)  # noqa: S102 - the names are those of the class's own annotations
    made: Callable[..., None] = names["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


def _repr(self: Any) -> str:
    shown = (n for n, item in self.__record_fields__.items() if item.repr)
    return f"{self.__class__.__qualname__}({', '.join(f'{n}={getattr(self, n)!r}' for n in shown)})"


def _refuse_set(self: Any, name: str, value: object) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: Any, name: str) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _reduce(self: Any) -> tuple[type, tuple[Any, ...]]:
    return self.__class__, tuple(getattr(self, name) for name in self.__match_args__)


class _StandardFields:
    """What :mod:`dataclasses` reads off a class, made when somebody asks."""

    def __get__(self, instance: object, owner: Any) -> dict[str, Any]:
        import dataclasses

        items: list[Any] = []
        for item in owner.__record_fields__.values():
            given = {"default": item.default, "default_factory": item.default_factory}
            given = {name: value for name, value in given.items() if value is not _MISSING}
            entry: Any = dataclasses.field(init=item.init, compare=item.compare, repr=item.repr, **given)
            items.append((item.name, item.annotation, entry))
        made: Any = dataclasses.make_dataclass(owner.__name__, items)
        return dict(made.__dataclass_fields__)


def _replace(record: Any, /, **changes: Any) -> Any:
    kept = {item.name: getattr(record, item.name) for item in _fields(record) if item.init}
    return record.__class__(**kept | changes)


def _fields(record: Any) -> tuple[Field, ...]:
    return tuple(record.__record_fields__.values())


class _CachedProperty:
    """What a method returns, kept in the object; functools' own takes a lock to do so until Python 3.12."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function, self.__doc__ = function, function.__doc__
        self._name = function.__name__

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._function(instance)
        return value


if TYPE_CHECKING:
    from dataclasses import dataclass, field, fields, replace
    from functools import cached_property
else:
    cached_property, dataclass, field, fields, replace = (
        _CachedProperty,
        _dataclass,
        _field,
        _fields,
        _replace,
    )

__all__ = ["cached_property", "dataclass", "field", "fields", "replace"]
