"""Where the functions of a module are called, with what, and what methods insert and store."""

from __future__ import annotations

import ast
import weakref
from collections import defaultdict

from kernel_lint import TYPE_CHECKING
from kernel_lint.records import cached_property
from kernel_lint.source import members
from kernel_lint.source.domain import (
    UNKNOWN,
    Class,
    Container,
    Func,
    Instance,
    Partial,
    Qual,
    Value,
    union,
)
from kernel_lint.source.domain import Values as ValueSet
from kernel_lint.source.names import canonical
from kernel_lint.source.scopes import FunctionNode, last_name

if TYPE_CHECKING:
    from kernel_lint.source.values import Values

# Methods that store their next argument under the name at this position.
_NAMED_STORES = (
    ("setattr", 1),
    ("__setattr__", 0),
    ("register_buffer", 0),
    ("register_parameter", 0),
    ("add_module", 0),
    ("register_module", 0),
)
# Methods that put the argument at this position into a container.
_INSERTING = (
    ("append", 0),
    ("setdefault", 1),
    ("add", 0),
    ("insert", 1),
    ("appendleft", 0),
    ("__setitem__", 1),
)
Site = tuple[ast.Call, int]
# What is called may be a function under another name.
_ALIASES = (ast.Call, ast.Subscript, ast.Lambda, ast.IfExp)


