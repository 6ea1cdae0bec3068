"""Code in text: the argument of ``exec`` and ``compile`` is read as part of the module."""

from __future__ import annotations

import ast

from kernel_lint import TYPE_CHECKING
from kernel_lint.source.domain import Qual

if TYPE_CHECKING:
    from kernel_lint.source.values import Values

_RUNNERS = frozenset({"builtins.exec", "builtins.compile", "builtins.eval"})
_ROUNDS = 3


def embed(values: Values) -> bool:
    """Add the statements of every constant text that is run; tell whether there were any.

    They stand where the call stands: in its scope, at its place. Text in that text is read
    too, three levels deep. Values worked out before know nothing of what was added.
    """
    done: set[ast.AST] = set()
    found = False
    for _ in range(_ROUNDS):
        added = [node for call in _runs(values, done) for node in _statements(values, call)]
        if not added:
            break
        found = True
    return found


def _runs(values: Values, done: set[ast.AST]) -> list[ast.Call]:
    calls = []
    for node in values.scopes.of_type(ast.Call):
        if node.args and node not in done:
            for value in values.of(node.func):
                if value.__class__ is Qual and value.name in _RUNNERS:
                    done.add(node)
                    calls.append(node)
                    break
    return calls


def _statements(values: Values, call: ast.Call) -> list[ast.stmt]:
    text = values.constant(call.args[0])
    if text is None or not isinstance(text.value, (str, bytes)):
        return []
    try:
        tree = ast.parse(text.value)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    for statement in tree.body:
        for inner in ast.walk(statement):
            if "lineno" in inner._attributes:
                ast.copy_location(inner, call)
        values.scopes.add(statement, call, values.scopes.scope[call])
    return tree.body
