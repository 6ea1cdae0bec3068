"""Reads of attributes by name, however they are spelled, and names that are pieced together."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernel_lint import TYPE_CHECKING
from kernel_lint.rule import Context
from kernel_lint.source.domain import Instance, Namespace, Qual, Value, constants

if TYPE_CHECKING:
    from typing import TypeAlias

Read: TypeAlias = tuple[ast.expr, str, "ast.expr | None"]
# Methods that put names into a namespace.
_BINDERS = ("update", "setdefault", "__setitem__")
_READERS = frozenset({"getattr", "attrgetter", "methodcaller", "getattr_static", "__getattribute__"})
_READER_PATHS = frozenset(
    {"builtins.getattr", "operator.attrgetter", "operator.methodcaller", "inspect.getattr_static",
     "builtins.object.__getattribute__", "builtins.type.__getattribute__"}
)  # fmt: skip


def own_places(context: Context, readers: tuple[str, ...]) -> Iterator[tuple[ast.expr, ast.expr, bool]]:
    """Yield what binds or reads a name of the file under a plain text: the place, the namespace, whether it binds."""
    values = context.module.values
    places: list[tuple[ast.expr, ast.expr, ast.expr | None, bool]] = [
        (item, item.value, item.slice, not isinstance(item.ctx, ast.Load))
        for item in context.module.scopes.of_type(ast.Subscript)
    ]
    for name in (*readers, *_BINDERS):
        for call in values.sites.calls_named(name):
            if isinstance(call.func, ast.Attribute):
                key = call.args[0] if call.args and name in readers else None
                places.append((call, call.func.value, key, name in _BINDERS))
    for node, space, key, stores in places:
        if any(isinstance(owner, Namespace) and owner.base is None for owner in values.of(space)):
            # Reads under a built text are reported as such.
            if stores or (key is not None and is_plain(context, key) is True):
                yield node, space, stores


def attribute_reads(context: Context, names: frozenset[str]) -> Iterator[Read]:
    """Yield ``(expression, name, object)`` for each read of an attribute called one of ``names``.

    ``x.name``, ``getattr(x, "name")`` (also with a folded name) and ``attrgetter("name")`` count; the
    object is None for a getter that has not met it yet.
    """
    attributes = context.module.scopes.attributes
    for name in sorted(names & attributes.keys()):
        for node in attributes[name]:
            if not isinstance(node.ctx, ast.Store):
                yield node, name, node.value
    for call, key, target in named_reads(context):
        for text in constants(context.module.values.of(key)):
            # attrgetter takes dotted names.
            part = (
                next((part for part in text.split(".") if part in names), "") if isinstance(text, str) else ""
            )
            if part:
                yield call, part, target


def named_reads(context: Context) -> Iterator[tuple[ast.Call, ast.expr, ast.expr | None]]:
    """Yield the calls that read an attribute by name: the call, the name, the object."""
    values = context.module.values
    for call in context.module.survey.calls_ending(_READERS):
        if not call.args or isinstance(call.args[0], ast.Starred):
            continue
        paths = [v.name for v in values.of(call.func) if isinstance(v, Qual)]
        if not any(path in _READER_PATHS or path.endswith(".__getattribute__") for path in paths):
            continue
        if "operator.attrgetter" in paths or "operator.methodcaller" in paths:
            yield call, call.args[0], None
        elif len(call.args) > 1:
            yield call, call.args[1], call.args[0]
        elif isinstance(call.func, ast.Attribute):
            yield call, call.args[0], call.func.value


def is_own(context: Context, node: ast.expr | None) -> bool:
    """Tell whether an object is surely an instance of a class of this file."""
    if node is None:
        return False
    found = context.module.values.of(node)
    return bool(found) and all(isinstance(value, Instance) for value in found)


def is_outside(value: Value) -> bool:
    """Tell whether a value is a module, class or function outside the file (not an object that it made)."""
    return isinstance(value, Qual) and "(" not in value.name and "[" not in value.name


def is_plain(
    context: Context, node: ast.expr, depth: int = 0, seen: set[tuple[int, str]] | None = None
) -> bool | None:
    """Tell whether a name is spelled out (True), pieced together (False), or given from outside (None).

    Follows variables, loops and tables to where their texts stand, each name once.
    """
    seen = set() if seen is None else seen
    if depth > 6:
        return None
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, ast.IfExp):
        return _all(context, [node.body, node.orelse], depth, seen)
    if isinstance(node, ast.BoolOp):
        return _all(context, node.values, depth, seen)
    if isinstance(node, ast.NamedExpr):
        return is_plain(context, node.value, depth + 1, seen)
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return _all(context, node.elts, depth, seen)
    if isinstance(node, ast.Dict):
        parts = [key for key in node.keys if key is not None] + node.values
        return _all(context, parts, depth, seen)
    if isinstance(node, ast.Name):
        return _plain_name(context, node, depth, seen)
    if isinstance(node, ast.Subscript):
        inner = is_plain(context, node.value, depth + 1, seen)
        if inner is None and isinstance(node.value, ast.Call) and _folds(context, node):
            return False
        # A slice of a text takes it apart; an item of a table of texts is one of them.
        return False if isinstance(node.slice, ast.Slice) else inner
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("get", "items", "keys", "values")
    ):
        return is_plain(context, node.func.value, depth + 1, seen)
    if isinstance(node, ast.Attribute):
        texts = constants(context.module.values.of(node))
        return True if texts and all(isinstance(text, str) for text in texts) else None
    return None if isinstance(node, ast.Call) and not _folds(context, node) else False


def _folds(context: Context, node: ast.expr) -> bool:
    return any(isinstance(text, (str, bytes)) for text in constants(context.module.values.of(node)))


def _all(context: Context, parts: list[ast.expr], depth: int, seen: set[tuple[int, str]]) -> bool | None:
    found = [is_plain(context, part, depth + 1, seen) for part in parts]
    if False in found:
        return False
    return None if None in found else True


def _plain_name(context: Context, node: ast.Name, depth: int, seen: set[tuple[int, str]]) -> bool | None:
    scope = context.module.scopes.scope[node]
    found = scope.lookup(node.id)
    if found is None:
        return None
    key = (id(found[0]), node.id)
    if key in seen:
        return True
    seen.add(key)
    results: list[bool | None] = []
    for binding in found[1]:
        if binding.kind.value == "augmented":
            results.append(False)
        elif binding.value is not None and binding.kind.value in ("assign", "loop"):
            results.append(is_plain(context, binding.value, depth + 1, seen))
        elif binding.kind.value == "parameter" and isinstance(
            found[0].node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
        ):
            passed = context.module.values.sites.argument_nodes(found[0].node, node.id)
            results.extend(is_plain(context, argument, depth + 1, seen) for argument in passed)
            results.append(None if not passed else True)
        else:
            results.append(None)
    if False in results:
        return False
    return None if None in results else True


__all__ = ["attribute_reads", "is_outside", "is_own", "is_plain", "named_reads"]
