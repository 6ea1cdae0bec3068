"""Items and elements of abstract values: what ``x[k]``, loops and unpacking give."""

from __future__ import annotations

import ast

from kernel_lint import TYPE_CHECKING
from kernel_lint.source.domain import (
    NOTHING,
    UNKNOWN,
    Attr,
    Const,
    Container,
    Namespace,
    Param,
    Qual,
    Value,
    constants,
    outside,
    union,
)
from kernel_lint.source.domain import Values as ValueSet
from kernel_lint.source.members import extend
from kernel_lint.source.scopes import Step, last_name

if TYPE_CHECKING:
    from kernel_lint.source.values import Values


_NAMESPACES = frozenset({"builtins.globals()", "builtins.vars()", "builtins.locals()"})
# Paths of objects outside the module whose items are more than "an item".
_KEYED = _NAMESPACES | {"sys.modules"}


def subscript(values: Values, node: ast.Subscript) -> ValueSet:
    """Return what ``x[k]`` may be."""
    bases_, sliced = values.of(node.value), isinstance(node.slice, ast.Slice)
    if sliced or Const in map(type, bases_):
        found = values.fold(node)
        if found is not None:
            return frozenset({found})
    if sliced:
        parts = [frozenset({base}) if isinstance(base, Container) else extend_item(base) for base in bases_]
    elif any(map(_asks_for_key, bases_)):
        keys = values.of(node.slice)
        parts = [item(values, base, keys) for base in bases_]
    else:
        parts = [extend_item(base) for base in bases_]
    stored = stored_items(values, node.value)
    if stored or not parts:
        parts.append(stored)
    return union(parts)


def plain(values: Values, node: ast.Subscript, base: Value) -> ValueSet | None:
    """Return what ``x[k]`` is for the one value of x, or None where it depends on something else."""
    if base.__class__ is Const or node.slice.__class__ is ast.Slice:
        return None
    return None if _asks_for_key(base) or stores_items(values, node.value) else extend_item(base)


def _asks_for_key(base: Value) -> bool:
    """Whether an item of a value depends on which one it is, as far as the analysis goes."""
    kind = base.__class__
    if kind is Qual:
        return base.name in _KEYED  # type: ignore[union-attr]
    return kind is Container or kind is Namespace


def extend_item(base: Value) -> ValueSet:
    """Return the term ``base[]``."""
    if base.__class__ is Qual:
        return outside(base.name + "[]")
    return extend(base, "[]")


def item(values: Values, base: Value, keys: ValueSet) -> ValueSet:
    """Return what ``base[k]`` may be for the given keys."""
    if isinstance(base, (Attr, Param)):
        return extend(base, "[]")
    names = constants(keys)
    if isinstance(base, Namespace):
        texts = [name for name in names if isinstance(name, str)]
        if not texts:
            return UNKNOWN
        return union([_namespace_item(values, base, name) for name in texts])
    if isinstance(base, Qual):
        if base.name == "sys.modules":
            return union(
                [values.sites.module(name) for name in names if isinstance(name, str)] + _own(values, keys)
            )
        if base.name in _NAMESPACES:
            return union([values.name(name, values.scopes.module) for name in names if isinstance(name, str)])
        return outside(base.name + "[]")
    if isinstance(base, Container):
        return _container_item(values, base.node, keys)
    return extend(base, "[]")


def _own(values: Values, keys: ValueSet) -> list[ValueSet]:
    """``sys.modules[__name__]`` is this module."""
    if Qual("__name__") in keys:
        return [frozenset({Namespace(None, values.scopes.module)})]
    return [] if constants(keys) else [UNKNOWN]


def _namespace_item(values: Values, base: Namespace, name: str) -> ValueSet:
    if base.base is None:
        assert base.scope is not None
        return values.name(name, base.scope)
    return values.attribute(frozenset({base.base}), name)


def _container_item(values: Values, node: ast.expr, keys: ValueSet) -> ValueSet:
    known = constants(keys)
    exact = len(keys) == 1 and len(known) == 1
    if isinstance(node, ast.Dict):
        if exact:
            for key, value in zip(node.keys, node.values, strict=True):
                if key is not None and values.constant(key) == Const(known[0]):
                    return values.of(value)
        return dict_values(values, node)
    if isinstance(node, (ast.List, ast.Tuple)) and exact and isinstance(known[0], int):
        plain = not any(isinstance(element, ast.Starred) for element in node.elts)
        if plain and -len(node.elts) <= known[0] < len(node.elts):
            return values.of(node.elts[known[0]])
    if isinstance(node, ast.Call):
        if Qual("builtins.zip") in values.of(node.func) and len(node.args) == 2:
            # dict(zip(keys, values))
            return values.follow(values.of(node.args[1]), ("*",))
        named = [values.of(k.value) for k in node.keywords if not exact or k.arg == known[0]]
        return union(named) if named else UNKNOWN
    if isinstance(node, ast.DictComp):
        return values.of(node.value)
    return elements(values, node)


