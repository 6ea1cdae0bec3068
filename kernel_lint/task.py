"""The task's own files (reference.py, input.py, shapes.json), read without running them."""

from __future__ import annotations

import ast

from kernel_lint import TYPE_CHECKING
from kernel_lint.errors import KernelLintError
from kernel_lint.files import read_regular
from kernel_lint.records import dataclass
from kernel_lint.source.module import SourceError, SourceModule

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a function by name, without ``self``.

    ``required`` have no default; ``variadic`` tells of ``**kwargs``.
    """

    names: tuple[str, ...]
    required: frozenset[str]
    positional_variadic: bool
    keyword_variadic: bool


@dataclass(frozen=True, slots=True)
class TaskFiles:
    """What the reference and the inputs ask of a candidate, as far as their text tells.

    ``input_keys`` is None when the keys of what ``_make_inputs`` returns cannot be read off.
    """

    reference: SourceModule
    init: Signature | None
    forward: Signature | None
    input_keys: tuple[str, ...] | None
    shapes: dict[str, Any]


def signature_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Signature:
    """Return the signature of a method."""
    arguments = node.args
    positional = [a.arg for a in (*arguments.posonlyargs, *arguments.args)][1:]
    defaults = len(arguments.defaults)
    required = set(positional[: len(positional) - defaults] if defaults else positional)
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        positional.append(argument.arg)
        if default is None:
            required.add(argument.arg)
    return Signature(
        tuple(positional), frozenset(required), arguments.vararg is not None, arguments.kwarg is not None
    )


def read_task(reference: Path) -> TaskFiles:
    """Read a task from the path of its reference; the other files are looked for beside it.

    Raises KernelLintError when the reference cannot be read or has no class Model.
    """
    module = _read(reference)
    model = find_class(module.tree, "Model")
    if model is None:
        raise KernelLintError(f"{reference} defines no class Model", "name the task's reference.py")
    methods = {n.name: n for n in model.body if isinstance(n, ast.FunctionDef)}
    init, forward = methods.get("__init__"), methods.get("forward")
    keys = None
    inputs = reference.with_name("input.py")
    if inputs.exists():
        keys = input_keys(_read(inputs))
    return TaskFiles(
        module,
        signature_of(init) if init else Signature((), frozenset(), False, False),
        signature_of(forward) if forward else None,
        keys,
        _shapes(reference.with_name("shapes.json")),
    )


def _read(path: Path) -> SourceModule:
    try:
        module = SourceModule.read(path)
    except SourceError as error:
        raise KernelLintError(f"{path} {error.message}", error.remedy) from error
    if module.problem is not None:
        raise KernelLintError(
            f"{path}:{module.problem.span.line}: {module.problem.message}", "mend the task's file"
        )
    return module


def _shapes(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    import json

    try:
        shapes = json.loads(read_regular(path))
    except (OSError, ValueError) as error:
        raise KernelLintError(
            f"{path} is not readable JSON: {error}", "mend the task's shapes.json"
        ) from error
    if not isinstance(shapes, dict):
        raise KernelLintError(f"{path} holds no JSON object", "map shape ids to init_kwargs and input_kwargs")
    return shapes


def find_class(tree: ast.Module, name: str) -> ast.ClassDef | None:
    """Return the last class of that name at module level (also inside ``if`` and ``try``)."""
    found = None
    pending: list[ast.stmt] = list(tree.body)
    while pending:
        node = pending.pop(0)
        if isinstance(node, ast.ClassDef) and node.name == name:
            found = node
        elif isinstance(node, (ast.If, ast.Try, ast.With)):
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.stmt):
                    pending.append(child)
                elif isinstance(child, ast.ExceptHandler):
                    pending.extend(child.body)
    return found


def input_keys(module: SourceModule) -> tuple[str, ...] | None:
    """Return the keys of the dict that ``_make_inputs`` returns, when its text spells them out."""
    makers = [n for n in module.tree.body if isinstance(n, ast.FunctionDef) and n.name == "_make_inputs"]
    if not makers:
        return None
    returned = module.values.sites.returns(makers[-1])
    keys: list[str] = []
    for expression in returned:
        if not isinstance(expression, ast.Dict):
            return None
        for key in expression.keys:
            value = module.values.constant(key) if key is not None else None
            if value is None or not isinstance(value.value, str):
                return None
            if value.value not in keys:
                keys.append(value.value)
    return tuple(keys) if returned else None
