"""Which paths through host code launch a kernel, and which return a result without."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from kernel_lint.source.domain import Func, Instance
from kernel_lint.source.iterators import ITERATORS, is_unused_iterator
from kernel_lint.source.launches import Launches
from kernel_lint.source.scopes import FunctionNode, children

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
# What is not simply evaluated part by part.
_LAUNCH_BY_PART = frozenset({*_DEFINITIONS, ast.Assert, ast.BoolOp, ast.IfExp, ast.Call, *_COMPREHENSIONS})
_SIMPLE_STATEMENTS = frozenset({ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Assert, ast.Pass})
_NAMING = frozenset({ast.Name, ast.Attribute, ast.Lambda})


class LaunchPaths:
    """Answers, for the functions of one module, whether running them launches, and where it does not."""

    def __init__(self, launches: Launches) -> None:
        self._launches = launches
        self._launch = launches.launch
        self._flow = launches.flow
        self._values = launches.values
        self._scopes = launches.values.scopes
        self.conditions = launches.conditions
        self._launching: dict[FunctionNode, bool] = {}
        self._relevant: dict[FunctionNode | None, set[ast.AST]] = {}
        self._targets: dict[ast.Call, tuple[FunctionNode, ...]] = {}

    def launches(self, function: FunctionNode) -> bool:
        """Tell whether calling a host function launches on every path that returns a result."""
        known = self._launching.get(function)
        if known is None:
            self._launching[function] = False
            known = self._launching[function] = not self.bare_returns(function)
        return known

    def bare_returns(self, function: FunctionNode) -> list[ast.AST]:
        """Return the exits of a function that some path reaches without a launch.

        An exit is a return statement, or the function when it runs off its end. Early
        returns for empty inputs and paths that raise are no such exits.
        """
        relevant = self._relevant_in(function)
        if isinstance(function, ast.Lambda):
            return [] if self._has_launch(function.body, relevant) else [function]
        exits: list[ast.AST] = []
        if _Walk(self, relevant, exits).block(function.body, False) is False:
            exits.append(function)
        return exits

    def may_launch_in(self, node: ast.AST) -> bool:
        """Tell whether evaluating ``node`` launches on some path."""
        relevant = self._relevant_in(self._scopes.scope[node].function)
        return any(self.may_launch(call) for call in self._calls_in(node, relevant))

    def may_launch(self, node: ast.Call) -> bool:
        """Tell whether a call launches on some path, here or in a function that it calls."""
        if self._launch(node) is not None:
            return True
        return any(self._some_launch(target, set()) for target in self._targets_of(node))

    def _some_launch(self, function: FunctionNode, seen: set[FunctionNode]) -> bool:
        if function in seen:
            return False
        seen.add(function)
        relevant = self._relevant_in(function)
        for statement in [function.body] if isinstance(function, ast.Lambda) else function.body:
            for call in self._calls_in(statement, relevant):
                if self._launch(call) is not None:
                    return True
                if any(self._some_launch(target, seen) for target in self._targets_of(call)):
                    return True
        return False

    def _calls_in(self, node: ast.AST, relevant: set[ast.AST]) -> Iterator[ast.Call]:
        """The calls that evaluating ``node`` may run, of those that can launch."""
        if node in relevant:
            for inner in walk_evaluated(node):
                if inner.__class__ is ast.Call and inner in relevant:
                    yield inner

    def _relevant_in(self, function: FunctionNode | None) -> set[ast.AST]:
        """The nodes of a function's own code in which a call launches or runs a function of the module."""
        found = self._relevant.get(function)
        if found is None:
            found = self._relevant[function] = set()
            parent = self._scopes.parent
            for call in self._scopes.by_function(ast.Call).get(function, ()):
                if self._launch(call) is not None or self._targets_of(call):
                    here: ast.AST | None = call
                    while here is not None and here is not function and here not in found:
                        found.add(here)
                        here = parent.get(here)
        return found

    def _has_launch(self, node: ast.AST, relevant: set[ast.AST]) -> bool:
        """Tell whether evaluating ``node`` surely launches, here or in a function that it calls.

        What stands behind ``and``, ``or`` or a condition is evaluated only on some paths.
        """
        if node not in relevant:
            return False
        if node.__class__ not in _LAUNCH_BY_PART:
            return any(self._has_launch(child, relevant) for child in children(node))
        if isinstance(node, _DEFINITIONS):
            return False
        if isinstance(node, ast.Assert):
            # The message is only worked out when the test fails.
            return self._has_launch(node.test, relevant)
        if isinstance(node, ast.BoolOp):
            return self._either_launches(node, relevant)
        if isinstance(node, ast.IfExp):
            if self._has_launch(node.test, relevant):
                return True
            return all(self._has_launch(side, relevant) for side in self._taken_sides(node))
        if is_unused_iterator(self._values, node):
            return False
        if isinstance(node, ast.Call):
            if self._launch(node) is not None or any(map(self.launches, self._targets_of(node))):
                return True
        if isinstance(node, _COMPREHENSIONS):
            if any(self.conditions.always_false(generator.iter) for generator in node.generators):
                return self._has_launch(node.generators[0].iter, relevant)
        return any(self._has_launch(child, relevant) for child in children(node))

    def _either_launches(self, node: ast.BoolOp, relevant: set[ast.AST]) -> bool:
        goes_on = (
            self.conditions.always_true if isinstance(node.op, ast.And) else self.conditions.always_false
        )
        for part in node.values:
            if self._has_launch(part, relevant):
                return True
            if not goes_on(part):
                return False
        return False

    def _taken_sides(self, node: ast.IfExp) -> list[ast.expr]:
        if self.conditions.always_true(node.test):
            return [node.body]
        return [node.orelse] if self.conditions.always_false(node.test) else [node.body, node.orelse]

    def _targets_of(self, node: ast.Call) -> tuple[FunctionNode, ...]:
        """The functions of the module that a call on the host runs."""
        known = self._targets.get(node)
        if known is None:
            known = self._targets[node] = tuple(self._find_targets(node))
        return known

    def _find_targets(self, node: ast.Call) -> Iterator[FunctionNode]:
        of = self._values.of
        for value in of(node.func):
            if value.__class__ is Func:
                yield value.node
            elif value.__class__ is Instance:
                yield from self._flow.methods(value.cls, ("__call__", "forward"))
            elif value in ITERATORS and any(map(self.conditions.always_false, node.args[1:])):
                return
        if self._flow.implied.calls_submodule(node):
            yield from self._flow.implied.forwards
        # A function handed on (map(run, parts), a callback) is taken to be run.
        for argument in [*node.args, *[keyword.value for keyword in node.keywords]]:
            if argument.__class__ in _NAMING:
                for value in of(argument):
                    if value.__class__ is Func and value.node not in self._launches.entry_points:
                        yield value.node


