"""References: the places where a dotted path is formed, which is where a rule reports it.

``torch.compile`` is formed where ``.compile`` is read off torch (by attribute, getattr,
``__dict__``...), by ``from torch import compile``, or, for builtins, where the bare name is
used. A variable that merely holds it is not reported again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from functools import lru_cache

from kernel_lint.records import cached_property
from kernel_lint.source.survey import Reference, Survey, prefixes

__all__ = ["Reference", "References"]


@lru_cache(maxsize=4096)
def _root(path: str) -> str:
    return path.lstrip(".").partition(".")[0].partition("(")[0].partition("[")[0]


class References:
    """All references of a module, by dotted path."""

    def __init__(self, survey: Survey) -> None:
        self.survey = survey

    @property
    def all(self) -> list[Reference]:
        """Every reference: those of imports, of bare names, of expressions, each in document order."""
        return self.survey.references

    @cached_property
    def _by_path(self) -> dict[str, list[int]]:
        """Positions in ``all`` by the path."""
        table: defaultdict[str, list[int]] = defaultdict(list)
        for index, reference in enumerate(self.all):
            table[reference.path].append(index)
        return dict(table)

    @cached_property
    def _by_prefix(self) -> dict[str, list[str]]:
        """The paths that are, or are reached through, each path."""
        table: defaultdict[str, list[str]] = defaultdict(list)
        for path in self._by_path:
            for prefix in prefixes(path):
                table[prefix].append(path)
        return dict(table)

    def _in_order(self, paths: Iterable[str]) -> list[Reference]:
        return [self.all[index] for index in sorted({i for path in paths for i in self._by_path[path]})]

    def rooted(self, roots: Iterable[str]) -> list[Reference]:
        """Return the references whose path begins in one of these modules, relative ones too."""
        wanted = frozenset(roots)
        return self._in_order(path for path in self._by_path if _root(path) in wanted)

    def to(self, paths: Iterable[str]) -> list[Reference]:
        """Return the references to exactly these paths, in the order of ``all``."""
        return self._in_order(self._by_path.keys() & paths)

    def below(self, roots: Collection[str]) -> list[Reference]:
        """Return the references to these paths and to all that is reached through them, likewise."""
        found = self._by_prefix.keys() & roots
        return self._in_order(path for root in found for path in self._by_prefix[root]) if found else []
