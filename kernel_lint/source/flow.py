"""Reachability: which functions ``Model.forward`` may run, and which code runs on the device."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from kernel_lint import TYPE_CHECKING
from kernel_lint.records import cached_property
from kernel_lint.source import members
from kernel_lint.source.domain import Class, Func, Instance, Param, Partial, Qual
from kernel_lint.source.implied import Implied
from kernel_lint.source.scopes import FunctionNode, ScopeKind, last_name

if TYPE_CHECKING:
    from kernel_lint.frameworks import Framework
    from kernel_lint.source.scope_model import NodeT
    from kernel_lint.source.survey import Survey

_HOOKS = frozenset(
    """register_forward_hook register_forward_pre_hook register_full_backward_hook register_hook
    register_module_forward_hook register_module_forward_pre_hook""".split()
)
# Where a module and PyTorch keep hooks.
_HOOK_TABLES = ("_forward_hooks", "_forward_pre_hooks", "_global_forward_hooks", "_global_forward_pre_hooks")
_CALLED = ("forward", "__call__", "_call_impl", "_wrapped_call_impl")


class Flow:
    """The call graph of one module, built on demand."""

    def __init__(self, survey: Survey) -> None:
        self.survey = survey
        self.values = survey.values
        self._kernels: dict[str, list[ast.FunctionDef]] = {}
        self._launchers: dict[str, list[ast.FunctionDef]] = {}
        self._called: dict[FunctionNode, tuple[FunctionNode, ...]] = {}

    # -- device code --------------------------------------------------------------

    def kernels(self, framework: Framework) -> list[ast.FunctionDef]:
        """Return the functions decorated as kernels."""
        if framework.name not in self._kernels:
            self._kernels[framework.name] = list(self._decorated(framework.kernels))
        return self._kernels[framework.name]

    def launchers(self, framework: Framework) -> list[ast.FunctionDef]:
        """Return the functions decorated as launchers of kernels."""
        if framework.name not in self._launchers:
            self._launchers[framework.name] = list(self._decorated(framework.launchers))
        return self._launchers[framework.name]

    def _decorated(self, names: frozenset[str]) -> Iterator[ast.FunctionDef]:
        return (node for node, found in self._decorators if not found.isdisjoint(names))

    @cached_property
    def _decorators(self) -> list[tuple[ast.FunctionDef, set[str]]]:
        """The functions that have decorators, with the paths of these."""
        return [
            (node, set().union(*map(self._decorator_names, node.decorator_list)))
            for node in self.values.scopes.of_type(ast.FunctionDef)
            if node.decorator_list
        ]

    def _decorator_names(self, decorator: ast.expr) -> set[str]:
        function = decorator.func if isinstance(decorator, ast.Call) else decorator
        return {v.name for v in self.values.of(function) if isinstance(v, Qual)}

    # -- reachability -------------------------------------------------------------

    @cached_property
    def implied(self) -> Implied:
        """What runs without being named where it does."""
        return Implied(self)

    @cached_property
    def model(self) -> ast.ClassDef | None:
        """The class that the name ``Model`` stands for at module level, or None."""
        found = self.values.scopes.module.bindings.get("Model")
        if not found:
            return None
        classes = [
            v.node for v in self.values.name("Model", self.values.scopes.module) if isinstance(v, Class)
        ]
        return max(classes, key=lambda node: node.lineno) if classes else None

    @cached_property
    def entries(self) -> list[FunctionNode]:
        """The functions that calling the model runs: ``forward``, ``__call__``, hooks."""
        if self.model is None:
            return []
        found: list[FunctionNode] = []
        for name in self._defined(_CALLED):
            values = members.instance_attribute(self.values, Instance(self.model), name)
            found.extend(v.node for v in values if isinstance(v, Func))
            for target, binding in self.values.scopes.attribute_stores.get(name, ()):
                if binding.value is not None and self._is_model_class(target.value):
                    found.extend(v.node for v in self.values.of(binding.value) if isinstance(v, Func))
        for new in self.methods(self.model, ("__new__",)):
            for value in self.values.returned(Func(new)):
                if isinstance(value, Instance) and value.cls is not self.model:
                    found.extend(self.methods(value.cls, _CALLED))
        for name in _HOOK_TABLES:
            for _, binding in self.values.scopes.item_stores.get(name, ()):
                if binding.value is not None:
                    found.extend(v.node for v in self.values.of(binding.value) if isinstance(v, Func))
        for name in _HOOKS:
            for call in self.values.sites.calls_named(name):
                found.extend(v.node for a in call.args for v in self.values.of(a) if isinstance(v, Func))
        return sorted(set(found), key=lambda node: (node.lineno, node.col_offset))

    @cached_property
    def _family(self) -> list[ast.ClassDef]:
        """The model and the classes of the file that it derives from."""
        family = [self.model] if self.model is not None else []
        for cls in family:
            bases = [b.node for b in members.bases(self.values, cls) if isinstance(b, Class)]
            family.extend(node for node in bases if node not in family)
        return family

    def _is_model_class(self, node: ast.expr) -> bool:
        """Tell whether an expression is the class of the model, or what a decorator of it is given for it."""
        assert self.model is not None
        found = self.values.of(node)
        if Class(self.model) in found or last_name(node) == "__class__":
            return True
        family = {base for cls in self._family for base in members.bases(self.values, cls)}
        if not family.isdisjoint(v for v in found if isinstance(v, Class)):
            return True
        decorators = {
            v.node for d in self.model.decorator_list for v in self.values.of(d) if isinstance(v, Func)
        }
        return any(isinstance(v, Param) and v.function in decorators for v in found)

    @cached_property
    def reachable(self) -> set[FunctionNode]:
        """Every function that may run when the model is called."""
        return self.closure(self.entries)

    @cached_property
    def init_reachable(self) -> set[FunctionNode]:
        """Every function that may run when the module is imported or the model is built."""
        roots: list[FunctionNode] = []
        if self.model is not None:
            for name in self._defined(("__init__", "__new__")):
                values = members.instance_attribute(self.values, Instance(self.model), name)
                roots.extend(v.node for v in values if isinstance(v, Func))
        for node in self.survey.running.get(None, ()):
            if self._is_called(node):
                roots.extend(self._targets(node))
        return self.closure(roots)

    def closure(self, roots: Iterable[FunctionNode]) -> set[FunctionNode]:
        """Return ``roots`` and all functions that they refer to, directly or through others."""
        seen: set[FunctionNode] = set()
        pending = list(roots)
        while pending:
            node = pending.pop()
            if node in seen:
                continue
            seen.add(node)
            pending.extend(self.targets_of(node))
        return seen

    def targets_of(self, function: FunctionNode) -> tuple[FunctionNode, ...]:
        """Return the functions that running ``function`` may run or hand on to be run."""
        known = self._called.get(function)
        if known is None:
            references = self.survey.running.get(function, ())
            found = {target: None for reference in references for target in self._targets(reference)}
            found.update(dict.fromkeys(self.implied.targets(function)))
            known = self._called[function] = tuple(found)
        return known

    def _targets(self, node: ast.expr) -> Iterator[FunctionNode]:
        """The functions that running an expression may run or hand on to be run."""
        for value in self.values.of(node):
            if isinstance(value, Func):
                yield value.node
            elif isinstance(value, Partial) and isinstance(value.function, Func):
                yield value.function.node
            elif isinstance(value, Instance) and isinstance(node, ast.Call):
                yield from self.methods(
                    value.cls, ("__init__", "__new__", "__post_init__", "__getattr__", "__getitem__")
                )
                yield from self.methods(value.cls, ("__enter__", "__exit__", "__iter__", "__next__"))
        if isinstance(node, ast.Call):
            for value in self.values.of(node.func):
                if isinstance(value, Instance):
                    yield from self.methods(value.cls, ("__call__", "forward"))
                elif isinstance(value, Partial) and isinstance(value.function, Func):
                    yield value.function.node
                elif isinstance(value, Class):
                    yield from self.methods(value.node, ("__init__", "__new__", "__post_init__"))
        elif isinstance(node, ast.Attribute):
            yield from self._properties(node)

    def _defined(self, names: tuple[str, ...]) -> list[str]:
        """Leave out the names under which nothing in the module can give an object a method."""
        stored, named = self.values.scopes.attribute_stores, self.values.sites.named_stores
        return [name for name in names if name in self._in_classes or name in stored or named(name)]

    def has_method(self, name: str) -> bool:
        """Tell whether something in the module can give an object a method of this name."""
        return bool(self._defined((name,)))

    @cached_property
    def _in_classes(self) -> set[str]:
        """The names that the bodies of classes bind or mention."""
        scopes = self.values.scopes.inner.values()
        classes = [scope for scope in scopes if scope.kind is ScopeKind.CLASS]
        return {name for scope in classes for name in (*scope.bindings, *scope.names)}

    def methods(self, cls: ast.ClassDef, names: tuple[str, ...]) -> Iterator[FunctionNode]:
        """Yield the methods of a class that have one of these names, inherited ones too."""
        for name in self._defined(names):
            for value in members.class_attribute(self.values, cls, name, Instance(cls)):
                if isinstance(value, Func):
                    yield value.node

    def _properties(self, node: ast.Attribute) -> Iterator[FunctionNode]:
        for owner in self.values.of(node.value):
            if isinstance(owner, Instance):
                for value in members.class_attribute(self.values, owner.cls, node.attr, owner):
                    if isinstance(value, Func):
                        yield value.node
                    elif isinstance(value, Instance):
                        yield from self.methods(value.cls, ("__get__",))

    def _is_called(self, node: ast.expr) -> bool:
        """Whether module-level code calls, or decorates with, what ``node`` names."""
        parent = self.values.scopes.parent.get(node)
        if isinstance(parent, ast.Call) or isinstance(node, ast.Call):
            return True
        return isinstance(parent, (ast.FunctionDef, ast.ClassDef)) and node in parent.decorator_list

    def function_of(self, node: ast.AST) -> FunctionNode | None:
        """Return the innermost function whose code ``node`` is."""
        return self.values.scopes.scope[node].function

    def on_path(self, node: ast.AST) -> bool:
        """Tell whether ``node`` is code that runs when the model is called."""
        function = self.function_of(node)
        return function is not None and function in self.reachable

    def on_path_of(self, kind: type[NodeT]) -> list[NodeT]:
        """Return the nodes of one type that are code that runs when the model is called."""
        nodes, scopes, reachable = self.values.scopes.of_type(kind), self.values.scopes.scope, self.reachable
        return [node for node in nodes if scopes[node].function in reachable]

    def method_class(self, function: FunctionNode) -> ast.ClassDef | None:
        """Return the class whose method ``function`` is, or None."""
        scope = self.values.scopes.scope[function]
        return scope.node if scope.kind is ScopeKind.CLASS and isinstance(scope.node, ast.ClassDef) else None
