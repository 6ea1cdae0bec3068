"""A base for rules that forbid dotted paths: one table, one pass over the references."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache

from kernel_lint import TYPE_CHECKING
from kernel_lint.rule import Context, Finding, Rule
from kernel_lint.source.references import Reference, prefixes

if TYPE_CHECKING:
    from typing import ClassVar

    from kernel_lint.frameworks import Framework

# By kernel language and rule.
_TABLES: defaultdict[str, dict[str, Mapping[str, str]]] = defaultdict(dict)
# The same turned round: by kernel language and forbidden path, the rules that forbid it.
_FORBIDDING: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))


@lru_cache(maxsize=8192)
def _codes(path: str, language: str) -> frozenset[str]:
    """Return the rules that forbid a path or one that it is reached through."""
    forbidding = _FORBIDDING[language]
    return frozenset(code for part in forbidding.keys() & prefixes(path) for code in forbidding[part])


def _forbidding(context: Context) -> frozenset[str]:
    """Return the rules, of those whose tables are known, that forbid a path which the module forms."""
    known = context.module.shared.get(_forbidding)
    if known is None:
        language = context.framework.name
        found = {_codes(path, language) for path in context.module.references.paths}
        known = context.module.shared[_forbidding] = frozenset().union(*found)
    codes: frozenset[str] = known
    return codes


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
        tables = _TABLES[context.framework.name]
        if self.code not in tables:
            # All at once: what is remembered of a path holds for the tables that were known.
            for rule in _below(ForbiddenPaths):
                table = tables[rule.code] = rule.table(context.framework)
                for path in table:
                    _FORBIDDING[context.framework.name][path].add(rule.code)
            _codes.cache_clear()
            context.module.shared.pop(_forbidding, None)
        return tables[self.code]

    def found(self, context: Context) -> list[Reference]:
        """Return the references to forbidden paths and to what is reached through them."""
        table = self.forbidden(context)
        if self.code not in _forbidding(context):
            return []
        return context.module.references.below(table.keys())

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield one finding for each outermost expression that forms a forbidden path."""
        found = self.found(context)
        if not found:
            return
        table = self.forbidden(context)
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


def _below(base: type[ForbiddenPaths]) -> Iterator[type[ForbiddenPaths]]:
    """Yield the rules that derive from a base."""
    for derived in base.__subclasses__():
        if "code" in vars(derived):
            yield derived
        yield from _below(derived)


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
