"""References: the places where a dotted path is formed, which is where a rule reports it.

``torch.compile`` is formed where ``.compile`` is read off torch (by attribute, getattr,
``__dict__``...), by ``from torch import compile``, or, for builtins, where the bare name is
used. A variable that merely holds it is not reported again.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Iterable, KeysView
from functools import lru_cache

from kernel_lint.records import cached_property, dataclass
from kernel_lint.source.survey import Survey


@dataclass(slots=True, eq=False)
class Reference:
    """``node`` is where ``path`` is formed: an expression, or the alias of an import."""

    node: ast.AST
    path: str

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The paths that this one is or is reached through, longest first."""
        return prefixes(self.path)


@lru_cache(maxsize=4096)
def prefixes(path: str) -> tuple[str, ...]:
    """Return a dotted path and the paths that it is reached through, longest first."""
    found = [path]
    parted = path.replace("(", ".").replace("[", ".")
    end = parted.rfind(".")
    while end > 0:
        found.append(path[:end])
        end = parted.rfind(".", 0, end)
    return tuple(found)


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
        return [Reference(node, path) for node, path in self.survey.formed]

    @cached_property
    def _by_path(self) -> dict[str, list[int]]:
        """Positions in ``all`` by the path."""
        table: defaultdict[str, list[int]] = defaultdict(list)
        for index, (_, path) in enumerate(self.survey.formed):
            table[path].append(index)
        return table

    @property
    def paths(self) -> KeysView[str]:
        """Every path that is formed, once."""
        return self._by_path.keys()

    @cached_property
    def _prefixes(self) -> set[str]:
        """The paths that are formed and those that they are reached through."""
        return set().union(*map(prefixes, self._by_path))

    def _in_order(self, paths: Iterable[str]) -> list[Reference]:
        formed = self.survey.formed
        places = sorted({index for path in paths for index in self._by_path[path]})
        return [Reference(*formed[index]) for index in places]

    def rooted(self, roots: Iterable[str]) -> list[Reference]:
        """Return the references whose path begins in one of these modules, relative ones too."""
        wanted = frozenset(roots)
        return self._in_order(path for path in self._by_path if _root(path) in wanted)

    def to(self, paths: Iterable[str]) -> list[Reference]:
        """Return the references to exactly these paths, in the order of ``all``."""
        return self._in_order(self._by_path.keys() & paths)

    def below(self, roots: Collection[str]) -> list[Reference]:
        """Return the references to these paths and to all that is reached through them, likewise."""
        found = self._prefixes.intersection(roots)
        if not found:
            return []
        return self._in_order(path for path in self._by_path if not found.isdisjoint(prefixes(path)))