def dict_values(values: Values, node: ast.expr) -> ValueSet:
    """Return what the values of a mapping may be; ``d = {**d}`` adds nothing to itself."""
    return values.guarded(("values", node), values.memory, _dict_values, node)


def _dict_values(values: Values, node: ast.expr) -> ValueSet:
    if isinstance(node, ast.Dict):
        parts: list[ValueSet] = []
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                parts.extend(
                    dict_values(values, v.node) for v in values.of(value) if isinstance(v, Container)
                )
            else:
                parts.append(values.of(value))
        return union(parts) if parts else NOTHING
    if isinstance(node, ast.DictComp):
        return values.of(node.value)
    if isinstance(node, ast.Call):
        return union([values.of(k.value) for k in node.keywords]) if node.keywords else NOTHING
    return elements(values, node)


def elements(values: Values, node: ast.expr) -> ValueSet:
    """Return what iterating over a container may give; ``x = [*x]`` adds nothing to itself."""
    return values.guarded(("elements", node), values.memory, _elements, node)


def _elements(values: Values, node: ast.expr) -> ValueSet:
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        parts = []
        for element in node.elts:
            if isinstance(element, ast.Starred):
                parts.append(values.follow(values.of(element.value), ("*",)))
            else:
                parts.append(values.of(element))
        return union(parts) if parts else NOTHING
    if isinstance(node, ast.Dict):
        return union([values.of(key) for key in node.keys if key is not None]) if node.keys else NOTHING
    if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
        return values.of(node.elt)
    if isinstance(node, ast.DictComp):
        return values.of(node.key)
    if isinstance(node, ast.BinOp):
        sides = values.of(node.left) | values.of(node.right)
        return union([step(values, side, "*") for side in sides])
    if isinstance(node, ast.Call):
        return frozenset({Attr(Container(node), "row")})
    return UNKNOWN


def stored_items(values: Values, base: ast.expr) -> ValueSet:
    """Return what is stored into the container that ``base`` names, by item or by method."""
    if not stores_items(values, base):
        return NOTHING
    name = last_name(base)
    stores = values.scopes.item_stores.get(name, ())
    parts = [values.follow(values.of(b.value), b.path) for _, b in stores if b.value is not None]
    parts.extend(values.of(value) for value in values.sites.inserted(name))
    return union(parts) if parts else NOTHING


def stores_items(values: Values, base: ast.expr) -> bool:
    """Tell whether anything is stored into what ``base`` names, by item or by method."""
    name = last_name(base)
    return bool(name and (name in values.scopes.item_stores or values.sites.inserted(name)))


def step(values: Values, value: Value, which: Step) -> ValueSet:
    """Take one step of a binding's path: an element, an index, or entering a context."""
    if which == "enter":
        return values.sites.entered(value)
    if which == "*":
        if isinstance(value, Container):
            return elements(values, value.node)
        if (
            isinstance(value, Attr)
            and isinstance(value.base, Container)
            and value.name in ("values", "items")
        ):
            if value.name == "values":
                return dict_values(values, value.base.node)
            return frozenset({Attr(value.base, "item")})
        if isinstance(value, Const):
            return UNKNOWN
        return extend_item(value)
    if isinstance(value, Attr) and isinstance(value.base, Container) and isinstance(which, int):
        return _row_part(values, value, which)
    return item(values, value, frozenset({Const(which)}))


def _row_part(values: Values, row: Attr, index: int) -> ValueSet:
    """Part ``index`` of an element of ``d.items()``, ``zip(...)`` or ``enumerate(...)``."""
    container = row.base
    assert isinstance(container, Container)
    node = container.node
    if row.name == "item":
        return dict_values(values, node) if index == 1 else elements(values, node)
    if row.name == "row" and isinstance(node, ast.Call):
        path = {value.name for value in values.of(node.func) if isinstance(value, Qual)}
        if "builtins.enumerate" in path:
            return values.follow(values.of(node.args[0]), ("*",)) if index == 1 and node.args else UNKNOWN
        if "builtins.zip" in path and index < len(node.args):
            return values.follow(values.of(node.args[index]), ("*",))
    return UNKNOWN
