"""Places that rules mark: the name of a definition instead of its whole body."""

from __future__ import annotations

import ast

from kernel_lint.diagnostics import Span
from kernel_lint.source.module import SourceModule


def header(module: SourceModule, node: ast.AST) -> Span | ast.AST:
    """Return the name of a function or class where it is defined; other nodes as they are."""
    if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        line = module.lines[node.lineno - 1]
        start = line.find(node.name, module.column(node.lineno, node.col_offset) - 1)
        if start >= 0:
            return Span(node.lineno, start + 1, node.lineno, start + 1 + len(node.name))
    return node
