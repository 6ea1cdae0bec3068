"""What functions are given that no plain argument shows, and what annotations and tests tell of it."""

from __future__ import annotations

import ast

from kernel_lint.source.domain import Func, Qual
from kernel_lint.source.scopes import BindingKind, FunctionNode, last_name, walk
from kernel_lint.source.values import Values

HOST_ANNOTATIONS = frozenset(
    "int float bool str bytes tuple list dict Sequence Tuple List Size dtype device".split()
)
# Functions that call one argument with what they find in the others.
_GOING_THROUGH = frozenset(
    Qual(name)
    for name in """builtins.map builtins.filter builtins.sorted builtins.max builtins.min functools.reduce
    itertools.accumulate itertools.starmap itertools.takewhile itertools.dropwhile
    itertools.filterfalse torch.utils._pytree.tree_map""".split()
)


def variadic(values: Values, node: ast.expr) -> list[ast.expr]:
    """Return what calls put into ``*args`` or ``**kwargs`` where ``node`` is that, or ``kwargs.values()``."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "values":
        node = node.func.value
    found = values.scopes.scope[node].lookup(node.id) if isinstance(node, ast.Name) else None
    if found is None or len(found[1]) != 1 or not isinstance(found[0].node, (ast.FunctionDef, ast.Lambda)):
        return []
    function, binding = found[0].node, found[1][0]
    if binding.kind is not BindingKind.PARAMETER:
        return []
    if binding.node not in (function.args.vararg, function.args.kwarg):
        return []
    return values.sites.argument_nodes(function, binding.name)


def gone_through(values: Values, function: FunctionNode) -> list[ast.expr]:
    """Return what a function is called with one by one: ``xs`` of ``map(function, xs)``."""
    if isinstance(function, ast.Lambda):
        mentions: list[ast.expr] = [function]
    else:
        named = [n for scope in values.scopes.inner.values() for n in scope.names.get(function.name, ())]
        mentions = [n for n in named if Func(function) in values.of(n)]
    given: list[ast.expr] = []
    for mention in mentions:
        parent = values.scopes.parent.get(mention)
        if isinstance(parent, ast.keyword):
            parent = values.scopes.parent.get(parent)
        if isinstance(parent, ast.Call) and parent.func is not mention:
            if not _GOING_THROUGH.isdisjoint(values.of(parent.func)):
                given += [argument for argument in parent.args if argument is not mention]
    return given


def asked_for_number(test: ast.expr) -> ast.expr | None:
    """Return ``x`` of ``isinstance(x, int)``, or None."""
    if isinstance(test, ast.Call) and last_name(test.func) == "isinstance" and len(test.args) == 2:
        kinds = test.args[1].elts if isinstance(test.args[1], ast.Tuple) else [test.args[1]]
        if all(last_name(kind) in HOST_ANNOTATIONS for kind in kinds):
            return test.args[0]
    return None


def is_host_annotation(node: ast.expr) -> bool:
    """Tell whether an annotation names something that is no tensor."""
    names = {last_name(part) for part in walk(node)}
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        names = {node.value}
    return bool(names & HOST_ANNOTATIONS) and not any("Tensor" in name for name in names)


def shown_elements(node: ast.expr) -> list[ast.expr]:
    """Return the expressions that a display shows as its elements."""
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return node.elts
    return node.values if isinstance(node, ast.Dict) else []