class _Walk:
    """One walk through the statements of a function, which collects the exits without a launch.

    ``relevant`` are the nodes in which something may launch. The state behind a statement is whether a
    launch came before it on every path, or None when nothing comes behind it.
    """

    def __init__(self, paths: LaunchPaths, relevant: set[ast.AST], exits: list[ast.AST]) -> None:
        self._paths = paths
        self._conditions = paths.conditions
        self._relevant = relevant
        self._exits = exits

    def _launches(self, node: ast.AST) -> bool:
        return self._paths._has_launch(node, self._relevant)

    def block(self, block: Sequence[ast.stmt], launched: bool) -> bool | None:
        """Walk statements; return whether the end is reached after a launch, or None if never."""
        state: bool | None = launched
        for statement in block:
            if state is None or isinstance(statement, (ast.Break, ast.Continue)):
                break
            state = self._statement(statement, state)
        return state

    def _statement(self, node: ast.stmt, launched: bool) -> bool | None:
        if node.__class__ in _SIMPLE_STATEMENTS:
            return launched or self._launches(node)
        if isinstance(node, ast.Return):
            done = launched or (node.value is not None and self._launches(node.value))
            if not done:
                self._exits.append(node)
            return None
        if isinstance(node, ast.Raise):
            return None
        if isinstance(node, ast.If):
            return self._if(node, launched)
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            return self._loop(node, launched)
        if isinstance(node, (ast.With, ast.AsyncWith)):
            entered = any(self._launches(item.context_expr) for item in node.items)
            return self.block(node.body, launched or entered)
        if isinstance(node, ast.Try):
            return self._try(node, launched)
        if isinstance(node, ast.Match):
            return self._match(node, launched)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return launched
        return launched or self._launches(node)

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, launched: bool) -> bool | None:
        test = node.test if isinstance(node, ast.While) else node.iter
        if self._conditions.always_false(test):
            return launched
        inner = self.block(node.body, launched or self._launches(test))
        after = bool(inner) or launched
        return self.block(node.orelse, after) if node.orelse else after

    def _if(self, node: ast.If, launched: bool) -> bool | None:
        launched = launched or self._launches(node.test)
        if self._conditions.always_false(node.test):
            return self.block(node.orelse, launched)
        if self._conditions.always_true(node.test):
            return self.block(node.body, launched)
        body_exits: list[ast.AST] = []
        then = _Walk(self._paths, self._relevant, body_exits).block(node.body, launched)
        otherwise = self.block(node.orelse, launched)
        if not self._conditions.asks_for_empty(node.test):
            self._exits.extend(body_exits)
        elif then is False and _guards_launch(node):
            then = True
        if then is None or otherwise is None:
            return otherwise if then is None else then
        # ``if n > 0: launch``: with nothing to compute there is nothing to launch.
        if then and not otherwise and self._conditions.asks_for_work(node.test):
            return True
        return then and otherwise

    def _try(self, node: ast.Try, launched: bool) -> bool | None:
        state = self.block(node.body, launched)
        if state is not None and node.orelse:
            state = self.block(node.orelse, state)
        states = [state]
        for handler in node.handlers:
            states.append(self.block(handler.body, launched))
        alive = [s for s in states if s is not None]
        merged: bool | None = all(alive) if alive else None
        if node.finalbody:
            final = self.block(node.finalbody, bool(merged))
            return None if merged is None and not final else (final if merged is not None else None)
        return merged

    def _match(self, node: ast.Match, launched: bool) -> bool | None:
        states = [self.block(case.body, launched) for case in node.cases]
        whole = any(_is_catch_all(case) for case in node.cases)
        alive = [s for s in states if s is not None] + ([] if whole else [launched])
        return all(alive) if alive else None


def _guards_launch(node: ast.If) -> bool:
    return any(isinstance(s, (ast.Return, ast.Raise)) for s in node.body)


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