class CallSites:
    """Indexes over the calls of a module, built on first use."""

    def __init__(self, values: Values) -> None:
        # Weak, so that an analysed module is freed at once: it holds more objects than the collector
        # of cycles can look through between two files without being noticed.
        self._owner = weakref.ref(values)
        self._building = False
        self._asked = False
        self._decorated: defaultdict[FunctionNode, list[ast.FunctionDef | ast.AsyncFunctionDef]] = (
            defaultdict(list)
        )
        self._passed: dict[FunctionNode, dict[str, list[ast.expr]]] = {}

    @property
    def _values(self) -> Values:
        values = self._owner()
        assert values is not None, "the values are gone: the module was dropped while it was asked"
        return values

    @cached_property
    def _by_function(self) -> dict[FunctionNode, list[Site]]:
        """Where each function is called by name, with how many leading arguments are implied."""
        values, scopes = self._values, self._values.scopes
        sites: defaultdict[FunctionNode, list[Site]] = defaultdict(list)
        local = {node.name for node in scopes.of_type(ast.FunctionDef)}
        local |= {node.name for node in scopes.of_type(ast.AsyncFunctionDef)}
        local |= {node.name for node in scopes.of_type(ast.ClassDef)}
        lambdas, stored = bool(scopes.nodes.get(ast.Lambda)), scopes.attribute_stores
        self._building = True
        try:
            for node in list(scopes.nodes.get(ast.Call, ())):
                assert isinstance(node, ast.Call)
                func = node.func
                if isinstance(func, ast.Name):
                    ours = lambdas or func.id in local or func.id in stored or self._assigned(func)
                elif isinstance(func, ast.Attribute):
                    ours = lambdas or func.attr in local or func.attr in stored
                else:
                    ours = lambdas or isinstance(func, _ALIASES)
                if ours:
                    for value in values.of(func):
                        self._record(sites, value, node)
            self._look_at_decorators()
        finally:
            self._building = False
        if self._asked:
            # What was worked out without knowing the arguments must be worked out again.
            values.forget()
        return dict(sites)

    def _look_at_decorators(self) -> None:
        scopes = self._values.scopes
        functions: list[ast.FunctionDef | ast.AsyncFunctionDef] = [
            *scopes.of_type(ast.FunctionDef),
            *scopes.of_type(ast.AsyncFunctionDef),
        ]
        of = self._values.of
        for node in functions:
            for decorator in node.decorator_list:
                for value in of(decorator):
                    if isinstance(value, Func):
                        self._decorated[value.node].append(node)

    def decorated(self, function: FunctionNode, name: str) -> list[ValueSet]:
        """Return the functions that parameter ``name`` gets where ``function`` is a decorator."""
        if self._building or function not in self._decorated:
            return []
        first = [*function.args.posonlyargs, *function.args.args][:1]
        given = first and first[0].arg == name
        return [frozenset({Func(node)}) for node in self._decorated[function]] if given else []

    def _assigned(self, func: ast.Name) -> bool:
        found = self._values.scopes.scope[func].lookup(func.id)
        return found is not None and any(b.value is not None for b in found[1])

    def _record(self, sites: dict[FunctionNode, list[Site]], value: Value, node: ast.Call) -> None:
        if isinstance(value, Func):
            sites[value.node].append((node, 1 if value.owner is not None else 0))
        elif isinstance(value, Class):
            for init in members.class_attribute(self._values, value.node, "__init__", Instance(value.node)):
                if isinstance(init, Func):
                    sites[init.node].append((node, 1))
        elif isinstance(value, Instance):
            for name in ("__call__", "forward"):
                for method in members.class_attribute(self._values, value.cls, name, value):
                    if isinstance(method, Func):
                        sites[method.node].append((node, 1))
        elif isinstance(value, Partial) and isinstance(value.function, Func):
            sites[value.function.node].append((value.call, -1))

    def arguments(self, function: FunctionNode, name: str) -> list[ValueSet]:
        """Return what the calls in this module pass for parameter ``name``."""
        if self._building:
            self._asked = True
            return []
        nodes = self.argument_nodes(function, name)
        return list(map(self._values.of, nodes)) if nodes else []

    def argument_nodes(self, function: FunctionNode, name: str) -> list[ast.expr]:
        """Return the expressions that the calls in this module pass for parameter ``name``."""
        sites = self._by_function.get(function)
        if not sites:
            return []
        passed = self._passed.get(function)
        if passed is None:
            passed = self._passed[function] = _passed(self._values, function.args, sites)
        return passed.get(name, [])

    @cached_property
    def _returns(self) -> dict[ast.AST, list[ast.expr]]:
        scopes = self._values.scopes
        found: defaultdict[ast.AST, list[ast.expr]] = defaultdict(list)
        for kind in (ast.Return, ast.Yield, ast.YieldFrom):
            for node in scopes.nodes.get(kind, ()):
                function = scopes.scope[node].function
                if function is not None and node.value is not None:  # type: ignore[attr-defined]
                    found[function].append(node.value)  # type: ignore[attr-defined]
        return dict(found)

    def returns(self, function: FunctionNode) -> list[ast.expr]:
        """Return the expressions that a function returns or yields."""
        return self._returns.get(function, [])

    @cached_property
    def _methods(self) -> dict[str, list[ast.Call]]:
        found: defaultdict[str, list[ast.Call]] = defaultdict(list)
        for node in self._values.scopes.of_type(ast.Call):
            func = node.func
            if func.__class__ is ast.Attribute:
                found[func.attr].append(node)
            elif func.__class__ is ast.Name:
                found[func.id].append(node)
        return dict(found)

    def calls_named(self, name: str) -> list[ast.Call]:
        """Return the calls whose callee is spelled ``name`` or ``x.name``."""
        return self._methods.get(name, [])

    @cached_property
    def _inserted(self) -> dict[str, list[ast.expr]]:
        found: defaultdict[str, list[ast.expr]] = defaultdict(list)
        for method, index in _INSERTING:
            for node in self.calls_named(method):
                if isinstance(node.func, ast.Attribute) and len(node.args) > index:
                    found[last_name(node.func.value)].append(node.args[index])
        for node in self.calls_named("extend"):
            if isinstance(node.func, ast.Attribute):
                for argument in node.args:
                    if isinstance(argument, (ast.List, ast.Tuple)):
                        found[last_name(node.func.value)].extend(argument.elts)
                    elif isinstance(argument, (ast.ListComp, ast.GeneratorExp)):
                        found[last_name(node.func.value)].append(argument.elt)
        for added in self._values.scopes.of_type(ast.AugAssign):
            if isinstance(added.value, (ast.List, ast.Tuple)):
                found[last_name(added.target)].extend(added.value.elts)
        for assigned in self._values.scopes.of_type(ast.Assign):
            for target in assigned.targets:
                if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Slice):
                    if isinstance(assigned.value, (ast.List, ast.Tuple)):
                        found[last_name(target.value)].extend(assigned.value.elts)
        for node in self.calls_named("update"):
            if isinstance(node.func, ast.Attribute):
                into = found[last_name(node.func.value)]
                into.extend(k.value for k in node.keywords)
                into.extend(v for a in node.args if isinstance(a, ast.Dict) for v in a.values)
        return dict(found)

    def inserted(self, name: str) -> list[ast.expr]:
        """Return what methods insert into the container called ``name``: append, setdefault..."""
        return self._inserted.get(name, [])

    @cached_property
    def _setattrs(self) -> dict[str, list[ast.expr]]:
        """Values stored by name: setattr(x, "n", v), register_buffer("n", v), add_module("n", m)."""
        found: defaultdict[str, list[ast.expr]] = defaultdict(list)
        for method, key in _NAMED_STORES:
            for node in self.calls_named(method):
                at = key
                if method == "__setattr__" and len(node.args) == 3:
                    at = 1
                if len(node.args) > at + 1:
                    name = node.args[at]
                    if isinstance(name, ast.Constant):
                        found[name.value if isinstance(name.value, str) else ""].append(node.args[at + 1])
                    else:
                        found[""].append(node.args[at + 1])
        for target, binding in self._values.scopes.item_stores.get("__dict__", ()):
            text = target.slice.value if isinstance(target.slice, ast.Constant) else None
            if binding.value is not None and isinstance(text, str):
                found[text].append(binding.value)
        for node in self.calls_named("update"):
            if isinstance(node.func, ast.Attribute) and last_name(node.func.value) == "__dict__":
                for keyword in node.keywords:
                    found[keyword.arg or ""].append(keyword.value)
        return dict(found)

    def named_stores(self, name: str) -> list[ast.expr]:
        """Return what setattr and its like store as ``name``; for "" what they do under unseen names."""
        return self._setattrs.get(name, [])

    def constructor_keywords(self, cls: ast.ClassDef, name: str) -> list[ValueSet]:
        """Return what calls of a class without ``__init__`` (a dataclass) pass for a field."""
        if "__init__" in self._values.scopes.inner[cls].bindings:
            return []
        fields = [
            s.target.id for s in cls.body if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)
        ]
        if name not in fields:
            return []
        found = []
        for node in self.calls_named(cls.name):
            if Class(cls) in self._values.of(node.func):
                index = fields.index(name)
                if index < len(node.args):
                    found.append(self._values.of(node.args[index]))
                found.extend(self._values.of(k.value) for k in node.keywords if k.arg == name)
        return found

    def module(self, name: str) -> ValueSet:
        """Return the module that is imported under a dotted name."""
        if name == "__main__":
            return frozenset({Qual("__main__")})
        return frozenset({Qual(canonical(name))})

    def entered(self, value: Value) -> ValueSet:
        """Return what ``with value as x`` gives x."""
        if isinstance(value, Instance):
            found = members.class_attribute(self._values, value.cls, "__enter__", value)
            parts = [self._values.returned(f) for f in found if isinstance(f, Func)]
            return union(parts) if parts else UNKNOWN
        return frozenset({value})


