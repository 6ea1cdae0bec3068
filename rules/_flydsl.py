"""What the FlyDSL rules share: which functions are device code and which values exist only there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernel_lint.rule import Context
from kernel_lint.source.domain import Qual
from kernel_lint.source.scopes import BindingKind, FunctionNode, last_name

# What a lane learns about itself at run time (flydsl.expr 0.5.0).
RUNTIME = (
    "flydsl.expr.thread_idx",
    "flydsl.expr.block_idx",
    "flydsl.expr.lane_id",
    "flydsl.expr.gpu.thread_id",
    "flydsl.expr.gpu.block_id",
    "flydsl.expr.gpu.lane_id",
    "flydsl.expr.gpu.thread_idx",
    "flydsl.expr.gpu.block_idx",
)
# What is known of a value while it is traced.
_SETTLED = frozenset({"type", "dtype", "width", "__class__", "__name__"})
_PYTHON = frozenset({"int", "bool", "str", "float"})
DOCS = "https://github.com/ROCm/FlyDSL/blob/main/docs"


def applies(context: Context) -> bool:
    """Tell whether the file is written in FlyDSL and defines device code."""
    flow, language = context.module.flow, context.framework
    return language.name == "flydsl" and bool(flow.kernels(language) or flow.launchers(language))


def device_entries(context: Context) -> list[ast.FunctionDef]:
    """Return the decorated kernels and launchers."""
    flow = context.module.flow
    return [*flow.kernels(context.framework), *flow.launchers(context.framework)]


def traced(context: Context) -> set[FunctionNode]:
    """Return every function whose code FlyDSL traces."""
    return context.module.launches(context.framework).device


def in_traced(context: Context, kind: type[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes of a type that stand in traced code."""
    functions = traced(context)
    for function, nodes in context.module.scopes.by_function(kind).items():
        if function in functions:
            yield from nodes


def is_runtime(context: Context, node: ast.expr) -> bool:
    """Tell whether an expression is surely computed from the index of a lane or workgroup.

    Follows arithmetic, comparisons, names and parameters; what other calls make of an index
    (a partition's shape, say) may be known at trace time.
    """
    known: dict[ast.expr, bool] = context.module.shared.setdefault(is_runtime, {})
    seen: set[ast.expr] = set()
    pending = [node]
    while pending:
        part = pending.pop()
        if part in seen or known.get(part) is False:
            continue
        seen.add(part)
        if known.get(part) or _is_index(context, part):
            known[node] = True
            return True
        pending.extend(_sources(context, part) if isinstance(part, ast.Name) else _operands(part))
    # Nothing that was met leads to an index.
    known.update(dict.fromkeys(seen, False))
    return False


def _is_index(context: Context, node: ast.expr) -> bool:
    if not isinstance(node, (ast.Attribute, ast.Call)):
        return False
    values = context.module.values.of(node)
    return any(isinstance(value, Qual) and _is_lane(value.name) for value in values)


def _is_lane(path: str) -> bool:
    """Tell whether a path is an index of a lane or workgroup, and nothing that its type tells."""
    return path.startswith(RUNTIME) and _SETTLED.isdisjoint(path.split("."))


def _sources(context: Context, node: ast.Name) -> Iterator[ast.expr]:
    found = context.module.scopes.scope[node].lookup(node.id)
    if found is None:
        return
    owner, bindings = found
    for binding in bindings:
        if binding.kind is BindingKind.PARAMETER:
            function = owner.node
            assert isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            if last_name(getattr(binding.node, "annotation", None) or function) in _PYTHON:
                continue
            yield from context.module.values.sites.argument_nodes(function, node.id)
        elif binding.value is not None and not binding.path and binding.kind is BindingKind.ASSIGN:
            yield binding.value


def _operands(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.UnaryOp):
        return [node.operand]
    if isinstance(node, ast.Compare):
        if all(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops):
            # Which object something is, is settled while the kernel is traced.
            return []
        return [node.left, *node.comparators]
    return node.values if isinstance(node, ast.BoolOp) else []
