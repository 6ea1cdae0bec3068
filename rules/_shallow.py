"""A base for rules that forbid dotted paths and speak about each thing once, where it is reached."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernel_lint import TYPE_CHECKING
from kernel_lint.rule import Context, Finding
from kernel_lint.rules._paths import ForbiddenPaths, outermost
from kernel_lint.source.names import under
from kernel_lint.source.references import Reference

if TYPE_CHECKING:
    from typing import ClassVar


class ShallowPaths(ForbiddenPaths):
    """Like ForbiddenPaths, without what is done with the objects that a forbidden path returned.

    Of ``p = argparse.ArgumentParser()`` and ``p.parse_args()`` only the first is reported. A table's own
    paths may hold calls: they are reported as they stand. ``TYPES`` are classes that are harmless as an
    annotation or in ``isinstance``.
    """

    TYPES: ClassVar[frozenset[str]] = frozenset()

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield one finding for each place that reaches a forbidden path."""
        found = self.found(context)
        if not found:
            return
        table = self.forbidden(context)
        kept: list[tuple[Reference, str]] = []
        for reference in found:
            root = max((root for root in table if under(reference.path, root)), key=len)
            if "(" not in reference.path[len(root) :]:
                kept.append((reference, root))
        whole = set(map(id, (r.node for r in outermost(context, [reference for reference, _ in kept]))))
        for reference, root in kept:
            if id(reference.node) not in whole or any(
                under(reference.path, allowed) for allowed in self.ALLOWED
            ):
                continue
            if reference.path in self.TYPES and only_as_type(context, reference.node):
                continue
            finding = self.finding(context, reference, table[root])
            if finding is not None:
                yield finding


def only_as_type(context: Context, node: ast.AST) -> bool:
    """Tell whether a class is only named as a type: in an annotation, in ``isinstance``, in an import for these."""
    if isinstance(node, ast.alias):
        name = node.asname or node.name
        reads = [
            inner for scope in context.module.scopes.inner.values() for inner in scope.names.get(name, ())
        ]
        return bool(reads) and all(only_as_type(context, read) for read in reads)
    parent = context.module.scopes.parent
    inner, above = node, parent.get(node)
    while above is not None and not isinstance(above, ast.stmt):
        if isinstance(above, ast.arg):
            return above.annotation is inner
        if isinstance(above, ast.Call):
            tests = isinstance(above.func, ast.Name) and above.func.id in ("isinstance", "issubclass")
            return tests and len(above.args) == 2 and above.args[1] is inner
        inner, above = above, parent.get(above)
    if isinstance(above, ast.AnnAssign):
        return above.annotation is inner
    return isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef)) and above.returns is inner
