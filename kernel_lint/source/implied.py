"""Functions that run without being named where they do.

Metaclasses, ``__class_getitem__``, descriptors, functions registered for a type, and modules inside the
model that are called without saying which.
"""

from __future__ import annotations

import ast
import weakref
from collections import defaultdict
from collections.abc import Iterator

from kernel_lint import TYPE_CHECKING
from kernel_lint.records import cached_property
from kernel_lint.source import members
from kernel_lint.source.domain import Class, Func, Instance, Qual
from kernel_lint.source.scopes import FunctionNode, last_name
from kernel_lint.source.torch_names import is_compute, is_submodule

if TYPE_CHECKING:
    from kernel_lint.source.flow import Flow

# Methods of a metaclass that using its classes runs.
_OF_METACLASS = ("__call__", "__getitem__", "__getattr__", "__iter__", "__contains__")
_SETTERS = ("__set__", "__setattr__")


class Implied:
    """Answers ``targets(function)``: what else running a function may run."""

    def __init__(self, flow: Flow) -> None:
        # Weak, since the flow holds this: a module that was analysed is to be freed at once.
        self._flow = weakref.ref(flow)
        self.values = flow.values
        self.scopes = flow.values.scopes

    @property
    def flow(self) -> Flow:
        """The flow that asks."""
        flow = self._flow()
        assert flow is not None, "the flow is gone: the module was dropped while it was asked"
        return flow

    def targets(self, function: FunctionNode) -> Iterator[FunctionNode]:
        """Yield what running ``function`` runs without naming it."""
        if self._by_class:
            for name in self._mentioned[function]:
                yield from self._by_class.get(name, ())
        yield from self._set.get(function, ())
        yield from self._registered.get(function, ())
        if function in self.flow.entries and not isinstance(function, ast.Lambda):
            yield from self._of_decorators(function)
        if function in self.flow.entries and self.flow.model is not None:
            yield from self.flow.methods(self.flow.model, ("__getattr__", "__getattribute__"))
        if function in self._callers:
            yield from self.forwards

    def _of_decorators(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[FunctionNode]:
        """What a class of the file that decorates a function does in its place."""
        for decorator in function.decorator_list:
            for value in self.values.of(decorator):
                if isinstance(value, Class):
                    yield from self.flow.methods(value.node, ("__init__", "__call__", "__get__"))

    @cached_property
    def _mentioned(self) -> defaultdict[FunctionNode | None, set[str]]:
        found: defaultdict[FunctionNode | None, set[str]] = defaultdict(set)
        for scope in self.scopes.inner.values():
            found[scope.function].update(scope.names)
        return found

    @cached_property
    def _by_class(self) -> dict[str, list[FunctionNode]]:
        """What using a class itself runs, by the name of the class."""
        found: defaultdict[str, list[FunctionNode]] = defaultdict(list)
        for cls in self.scopes.of_type(ast.ClassDef):
            if "__class_getitem__" in self.scopes.inner[cls].bindings:
                found[cls.name].extend(self.flow.methods(cls, ("__class_getitem__",)))
            for keyword in cls.keywords:
                for value in self.values.of(keyword.value) if keyword.arg == "metaclass" else ():
                    if isinstance(value, Class):
                        found[cls.name].extend(self.flow.methods(value.node, _OF_METACLASS))
        return dict(found)

    @cached_property
    def _set(self) -> dict[FunctionNode, list[FunctionNode]]:
        """What storing an attribute runs: ``__set__`` of a descriptor, ``__setattr__`` of the object."""
        found: defaultdict[FunctionNode, list[FunctionNode]] = defaultdict(list)
        if not any(self.flow.has_method(name) for name in _SETTERS):
            return found
        for node in self.flow.survey.written:
            function = self.flow.function_of(node)
            owners = [v.cls for v in self.values.of(node.value) if isinstance(v, Instance)]
            for cls in owners if function is not None else ():
                found[function].extend(self.flow.methods(cls, ("__setattr__",)))  # type: ignore[index]
                for value in members.class_attribute(self.values, cls, node.attr, None):
                    if isinstance(value, Instance):
                        found[function].extend(self.flow.methods(value.cls, ("__set__",)))  # type: ignore[index]
        return found

    @cached_property
    def _registered(self) -> dict[FunctionNode, list[FunctionNode]]:
        """Functions that ``@f.register`` adds to a function f of the file, by what mentions f."""
        added: defaultdict[str, list[FunctionNode]] = defaultdict(list)
        for node in self.scopes.of_type(ast.FunctionDef):
            for decorator in node.decorator_list:
                called = decorator.func if isinstance(decorator, ast.Call) else decorator
                if isinstance(called, ast.Attribute) and called.attr == "register":
                    if any(isinstance(v, Func) for v in self.values.of(called.value)):
                        added[last_name(called.value)].append(node)
        found: defaultdict[FunctionNode, list[FunctionNode]] = defaultdict(list)
        for function, names in self._mentioned.items() if added else ():
            for name in names & added.keys() if function is not None else ():
                found[function].extend(added[name])  # type: ignore[index]
        return found

    @cached_property
    def _callers(self) -> set[FunctionNode | None]:
        """Functions that call some module inside the model: ``for m in self.children(): x = m(x)``."""
        calls = self.flow.survey.calls_below(("torch.nn.Module().",))
        return {self.flow.function_of(call) for call in calls if self.calls_submodule(call)}

    def calls_submodule(self, call: ast.Call) -> bool:
        """Tell whether a call runs some module inside the model."""
        return any(isinstance(v, Qual) and is_submodule(v.name) for v in self.values.of(call.func))

    @cached_property
    def forwards(self) -> list[FunctionNode]:
        """What modules of the file do, but for the model."""
        classes = [
            cls for cls in self.scopes.of_type(ast.ClassDef) if cls is not self.flow.model and cls.bases
        ]
        return [method for cls in classes for method in self.flow.methods(cls, ("forward",))]

    @cached_property
    def holds_layers(self) -> bool:
        """Tell whether some attribute of the module's objects is a layer of PyTorch."""
        scopes, sites = self.scopes, self.values.sites
        stored = [
            b.value for stores in scopes.attribute_stores.values() for _, b in stores if b.value is not None
        ]
        for name in ("setattr", "add_module", "register_module"):
            stored += [argument for call in sites.calls_named(name) for argument in call.args]
        return any(
            isinstance(v, Qual) and v.name.startswith("torch.nn.") and _is_layer(v.name)
            for value in stored
            for v in self.values.of(value)
        )


def _is_layer(path: str) -> bool:
    return path.endswith("()") and is_compute(path + "()")
