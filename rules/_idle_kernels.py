"""Kernels that store nothing, launchers that launch nothing, grids of nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernel_lint.rule import Context, Finding
from kernel_lint.rules._places import header
from kernel_lint.source.launches import Launches
from kernel_lint.source.scopes import FunctionNode, last_name, walk

_LOADS = ("load", "gather")
_NOTHING = "store what the kernel computes to its output"


def idle(context: Context, launches: Launches) -> Iterator[Finding]:
    """Yield what is launched on the path and does no work."""
    targets = {launch.target: None for launch in launches.calls if launch.target is not None}
    kernels = set(context.module.flow.kernels(context.framework))
    launchers = set(context.module.flow.launchers(context.framework))
    for target in targets:
        reached = launches.flow.closure([target])
        if target in launchers and not any(_mentions_launch(context, function) for function in reached):
            yield Finding(
                header(context.module, target),
                f"the launcher `{_name(target)}` launches nothing",
                "call `.launch(...)` on what the kernel gives",
            )
        for function in reached:
            if function in kernels and _stores_nothing(context, launches, function):
                yield Finding(
                    header(context.module, function),
                    f"the kernel `{_name(function)}` stores nothing",
                    _NOTHING,
                )
            yield from _empty_grids(context, function)


def _name(function: FunctionNode) -> str:
    return "lambda" if isinstance(function, ast.Lambda) else function.name


def _mentions_launch(context: Context, function: FunctionNode) -> bool:
    """Whether a name with "launch" in it is called, or something that is not known."""
    for call in context.module.scopes.within(function, ast.Call):
        if "launch" in last_name(call.func).lower() or not isinstance(call.func, (ast.Name, ast.Attribute)):
            return True
    return any("launch" in node.attr for node in context.module.scopes.within(function, ast.Attribute))


def _stores_nothing(context: Context, launches: Launches, kernel: FunctionNode) -> bool:
    """Whether nothing in a kernel's text, nor in what it calls, can store to a tensor that it is given."""
    if launches.writes.parameters(kernel):
        return False
    scopes = context.module.scopes
    for function in launches.flow.closure([kernel]):
        targets = [t for a in scopes.within(function, ast.Assign) for t in a.targets]
        targets += [a.target for a in scopes.within(function, ast.AugAssign)]
        if any(isinstance(target, (ast.Subscript, ast.Attribute)) for target in targets):
            return False
        names = _tensors(function)
        for call in scopes.within(function, ast.Call):
            mentioned = {part.id for part in walk(call) if isinstance(part, ast.Name)}
            if names & mentioned and not any(word in last_name(call.func) for word in _LOADS):
                return False
    return True


def _tensors(function: FunctionNode) -> set[str]:
    arguments = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    return {argument.arg for argument in arguments}


def _empty_grids(context: Context, function: FunctionNode) -> Iterator[Finding]:
    for call in context.module.scopes.within(function, ast.Call):
        for keyword in call.keywords:
            if keyword.arg == "grid" and last_name(call.func) == "launch":
                parts = keyword.value.elts if isinstance(keyword.value, ast.Tuple) else [keyword.value]
                for part in parts:
                    known = context.module.values.constant(part)
                    if known is not None and known.value.__class__ is int and known.value <= 0:
                        yield Finding(
                            part, "the grid has no workgroups: nothing runs", "launch what the input needs"
                        )
