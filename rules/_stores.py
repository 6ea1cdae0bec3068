"""Stores into attributes and namespaces, however they are spelled."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernel_lint.records import dataclass
from kernel_lint.rule import Context
from kernel_lint.source.domain import Attr, Container, Getter, Namespace, Partial, Qual, Value, constants

_SETTERS = frozenset(
    {"builtins.setattr", "builtins.delattr", "builtins.object.__setattr__", "builtins.type.__setattr__"}
)
_SETTERS |= {"builtins.object.__delattr__", "builtins.type.__delattr__"}
# Setters of an object, with the number of arguments that they take when they are bound to it.
_OWN_ARGUMENTS = {"__setattr__": 2, "__delattr__": 1}
_BOUND = frozenset(_OWN_ARGUMENTS)
_NAMESPACE_METHODS = frozenset(
    {"update", "setdefault", "pop", "popitem", "clear", "__setitem__", "__delitem__", "__ior__"}
)
_ITEM_SETTERS = frozenset(
    {"operator.setitem", "operator.delitem", "builtins.dict.__setitem__", "builtins.dict.update"}
)
_SETTING_METHODS = _NAMESPACE_METHODS | _BOUND
# The last parts of all of these paths.
_SETTING = _BOUND | _NAMESPACE_METHODS | {path.rpartition(".")[2] for path in _SETTERS | _ITEM_SETTERS}


@dataclass(frozen=True, slots=True)
class Store:
    """``target`` gets (or loses) an attribute; ``name`` is it where it is known, ``value`` what is stored.

    ``item`` tells a store under a key (``d[k] = v``) from one of an attribute or in a ``__dict__``.
    """

    node: ast.AST
    target: frozenset[Value]
    name: str
    value: ast.expr | None
    item: bool = False


def stores(context: Context) -> list[Store]:
    """Return every store into an attribute, an item or a namespace of the module's text."""
    known = context.module.shared.get(stores)
    if known is None:
        known = context.module.shared[stores] = list(_stores(context))
    found: list[Store] = known
    return found


def _stores(context: Context) -> Iterator[Store]:
    yield from _statements(context)
    survey = context.module.survey
    for call in (
        *survey.calls_ending(_SETTING),
        *survey.method_calls(_SETTING_METHODS),
        *survey.calls_of_kind(Partial, Getter),
    ):
        yield from _calls(context, call)


def _statements(context: Context) -> Iterator[Store]:
    values, scopes = context.module.values, context.module.scopes
    stored = {
        target: binding.value for stored in scopes.attribute_stores.values() for target, binding in stored
    }
    for node in context.module.survey.written:
        yield Store(node, values.of(node.value), node.attr, stored.get(node))
    for item in context.module.survey.written_items:
        name = "" if isinstance(item.slice, ast.Slice) else _text(context, item.slice)
        yield from _into(item, values.of(item.value), name, None)
    for augmented in scopes.of_type(ast.AugAssign):
        if isinstance(augmented.op, ast.BitOr):
            # torch.__dict__ |= {...}, sys.modules |= {...}
            owners = values.of(augmented.target) | _augmented(context, augmented.target)
            yield from _into(augmented, owners, "", None, namespace=Qual("sys.modules") not in owners)


def _augmented(context: Context, target: ast.expr) -> frozenset[Value]:
    """What a name held before: the name's own binding by ``|=`` says nothing of it."""
    if not isinstance(target, ast.Name):
        return frozenset()
    found = context.module.scopes.scope[target].lookup(target.id)
    values = context.module.values
    bindings = found[1] if found is not None else []
    return frozenset().union(
        *(values.binding(b, found[0]) for b in bindings if found is not None and b.kind.value != "augmented")
    )


def _into(
    node: ast.AST, owners: frozenset[Value], name: str, value: ast.expr | None, *, namespace: bool = False
) -> Iterator[Store]:
    spaces = frozenset(
        owner.base for owner in owners if isinstance(owner, Namespace) and owner.base is not None
    )
    if spaces:
        yield Store(node, spaces, name, value)
    elif not namespace:
        yield Store(node, owners, name, value, item=True)


def _calls(context: Context, call: ast.Call) -> Iterator[Store]:
    values = context.module.values
    given = _spread(context, call.args)
    for function in values.of(call.func):
        arguments = given
        if isinstance(function, Partial):
            arguments, function = [*_spread(context, function.call.args)[1:], *given], function.function
        if isinstance(function, Qual):
            owner, _, last = function.name.rpartition(".")
            if function.name in _SETTERS and arguments:
                yield Store(call, values.of(arguments[0]), _named(context, arguments, 1), _at(arguments, 2))
            elif function.name in _ITEM_SETTERS and arguments:
                yield from _into(
                    call, values.of(arguments[0]), _named(context, arguments, 1), _at(arguments, 2)
                )
            elif last in _BOUND and len(arguments) > _OWN_ARGUMENTS[last]:
                # Through a class: types.ModuleType.__setattr__(torch, "name", value).
                yield Store(call, values.of(arguments[0]), _named(context, arguments, 1), _at(arguments, 2))
            elif last in _BOUND and "(" not in owner:
                yield Store(call, frozenset({Qual(owner)}), _named(context, arguments, 0), _at(arguments, 1))
            elif last in _NAMESPACE_METHODS and owner == "sys.modules":
                yield Store(call, frozenset({Qual(owner)}), _named(context, arguments, 0), None, item=True)
        elif (
            isinstance(function, Getter)
            and function.kind == "method"
            and function.name in _BOUND
            and arguments
        ):
            yield Store(call, values.of(arguments[0]), "", None)
        elif isinstance(function, Attr) and function.name in _BOUND:
            through = len(arguments) > _OWN_ARGUMENTS[function.name]
            target = values.of(arguments[0]) if through else frozenset({function.base})
            rest = arguments[1:] if through else arguments
            yield Store(call, target, _named(context, rest, 0), _at(rest, 1))
        elif (
            isinstance(function, Attr)
            and function.name in _NAMESPACE_METHODS
            and isinstance(function.base, Namespace)
        ):
            if function.base.base is not None:
                yield Store(
                    call, frozenset({function.base.base}), _named(context, arguments, 0), _at(arguments, 1)
                )


def _spread(context: Context, arguments: list[ast.expr]) -> list[ast.expr]:
    """Return arguments with ``*(a, b)`` taken apart, also under a name."""
    spread: list[ast.expr] = []
    for argument in arguments:
        shown = None
        if isinstance(argument, ast.Starred):
            found = context.module.values.of(argument.value)
            shown = [
                v.node.elts
                for v in found
                if isinstance(v, Container) and isinstance(v.node, (ast.Tuple, ast.List))
            ]
        spread.extend(shown[0] if shown and len(shown) == 1 else [argument])
    return spread


def _at(arguments: list[ast.expr], index: int) -> ast.expr | None:
    return arguments[index] if len(arguments) > index else None


def _named(context: Context, arguments: list[ast.expr], index: int) -> str:
    return _text(context, arguments[index]) if len(arguments) > index else ""


def _text(context: Context, node: ast.expr) -> str:
    found = [text for text in constants(context.module.values.of(node)) if isinstance(text, str)]
    return found[0] if len(found) == 1 else ""
