"""Where kernels are launched, and what the launches write."""

from __future__ import annotations

import ast
import sys
from functools import lru_cache

from kernel_lint.frameworks import FRAMEWORKS, Framework
from kernel_lint.records import cached_property, dataclass
from kernel_lint.source.conditions import Conditions
from kernel_lint.source.copies import carried
from kernel_lint.source.domain import Attr, Func, Param, Partial, Qual, Unknown
from kernel_lint.source.scopes import FunctionNode
from kernel_lint.source.tensors import UNKNOWN_ROOT, Root, Tensors
from kernel_lint.source.writes import Writes

_NO_LAUNCHERS = frozenset({"torch", "numpy", "builtins", "typing_extensions", "ml_dtypes"})


@dataclass(frozen=True, slots=True)
class Launch:
    """A host call that launches a kernel.

    ``certain`` is False when the callee is only known to be something that may launch.
    """

    call: ast.Call
    target: FunctionNode | None
    certain: bool


class Launches:
    """Launches on the path from ``Model.forward`` in one kernel language."""

    def __init__(self, tensors: Tensors, framework: Framework) -> None:
        self.tensors = tensors
        self.flow = tensors.flow
        self.values = tensors.values
        self.framework = framework
        self.writes = Writes(self.values)
        self.conditions = Conditions(self.values)
        self._launches: dict[ast.Call, Launch | None] = {}

    @cached_property
    def entry_points(self) -> set[FunctionNode]:
        """The launchers and kernels themselves."""
        return {*self.flow.launchers(self.framework), *self.flow.kernels(self.framework)}

    @cached_property
    def device(self) -> set[FunctionNode]:
        """Kernels, launchers and all that they trace into: code that is not host code."""
        return self.flow.closure(self.entry_points)

    @cached_property
    def host(self) -> set[FunctionNode]:
        """Functions on the path from ``forward`` that run on the host as Python."""
        seen: set[FunctionNode] = set()
        pending = list(self.flow.entries)
        while pending:
            node = pending.pop()
            if node in seen or node in self.entry_points:
                continue
            seen.add(node)
            pending.extend(self.flow.targets_of(node))
        return seen

    @cached_property
    def calls(self) -> list[Launch]:
        """Every launch in host code on the path, in document order."""
        found = []
        host = self.host
        code = self.values.scopes.by_function(ast.Call)
        for function in filter(host.__contains__, code):
            for node in code[function]:
                launch = self.launch(node)
                if launch is not None:
                    found.append(launch)
        return sorted(found, key=lambda launch: (launch.call.lineno, launch.call.col_offset))

    def launch(self, node: ast.Call) -> Launch | None:
        """Return what a call launches, or None when it launches nothing itself."""
        if node not in self._launches:
            self._launches[node] = self._launch(node)
        return self._launches[node]

    def _launch(self, node: ast.Call) -> Launch | None:
        maybe = False
        for value in self.values.of(node.func):
            if isinstance(value, Partial) and isinstance(value.function, Func):
                if value.function.node in self.entry_points:
                    return Launch(node, value.function.node if len(value.call.args) < 2 else None, True)
            elif isinstance(value, Func):
                if value.node in self.entry_points:
                    return Launch(node, value.node, True)
            elif isinstance(value, Qual):
                certain, possible = _may_launch(value.name, self.framework.name)
                if certain:
                    return Launch(node, None, True)
                maybe = maybe or possible
            elif isinstance(value, Attr):
                if value.name == "launch":
                    return Launch(node, self._kernel_of(node), True)
                maybe = maybe or value.name in ("()", "[]")
            elif isinstance(value, (Unknown, Param)):
                maybe = True
        if isinstance(node.func, ast.Attribute) and node.func.attr == "launch" and not self._is_ours(node):
            return Launch(node, self._kernel_of(node), True)
        if not maybe:
            return None
        takes_tensor = any(
            self.tensors.may_be_tensor(a) for a in [*node.args, *(k.value for k in node.keywords)]
        )
        return Launch(node, None, False) if takes_tensor and not self._is_method(node) else None

    def _is_method(self, node: ast.Call) -> bool:
        """A method of a tensor is no launch, whatever else the receiver may be."""
        return isinstance(node.func, ast.Attribute) and self.tensors.may_be_tensor(node.func.value)

    def _is_ours(self, node: ast.Call) -> bool:
        """A function of the module that is only called ``launch``: what it does shows in its text."""
        found = self.values.of(node.func)
        return bool(found) and all(isinstance(v, Func) for v in found)

    def _kernel_of(self, node: ast.Call) -> FunctionNode | None:
        """The kernel in ``kernel(...).launch(...)``."""
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call):
            for value in self.values.of(node.func.value.func):
                if isinstance(value, Func):
                    return value.node
        return None

    # -- what a launch writes ------------------------------------------------------

    @cached_property
    def written_roots(self) -> frozenset[Root]:
        """The storage that the launches on the path may write, and what is copied from it."""
        roots: set[Root] = set()
        for launch in self.calls:
            for argument in self.written_arguments(launch):
                roots |= self.tensors.roots(argument)
        return carried(self.tensors, self.host, frozenset(roots))

    def written_arguments(self, launch: Launch) -> list[ast.expr]:
        """Return the arguments of a launch that the kernel may store to."""
        call = launch.call
        everything = [*call.args, *(k.value for k in call.keywords)]
        if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Call):
            everything.extend(call.func.value.args)
        target = launch.target
        if target is None:
            return everything
        written = self.writes.parameters(target)
        names = [a.arg for a in (*target.args.posonlyargs, *target.args.args)]
        if not written or any(isinstance(a, ast.Starred) for a in call.args):
            return everything
        given = [a for name, a in zip(names, call.args, strict=False) if name in written]
        given.extend(call.args[len(names) :])
        given.extend(k.value for k in call.keywords if k.arg is None or k.arg in written)
        return given


@lru_cache(maxsize=8192)
def _may_launch(path: str, language: str) -> tuple[bool, bool]:
    """Tell whether a call of a path launches, surely or possibly."""
    framework = FRAMEWORKS[language]
    head, _, tail = path.rpartition("(")
    if head in framework.compilers and tail == ")":
        return True, True
    if path.partition(".")[0] in framework.imports:
        return False, path.endswith((".launch", "()"))
    # A helper of the same workspace: packaging will show what it does.
    return False, not _is_known(path)


def _is_known(path: str) -> bool:
    """Tell whether a path starts at a module that launches no kernel of ours by itself."""
    root = path.partition(".")[0].partition("(")[0]
    return root in _NO_LAUNCHERS or root in sys.stdlib_module_names or path.startswith("__")


__all__ = ["UNKNOWN_ROOT", "Launch", "Launches"]