def _spread(values: Values, given: list[ast.expr]) -> list[ast.expr]:
    """Return arguments with ``*xs`` taken apart where a display shows what is in it."""
    if not any(isinstance(argument, ast.Starred) for argument in given):
        return given
    spread: list[ast.expr] = []
    for argument in given:
        found = values.of(argument.value) if isinstance(argument, ast.Starred) else ()
        held = [v.node for v in found if isinstance(v, Container)]
        display = held[0] if len(held) == len(found) == 1 else None
        spread.extend(display.elts if isinstance(display, (ast.List, ast.Tuple)) else [argument])
    return spread


def _passed(values: Values, arguments: ast.arguments, sites: list[Site]) -> dict[str, list[ast.expr]]:
    """Return what the calls at ``sites`` pass for each parameter of a function."""
    positional = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
    found: defaultdict[str, list[ast.expr]] = defaultdict(list)
    for call, implied in sites:
        # partial(f, a): the first argument is f itself.
        given = _spread(values, call.args[1:] if implied < 0 else call.args)
        taking = positional[max(implied, 0) :]
        for name, argument in zip(taking, given, strict=False):
            if isinstance(argument, ast.Starred):
                break
            found[name].append(argument)
        if arguments.vararg is not None:
            found[arguments.vararg.arg].extend(given[len(taking) :])
        for keyword in call.keywords:
            if keyword.arg is None:
                for held in values.of(keyword.value):
                    if isinstance(held, Container) and isinstance(held.node, ast.Dict):
                        for key, value in zip(held.node.keys, held.node.values, strict=True):
                            if isinstance(key, ast.Constant):
                                found[str(key.value)].append(value)
            else:
                found[keyword.arg].append(keyword.value)
                if arguments.kwarg is not None and keyword.arg not in positional:
                    found[arguments.kwarg.arg].append(keyword.value)
    return dict(found)
