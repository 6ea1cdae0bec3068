"""Where kernels are launched, what the launches write, and which paths launch at all."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from kernel_lint.frameworks import Framework
from kernel_lint.records import cached_property, dataclass
from kernel_lint.source.conditions import Conditions
from kernel_lint.source.copies import carried
from kernel_lint.source.domain import Attr, Func, Instance, Param, Partial, Qual, Unknown
from kernel_lint.source.launch_paths import ITERATORS, is_unused_iterator, may_launch_path
from kernel_lint.source.scopes import FunctionNode, children
from kernel_lint.source.tensors import UNKNOWN_ROOT, Root, Tensors
from kernel_lint.source.writes import Writes

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
# What is not simply evaluated part by part.
_LAUNCH_BY_PART = frozenset({*_DEFINITIONS, ast.Assert, ast.BoolOp, ast.IfExp, ast.Call, *_COMPREHENSIONS})
_SIMPLE_STATEMENTS = frozenset({ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Assert, ast.Pass})


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
        self._launching: dict[FunctionNode, bool] = {}
        self._launches: dict[ast.Call, Launch | None] = {}

    @cached_property
    def _entry_points(self) -> set[FunctionNode]:
        return {*self.flow.launchers(self.framework), *self.flow.kernels(self.framework)}

    @cached_property
    def _with_calls(self) -> set[ast.AST]:
        """The nodes in which something is called: nothing else launches."""
        found: set[ast.AST] = set()
        parent = self.values.scopes.parent
        for call in self.values.scopes.of_type(ast.Call):
            here: ast.AST | None = call
            while here is not None and here not in found:
                found.add(here)
                here = parent.get(here)
        return found

    @cached_property
    def device(self) -> set[FunctionNode]:
        """Kernels, launchers and all that they trace into: code that is not host code."""
        return self.flow.closure(self._entry_points)

    @cached_property
    def host(self) -> set[FunctionNode]:
        """Functions on the path from ``forward`` that run on the host as Python."""
        seen: set[FunctionNode] = set()
        pending = list(self.flow.entries)
        while pending:
            node = pending.pop()
            if node in seen or node in self._entry_points:
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
                if value.function.node in self._entry_points:
                    return Launch(node, value.function.node if len(value.call.args) < 2 else None, True)
            elif isinstance(value, Func):
                if value.node in self._entry_points:
                    return Launch(node, value.node, True)
            elif isinstance(value, Qual):
                certain, possible = may_launch_path(value.name, self.framework.name)
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

    # -- paths -----------------------------------------------------------------------

    def launches(self, function: FunctionNode) -> bool:
        """Tell whether calling a host function launches on every path that returns a result."""
        known = self._launching.get(function)
        if known is None:
            self._launching[function] = False
            known = self._launching[function] = not list(self.bare_returns(function))
        return known

    def bare_returns(self, function: FunctionNode) -> list[ast.AST]:
        """Return the exits of a function that some path reaches without a launch.

        An exit is a return statement, or the function when it runs off its end. Early
        returns for empty inputs and paths that raise are no such exits.
        """
        if isinstance(function, ast.Lambda):
            return [] if self._has_launch(function.body) else [function]
        exits: list[ast.AST] = []
        launched = self._block(function.body, False, exits)
        if launched is False:
            exits.append(function)
        return exits

    def _block(self, block: Sequence[ast.stmt], launched: bool, exits: list[ast.AST]) -> bool | None:
        """Walk statements; return whether the end is reached after a launch, or None if never."""
        state: bool | None = launched
        for statement in block:
            if state is None or isinstance(statement, (ast.Break, ast.Continue)):
                break
            state = self._statement(statement, state, exits)
        return state

    def _statement(self, node: ast.stmt, launched: bool, exits: list[ast.AST]) -> bool | None:
        if node.__class__ in _SIMPLE_STATEMENTS:
            return launched or self._has_launch(node)
        if isinstance(node, ast.Return):
            done = launched or (node.value is not None and self._has_launch(node.value))
            if not done:
                exits.append(node)
            return None
        if isinstance(node, ast.Raise):
            return None
        if isinstance(node, ast.If):
            return self._if(node, launched, exits)
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            test = node.test if isinstance(node, ast.While) else node.iter
            if self.conditions.always_false(test):
                return launched
            inner = self._block(node.body, launched or self._has_launch(test), exits)
            after = bool(inner) or launched
            return self._block(node.orelse, after, exits) if node.orelse else after
        if isinstance(node, (ast.With, ast.AsyncWith)):
            return self._block(
                node.body, launched or any(self._has_launch(i.context_expr) for i in node.items), exits
            )
        if isinstance(node, ast.Try):
            return self._try(node, launched, exits)
        if isinstance(node, ast.Match):
            return self._match(node, launched, exits)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return launched
        return launched or self._has_launch(node)

    def _if(self, node: ast.If, launched: bool, exits: list[ast.AST]) -> bool | None:
        launched = launched or self._has_launch(node.test)
        if self.conditions.always_false(node.test):
            return self._block(node.orelse, launched, exits)
        if self.conditions.always_true(node.test):
            return self._block(node.body, launched, exits)
        body_exits: list[ast.AST] = []
        then = self._block(node.body, launched, body_exits)
        otherwise = self._block(node.orelse, launched, exits)
        if not self.conditions.asks_for_empty(node.test):
            exits.extend(body_exits)
        elif then is False and self._guards_launch(node):
            then = True
        if then is None or otherwise is None:
            return otherwise if then is None else then
        # ``if n > 0: launch``: with nothing to compute there is nothing to launch.
        if then and not otherwise and self.conditions.asks_for_work(node.test):
            return True
        return then and otherwise

    def _guards_launch(self, node: ast.If) -> bool:
        return any(isinstance(s, (ast.Return, ast.Raise)) for s in node.body)

    def _try(self, node: ast.Try, launched: bool, exits: list[ast.AST]) -> bool | None:
        state = self._block(node.body, launched, exits)
        if state is not None and node.orelse:
            state = self._block(node.orelse, state, exits)
        states = [state]
        for handler in node.handlers:
            states.append(self._block(handler.body, launched, exits))
        alive = [s for s in states if s is not None]
        merged: bool | None = all(alive) if alive else None
        if node.finalbody:
            final = self._block(node.finalbody, bool(merged), exits)
            return None if merged is None and not final else (final if merged is not None else None)
        return merged

    def _match(self, node: ast.Match, launched: bool, exits: list[ast.AST]) -> bool | None:
        states = [self._block(case.body, launched, exits) for case in node.cases]
        whole = any(_is_catch_all(case) for case in node.cases)
        alive = [s for s in states if s is not None] + ([] if whole else [launched])
        return all(alive) if alive else None

    def _has_launch(self, node: ast.AST) -> bool:
        """Tell whether evaluating ``node`` surely launches, here or in a function that it calls.

        What stands behind ``and``, ``or`` or a condition is evaluated only on some paths.
        """
        if node not in self._with_calls:
            return False
        if node.__class__ not in _LAUNCH_BY_PART:
            return any(map(self._has_launch, children(node)))
        if isinstance(node, _DEFINITIONS):
            return False
        if isinstance(node, ast.Assert):
            # The message is only worked out when the test fails.
            return self._has_launch(node.test)
        if isinstance(node, ast.BoolOp):
            return self._either_launches(node)
        if isinstance(node, ast.IfExp):
            if self._has_launch(node.test):
                return True
            sides = self._taken_sides(node)
            return all(self._has_launch(side) for side in sides)
        if is_unused_iterator(self.values, node):
            return False
        if isinstance(node, ast.Call):
            if self.launch(node) is not None:
                return True
            if any(self.launches(target) for target in self._host_targets(node)):
                return True
        if isinstance(node, _COMPREHENSIONS):
            if any(self.conditions.always_false(generator.iter) for generator in node.generators):
                return self._has_launch(node.generators[0].iter)
        return any(map(self._has_launch, children(node)))

    def _either_launches(self, node: ast.BoolOp) -> bool:
        goes_on = (
            self.conditions.always_true if isinstance(node.op, ast.And) else self.conditions.always_false
        )
        for part in node.values:
            if self._has_launch(part):
                return True
            if not goes_on(part):
                return False
        return False

    def _taken_sides(self, node: ast.IfExp) -> list[ast.expr]:
        if self.conditions.always_true(node.test):
            return [node.body]
        return [node.orelse] if self.conditions.always_false(node.test) else [node.body, node.orelse]

    def may_launch_in(self, node: ast.AST) -> bool:
        """Tell whether evaluating ``node`` launches on some path."""
        return node in self._with_calls and any(
            isinstance(inner, ast.Call) and self.may_launch(inner) for inner in walk_evaluated(node)
        )

    def may_launch(self, node: ast.Call) -> bool:
        """Tell whether a call launches on some path, here or in a function that it calls."""
        if self.launch(node) is not None:
            return True
        return any(self._some_launch(target, set()) for target in self._host_targets(node))

    def _some_launch(self, function: FunctionNode, seen: set[FunctionNode]) -> bool:
        if function in seen:
            return False
        seen.add(function)
        body = [function.body] if isinstance(function, ast.Lambda) else function.body
        for statement in body:
            for inner in walk_evaluated(statement) if statement in self._with_calls else ():
                if isinstance(inner, ast.Call):
                    if self.launch(inner) is not None:
                        return True
                    if any(self._some_launch(target, seen) for target in self._host_targets(inner)):
                        return True
        return False

    def _host_targets(self, node: ast.Call) -> Iterator[FunctionNode]:
        for value in self.values.of(node.func):
            if isinstance(value, Func):
                yield value.node
            elif isinstance(value, Instance):
                yield from self.flow.methods(value.cls, ("__call__", "forward"))
            elif value in ITERATORS and any(map(self.conditions.always_false, node.args[1:])):
                return
        if self.flow.implied.calls_submodule(node):
            yield from self.flow.implied.forwards
        # A function handed on (map(run, parts), a callback) is taken to be run.
        for argument in [*node.args, *(k.value for k in node.keywords)]:
            if isinstance(argument, (ast.Name, ast.Attribute, ast.Lambda)):
                for value in self.values.of(argument):
                    if isinstance(value, Func) and value.node not in self._entry_points:
                        yield value.node


def walk_evaluated(node: ast.AST) -> Iterator[ast.AST]:
    """Walk what running ``node`` evaluates: not the bodies of functions defined in it."""
    pending = [node]
    while pending:
        inner = pending.pop()
        yield inner
        for child in children(inner):
            if not isinstance(child, _DEFINITIONS):
                pending.append(child)


def _is_catch_all(case: ast.match_case) -> bool:
    return case.guard is None and isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None


__all__ = ["UNKNOWN_ROOT", "Launch", "Launches"]
