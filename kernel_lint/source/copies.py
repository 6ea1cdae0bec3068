"""What PyTorch moves from one tensor to another on the host path, and what it writes over."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernel_lint.records import dataclass
from kernel_lint.source.scopes import FunctionNode
from kernel_lint.source.tensors import Root, Tensors

# Methods that fill the whole tensor that they are called on; what with, is their first argument.
_FILLING = frozenset({"copy_", "fill_", "zero_", "set_"})


@dataclass(frozen=True, slots=True)
class Move:
    """``source`` goes into ``target``; ``whole`` tells that nothing of what was there stays."""

    node: ast.stmt | ast.expr
    target: ast.expr
    source: ast.expr | None
    whole: bool


def moves(tensors: Tensors, host: set[FunctionNode]) -> Iterator[Move]:
    """Yield each move in host code: ``y.copy_(t)``, ``y[...] = t``, ``y.data = t``, ``out=y``."""
    scopes = tensors.scopes
    for function, calls in scopes.by_function(ast.Call).items():
        for call in calls if function in host else ():
            if isinstance(call.func, ast.Attribute) and call.func.attr in _FILLING:
                source = call.args[0] if call.args else None
                yield Move(call, call.func.value, source, True)
            for keyword in call.keywords:
                if keyword.arg == "out" and call.args:
                    yield Move(call, keyword.value, call.args[0], False)
    for function, assignments in scopes.by_function(ast.Assign).items():
        for assignment in assignments if function in host else ():
            for target in assignment.targets:
                if isinstance(target, ast.Subscript):
                    yield Move(assignment, target.value, assignment.value, _is_everything(target.slice))
                elif isinstance(target, ast.Attribute) and target.attr == "data":
                    yield Move(assignment, target.value, assignment.value, True)


def _is_everything(index: ast.expr) -> bool:
    """``y[:]``, ``y[...]``, ``y[:, :]``."""
    if isinstance(index, ast.Tuple):
        return all(map(_is_everything, index.elts))
    if isinstance(index, ast.Slice):
        return index.lower is None and index.upper is None and index.step is None
    return isinstance(index, ast.Constant) and index.value is ...


def carried(tensors: Tensors, host: set[FunctionNode], written: frozenset[Root]) -> frozenset[Root]:
    """Return ``written`` with the storage that gets a copy of some of it."""
    found = list(moves(tensors, host))
    for _ in range(3):
        sources = [move for move in found if move.source is not None and tensors.roots(move.source) & written]
        reached = written.union(*(tensors.roots(move.target) for move in sources))
        if reached == written:
            break
        written = reached
    return written
