"""References: the places where a dotted path is formed, which is where a rule reports it.

``torch.compile`` is formed where ``.compile`` is read off torch (by attribute, getattr,
``__dict__``...), by ``from torch import compile``, or, for builtins, where the bare name is
used. A variable that merely holds it is not reported again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache

from kernel_lint.source.survey import Reference, Survey, prefixes

__all__ = ["Reference", "References"]


@lru_cache(maxsize=4096)
def _root(path: str) -> str:
    return path.lstrip(".").partition(".")[0].partition("(")[0].partition("[")[0]


@lru_cache(maxsize=256)
def _roots(paths: frozenset[str]) -> frozenset[str]:
    return frozenset(path.partition(".")[0].partition("(")[0] for path in paths)


class References:
    """All references of a module, by dotted path."""

    def __init__(self, survey: Survey) -> None:
        self.survey = survey

    @property
    def all(self) -> list[Reference]:
        """Every reference: those of imports, of bare names, of expressions, each in document order."""
        return self.survey.references

    @cached_property
    def _by_root(self) -> dict[str, dict[str, list[int]]]:
        """Positions in ``all`` by the first part of the path, and by the path."""
        table: defaultdict[str, defaultdict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for index, reference in enumerate(self.all):
            table[_root(reference.path)][reference.path].append(index)
        return {root: dict(paths) for root, paths in table.items()}

    def rooted(self, roots: Iterable[str]) -> list[Reference]:
        """Return the references whose path begins in one of these modules, relative ones too."""
        table = self._by_root
        found = [i for root in table.keys() & frozenset(roots) for part in table[root].values() for i in part]
        return [self.all[index] for index in sorted(found)]

    def to(self, paths: Iterable[str]) -> Iterator[Reference]:
        """Yield the references to exactly these paths, in the order of ``all``."""
        wanted = frozenset(paths)
        found = [
            index
            for root in _roots(wanted) & self._by_root.keys()
            for path in wanted & self._by_root[root].keys()
            for index in self._by_root[root][path]
        ]
        return (self.all[index] for index in sorted(found))

    def below(self, roots: Iterable[str]) -> Iterator[Reference]:
        """Yield the references to these paths and to all that is reached through them, likewise."""
        wanted = frozenset(roots)
        found = [
            index
            for root in _roots(wanted) & self._by_root.keys()
            for path, indexes in self._by_root[root].items()
            if not wanted.isdisjoint(prefixes(path))
            for index in indexes
        ]
        return (self.all[index] for index in sorted(found))
