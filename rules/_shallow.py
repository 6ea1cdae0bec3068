"""A base for rules that forbid dotted paths and speak about each thing once, where it is reached."""

from __future__ import annotations

from collections.abc import Iterator

from kernel_lint.rule import Context, Finding
from kernel_lint.rules._paths import ForbiddenPaths, outermost
from kernel_lint.source.names import under
from kernel_lint.source.references import Reference


class ShallowPaths(ForbiddenPaths):
    """Like ForbiddenPaths, without what is done with the objects that a forbidden path returned.

    Of ``p = argparse.ArgumentParser()`` and ``p.parse_args()`` only the first is reported. A table's own
    paths may hold calls: they are reported as they stand.
    """

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield one finding for each place that reaches a forbidden path."""
        table = self.forbidden(context)
        roots = tuple(table)
        kept: list[tuple[Reference, str]] = []
        for reference in context.module.references.below(table):
            root = max((root for root in roots if under(reference.path, root)), key=len)
            if "(" not in reference.path[len(root) :]:
                kept.append((reference, root))
        whole = set(map(id, (r.node for r in outermost(context, iter([reference for reference, _ in kept])))))
        for reference, root in kept:
            if id(reference.node) not in whole or any(
                under(reference.path, allowed) for allowed in self.ALLOWED
            ):
                continue
            finding = self.finding(context, reference, table[root])
            if finding is not None:
                yield finding
