"""Attributes, modules and code that a call reaches by a text: ``getattr``, ``import_module``, ``eval``."""

from __future__ import annotations

import ast

from kernel_lint import TYPE_CHECKING
from kernel_lint.source.domain import UNKNOWN, Instance, Namespace, Qual, constants, union
from kernel_lint.source.domain import Values as ValueSet
from kernel_lint.source.names import canonical, join
from kernel_lint.source.scopes import last_name

if TYPE_CHECKING:
    from typing import Any

    from kernel_lint.source.values import Values


def attribute_by_name(values: Values, node: ast.Call) -> ValueSet:
    """``getattr(x, "name", default)``."""
    if len(node.args) < 2:
        return UNKNOWN
    target, names = values.of(node.args[0]), values.of(node.args[1])
    texts = [name for name in constants(names) if isinstance(name, str)]
    parts = [values.attribute(target, name) for name in texts]
    if len(texts) < len(names) or not texts:
        parts.append(UNKNOWN)
        if any(isinstance(value, Instance) for value in target):
            # setattr(self, f"fc{i}", ...) and getattr(self, f"fc{i}")
            parts.extend(map(values.of, values.sites.named_stores("")))
    parts.extend(values.of(default) for default in node.args[2:3])
    return union(parts)


def getattribute(values: Values, path: str, node: ast.Call) -> ValueSet:
    """``torch.__getattribute__("x")`` and ``object.__getattribute__(torch, "x")``."""
    if len(node.args) == 2:
        return attribute_by_name(values, node)
    if len(node.args) == 1:
        owner = path.rpartition(".")[0]
        texts = [name for name in constants(values.of(node.args[0])) if isinstance(name, str)]
        return union([frozenset({Qual(join(owner, name))}) for name in texts]) if texts else UNKNOWN
    return UNKNOWN


def import_module(values: Values, node: ast.Call) -> ValueSet:
    """``import_module("a.b")``; of ``__name__`` it is this module."""
    if not node.args:
        return UNKNOWN
    given = values.of(node.args[0])
    texts = [name for name in constants(given) if isinstance(name, str)]
    parts = [values.sites.module(name) for name in texts]
    if Qual("__name__") in given:
        parts.append(frozenset({Namespace(None, values.scopes.module)}))
    return union(parts) if parts else UNKNOWN


def dunder_import(values: Values, node: ast.Call) -> ValueSet:
    """``__import__("a.b")`` gives a, with a fromlist it gives a.b."""
    found = import_module(values, node)
    fromlist = (
        node.args[3]
        if len(node.args) > 3
        else next((k.value for k in node.keywords if k.arg == "fromlist"), None)
    )
    if fromlist is not None:
        return found
    return frozenset(Qual(v.name.partition(".")[0]) if isinstance(v, Qual) else v for v in found)


def locate(values: Values, node: ast.Call) -> ValueSet:
    """``pydoc.locate("torch.compile")`` and ``pkgutil.resolve_name("torch:compile")``."""
    texts = [t for t in constants(values.of(node.args[0])) if isinstance(t, str)] if node.args else []
    return union([frozenset({Qual(canonical(t.replace(":", ".")))}) for t in texts]) if texts else UNKNOWN


def namespace(values: Values, node: ast.Call) -> ValueSet:
    """``vars(x)`` is ``x.__dict__``; without arguments it is the namespace of the code around it."""
    if node.args:
        return values.attribute(values.of(node.args[0]), "__dict__")
    scope = values.scopes.scope[node]
    local = last_name(node.func) in ("locals", "vars")
    return frozenset({Namespace(None, scope if local else scope.module)})


def evaluate(values: Values, node: ast.Call) -> ValueSet:
    """``eval("torch.compile")``: the value of the text, read where the call stands."""
    text = values.constant(node.args[0]) if node.args else None
    if text is None or not isinstance(text.value, (str, bytes)):
        return UNKNOWN
    try:
        parsed: Any = ast.parse(text.value, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return UNKNOWN
    expression: ast.expr = parsed.body
    for inner in ast.walk(expression):
        if "lineno" in inner._attributes:
            ast.copy_location(inner, node)
    values.scopes.add(expression, node, values.scopes.scope[node])
    values.forget_reads()
    return values.of(expression)
