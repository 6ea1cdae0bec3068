"""Which modules the imports of which module may run, those in functions included."""

from __future__ import annotations

from kernel_lint import TYPE_CHECKING

if TYPE_CHECKING:
    from kernel_lint.packager.model import ImportSite, Module


class Reach:
    """Answers whether one module reaches another by imports, in a time that grows with the modules.

    Modules that reach each other form groups, the strongly connected components of the graph. Tarjan's
    algorithm finds them in such an order that a group reaches none but those found before it.
    """

    def __init__(self, modules: dict[str, Module]) -> None:
        self.modules = modules
        self._known = -1
        self._edges: dict[str, list[str]] = {}
        self._groups: dict[str, int] = {}
        self._cyclic: set[int] = set()
        self._below: dict[str, set[str]] = {}

    def reaches(self, name: str, other: str) -> bool:
        """Whether running ``name`` may run ``other``; of a module itself, whether it is in a cycle."""
        if self._known != len(self.modules):
            self._find_groups()
        if other not in self._groups:
            return False
        first, second = self._groups[name], self._groups[other]
        if first == second:
            return first in self._cyclic
        return second < first and other in self._all_below(name)

    def clear(self) -> None:
        """Forget everything: what the modules import has changed."""
        self._known = -1

    def _all_below(self, name: str) -> set[str]:
        if name not in self._below:
            seen: set[str] = set()
            stack = [name]
            while stack:
                new = [other for other in self._edges[stack.pop()] if other not in seen]
                seen.update(new)
                stack.extend(new)
            self._below[name] = seen
        return self._below[name]

    def _find_groups(self) -> None:
        modules = self.modules
        self._known = len(modules)
        self._edges = {
            name: list(dict.fromkeys(other for site in module.sites for other in named(modules, site)))
            for name, module in modules.items()
        }
        self._groups, self._cyclic, self._below = {}, set(), {}
        numbers: dict[str, int] = {}
        for name in modules:
            if name not in numbers:
                self._walk(name, numbers)

    def _walk(self, root: str, numbers: dict[str, int]) -> None:
        """Group what ``root`` reaches, by Tarjan's algorithm without recursion."""
        lowest: dict[str, int] = {}
        open_: list[str] = []
        stack = [(root, iter(self._edges[root]))]
        numbers[root] = lowest[root] = len(numbers)
        open_.append(root)
        while stack:
            name, rest = stack[-1]
            other = next(rest, None)
            if other is None:
                stack.pop()
                if stack:
                    above = stack[-1][0]
                    lowest[above] = min(lowest[above], lowest[name])
                if lowest[name] == numbers[name]:
                    self._close(name, open_)
            elif other not in numbers:
                numbers[other] = lowest[other] = len(numbers)
                open_.append(other)
                stack.append((other, iter(self._edges[other])))
            elif other not in self._groups:
                lowest[name] = min(lowest[name], numbers[other])

    def _close(self, name: str, open_: list[str]) -> None:
        group = len(self._groups)  # larger than that of any group before
        if open_[-1] != name or name in self._edges[name]:
            self._cyclic.add(group)
        member = ""
        while member != name:
            member = open_.pop()
            self._groups[member] = group


def named(modules: dict[str, Module], site: ImportSite) -> list[str]:
    """Return those of ``modules`` that an import may run, parents first."""
    name = site.module or ""
    found = [f"{name}.{site.alias.name}"] if f"{name}.{site.alias.name}" in modules else []
    while name:
        if name in modules:
            found.append(name)
        name = name.rpartition(".")[0]
    found.reverse()
    return found
