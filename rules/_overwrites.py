"""Results of kernels that PyTorch writes over before they are returned."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernel_lint.rule import Context, Finding
from kernel_lint.source.copies import Move, moves
from kernel_lint.source.launches import Launches
from kernel_lint.source.scopes import FunctionNode

_BRANCHES = (ast.If, ast.IfExp, ast.Try, ast.For, ast.AsyncFor, ast.While, ast.Match, ast.BoolOp)


def written_over(context: Context, launches: Launches, entry: FunctionNode) -> Iterator[Finding]:
    """Yield the moves that replace all that launches wrote to a returned tensor by something else."""
    returned = frozenset().union(*(launches.tensors.roots(r) for r in launches.values.sites.returns(entry)))
    for move in moves(launches.tensors, {entry}):
        target = launches.tensors.roots(move.target)
        if not move.whole or not target or not target <= returned or not _is_certain(launches, move, entry):
            continue
        if move.source is not None and launches.tensors.roots(move.source) & launches.written_roots - target:
            continue
        if _is_last(context, launches, move, entry):
            yield Finding(
                move.node,
                "what a kernel wrote is overwritten by PyTorch before it is returned",
                "return what the kernel wrote",
            )


def _is_certain(launches: Launches, move: Move, entry: FunctionNode) -> bool:
    """Tell whether a move is made on every path."""
    for above in launches.values.scopes.ancestors(move.node):
        if above is entry:
            return True
        if isinstance(above, _BRANCHES):
            return False
    return False


def _is_last(context: Context, launches: Launches, move: Move, entry: FunctionNode) -> bool:
    """Tell whether kernels were launched before a move and none after it."""
    calls = launches.values.scopes.by_function(ast.Call).get(entry, ())
    may_launch = context.module.launch_paths(context.framework).may_launch
    launching = [(call.lineno, call.col_offset) for call in calls if may_launch(call)]
    place = (move.node.lineno, move.node.col_offset)
    return bool(launching) and max(launching) < place
