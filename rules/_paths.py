"""A base for rules that forbid dotted paths: one table, one pass over the references."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping

from kernel_lint import TYPE_CHECKING
from kernel_lint.rule import Context, Finding, Rule
from kernel_lint.source.references import Reference

if TYPE_CHECKING:
    from typing import ClassVar

    from kernel_lint.frameworks import Framework

# By rule and kernel language.
_TABLES: dict[tuple[str, str], Mapping[str, str]] = {}


class ForbiddenPaths(Rule):
    """Flags every place where one of ``FORBIDDEN`` or anything below it is formed.

    ``FORBIDDEN`` maps a dotted path to why it is forbidden; ``ALLOWED`` lists paths below
    them that are fine. ``HELP`` is the remedy.
    """

    FORBIDDEN: ClassVar[Mapping[str, str]] = {}
    ALLOWED: ClassVar[frozenset[str]] = frozenset()
    HELP: ClassVar[str] = ""

    @classmethod
    def table(cls, framework: Framework) -> Mapping[str, str]:
        """Return the table for files in a kernel language; a rule may add to it."""
        return cls.FORBIDDEN

    def forbidden(self, context: Context) -> Mapping[str, str]:
        """Return the table for a file."""
        key = (self.code, context.framework.name)
        if key not in _TABLES:
            _TABLES[key] = self.table(context.framework)
        return _TABLES[key]

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield one finding for each outermost expression that forms a forbidden path."""
        table = self.forbidden(context)
        found = context.module.references.below(table.keys())
        if not found:
            return
        seen: set[tuple[int, str]] = set()
        for reference in outermost(context, found):
            if not self.ALLOWED.isdisjoint(reference.prefixes):
                continue
            root = next(prefix for prefix in reference.prefixes if prefix in table)
            # What is done with the result of a forbidden call is not forbidden again, and one
            # finding a line says it.
            key = (getattr(reference.node, "lineno", 0), root)
            if key in seen or is_result(reference.path, root):
                continue
            finding = self.finding(context, reference, table[root])
            if finding is not None:
                seen.add(key)
                yield finding

    def finding(self, context: Context, reference: Reference, why: str) -> Finding | None:
        """Turn a reference into a finding, or None where the rule sees that it is harmless."""
        return Finding(reference.node, f"`{shown(reference.path)}` {why}", self.HELP or None)


def outermost(context: Context, found: Collection[Reference]) -> Iterator[Reference]:
    """Drop references that are the inner part of a longer one: of ``a.b.c`` keep the whole.

    A call is represented by the callee, which is what one looks for on the line.
    """
    nodes = {reference.node for reference in found}
    parent = context.module.scopes.parent
    for reference in found:
        node = reference.node
        above = parent.get(node)
        if isinstance(node, ast.Call) and node.func in nodes:
            continue
        if isinstance(above, ast.Attribute) and above in nodes:
            continue
        if isinstance(above, ast.Subscript) and above in nodes and above.value is node:
            continue
        if isinstance(above, ast.Call) and above.func is node and parent.get(above) in nodes:
            if isinstance(parent.get(above), (ast.Attribute, ast.Subscript)):
                continue
        yield reference


def is_result(path: str, root: str) -> bool:
    """Tell whether ``path`` is reached through a call or an item of what ``root`` names."""
    rest = path[len(root) :]
    return "(" in rest or "[" in rest


def shown(path: str) -> str:
    """Return a dotted path as a person would write it."""
    return path.removeprefix("builtins.").lstrip(".") or path
