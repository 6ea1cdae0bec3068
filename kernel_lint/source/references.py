"""References: the places where a dotted path is formed, which is where a rule reports it.

``torch.compile`` is formed where ``.compile`` is read off torch (by attribute, getattr,
``__dict__``...), by ``from torch import compile``, or, for builtins, where the bare name is
used. A variable that merely holds it is not reported again.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache

from kernel_lint.records import dataclass
from kernel_lint.source.domain import Attr, Getter, Instance, Namespace, Qual, Super, Value
from kernel_lint.source.names import canonical
from kernel_lint.source.values import Values


@dataclass(frozen=True, slots=True)
class Reference:
    """``node`` is where ``path`` is formed: an expression, or the alias of an import."""

    node: ast.AST
    path: str

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The paths that this one is or is reached through, longest first."""
        return _prefixes(self.path)


@lru_cache(maxsize=4096)
def _prefixes(path: str) -> tuple[str, ...]:
    ends = [index for index, char in enumerate(path) if char in ".([" and index]
    return (path, *(path[:index] for index in reversed(ends)))


class References:
    """All references of a module, by dotted path."""

    def __init__(self, values: Values) -> None:
        self._values = values

    @cached_property
    def all(self) -> list[Reference]:
        """Every reference, in document order of each kind of node."""
        return [*self._imports(), *self._names(), *self._expressions()]

    @cached_property
    def _by_root(self) -> dict[str, list[Reference]]:
        table: dict[str, list[Reference]] = {}
        for reference in self.all:
            root = reference.path.lstrip(".").partition(".")[0].partition("(")[0].partition("[")[0]
            table.setdefault(root, []).append(reference)
        return table

    def to(self, paths: Iterable[str]) -> Iterator[Reference]:
        """Yield the references to exactly these paths."""
        wanted = frozenset(paths)
        for root in {path.partition(".")[0].partition("(")[0] for path in wanted}:
            for reference in self._by_root.get(root, ()):
                if reference.path in wanted:
                    yield reference

    def below(self, roots: Iterable[str]) -> Iterator[Reference]:
        """Yield the references to these paths and to all that is reached through them."""
        wanted = frozenset(roots)
        for first in {path.partition(".")[0].partition("(")[0] for path in wanted}:
            for reference in self._by_root.get(first, ()):
                if not wanted.isdisjoint(reference.prefixes):
                    yield reference

    def _imports(self) -> Iterator[Reference]:
        nodes = self._values.scopes.nodes
        for node in nodes.get(ast.Import, ()):
            assert isinstance(node, ast.Import)
            for alias in node.names:
                yield Reference(alias, canonical(alias.name))
        for node in nodes.get(ast.ImportFrom, ()):
            assert isinstance(node, ast.ImportFrom)
            base = "." * node.level + (node.module or "")
            for alias in node.names:
                joined = f"{base}{'' if base.endswith('.') else '.'}{alias.name}"
                yield Reference(alias, canonical(joined) if alias.name != "*" else joined)

    def _names(self) -> Iterator[Reference]:
        """Bare names that no statement of the module binds: builtins and star imports."""
        values = self._values
        unbound: dict[str, list[str]] = {}
        for node in values.scopes.nodes.get(ast.Name, ()):
            assert isinstance(node, ast.Name)
            if not isinstance(node.ctx, ast.Load) or values.scopes.scope[node].lookup(node.id) is not None:
                continue
            if node.id not in unbound:
                found = values.name(node.id, values.scopes.module)
                unbound[node.id] = [v.name for v in found if isinstance(v, Qual)]
            for path in unbound[node.id]:
                yield Reference(node, path)

    def _expressions(self) -> Iterator[Reference]:
        values = self._values
        for kind in (ast.Attribute, ast.Subscript, ast.Call):
            for node in list(values.scopes.nodes.get(kind, ())):
                assert isinstance(node, ast.expr)
                if isinstance(getattr(node, "ctx", None), ast.Store):
                    continue
                found = values.of(node)
                for value in found:
                    if isinstance(value, Qual) and self._formed_here(node, value):
                        yield Reference(node, value.name)

    def _formed_here(self, node: ast.expr, value: Qual) -> bool:
        """Tell a place that forms the path from one that only passes it on."""
        if isinstance(node, ast.Call):
            functions = self._values.of(node.func)
            if any(isinstance(v, Getter) for v in functions):
                return True
            if any(isinstance(v, Attr) and isinstance(v.base, Namespace) for v in functions):
                # ``sys.__dict__.get("argv")`` reads an attribute.
                return True
            callees = [v.name for v in functions if isinstance(v, Qual)]
            # f() of a local f hands on what f's own text formed; torch.f() only calls torch.f;
            # getattr(torch, "f") and import_module("torch") are what forms a path here.
            return bool(callees) and not any(value.name == canonical(f"{path}()") for path in callees)
        if isinstance(node, (ast.Attribute, ast.Subscript)):
            return any(self._extends(base, node, value) for base in self._values.of(node.value))
        return True

    @staticmethod
    def _extends(base: Value, node: ast.Attribute | ast.Subscript, value: Qual) -> bool:
        if isinstance(base, (Instance, Super)) and isinstance(node, ast.Attribute):
            # self.compile comes from a base class outside; self.f = torch.f was formed elsewhere.
            return value.name.endswith(f"().{node.attr}")
        return isinstance(base, (Qual, Namespace))


def _reads_namespace(value: Value) -> bool:
    return isinstance(value, Attr) and isinstance(value.base, Namespace)
