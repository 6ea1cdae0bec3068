"""Annotations: which ones the annotations future concerns, and which may be evaluated instead."""

from __future__ import annotations

import ast

from kernel_lint import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def evaluates(node: ast.expr) -> bool:
    """Whether an annotation is made of types of which one knows that they can be evaluated."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return evaluates(node.left) and evaluates(node.right)
    if isinstance(node, ast.Subscript):
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        base = ast.unparse(node.value)
        return base in ("list", "dict", "tuple", "set", "Optional", "Union") and all(map(evaluates, parts))
    return ast.unparse(node) in (
        *(
            "None",
            "bool",
            "bytes",
            "complex",
            "dict",
            "float",
            "int",
            "list",
            "object",
            "set",
            "str",
            "tuple",
        ),
        *("torch.Tensor", "torch.device", "torch.dtype", "torch.nn.Module", "nn.Module"),
    )


def annotation_nodes(node: ast.AST) -> Iterator[tuple[ast.expr, bool]]:
    """Yield the annotations that are evaluated where the future import is missing.

    With each goes whether it belongs to a function that nothing decorates.
    """
    for inner in ast.walk(node):
        if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef)):
            args, plain = inner.args, not inner.decorator_list
            for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg):
                if arg is not None and arg.annotation is not None:
                    yield arg.annotation, plain
            if inner.returns is not None:
                yield inner.returns, plain
        elif isinstance(inner, ast.AnnAssign):
            yield inner.annotation, False
