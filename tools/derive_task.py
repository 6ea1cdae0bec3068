"""Make ``input.py`` and ``shapes.json`` for a reference that came without them.

In order: the files beside the reference; ``get_inputs`` and ``get_init_inputs`` in it (the convention of
KernelBench); else the smallest inputs that the reference runs on, found by trying. Whatever was
not given is said as an assumption.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from kernel_lint.errors import KernelLintError
from kernel_lint.tools import reference_task

_SIZE = 64
_ODD_SIZE = 37
"""A size that no tile, vector or wave divides, for the boundary shape."""

_RANKS = ((_SIZE, _SIZE), (4, _SIZE, _SIZE), (2, 4, _SIZE, _SIZE), (_SIZE,))
_INDICES = 32
"""Integer inputs may be indices: they stay below every size."""

_DTYPES = ("float32", "bfloat16", "float16", "int64")
_MAX_TRIES = 2000

_Sizes = tuple[dict[str, Any], tuple[tuple[int, ...], ...]]
"""Arguments of Model, and the shape of each input."""


@dataclass(frozen=True, slots=True)
class DerivedTask:
    """The text of the two files, and what had to be assumed to write them."""

    inputs: str
    shapes: str
    assumptions: tuple[str, ...]


def derive(reference: Path, inputs: Path | None = None, shapes: Path | None = None) -> DerivedTask:
    """Return the texts of ``input.py`` and ``shapes.json`` for a reference.

    Raises :class:`KernelLintError` when a given file is missing, or no inputs are found that it runs on.
    """
    given_inputs = _read(inputs, reference.parent / "input.py")
    given_shapes = _read(shapes, reference.parent / "shapes.json")
    if given_inputs is not None and given_shapes is not None:
        return DerivedTask(given_inputs, given_shapes, ())
    if given_inputs is None and given_shapes is not None:
        remedy = "give both --inputs and --shapes, or neither"
        raise KernelLintError(f"{reference} has a shapes.json but no input.py", remedy)
    with reference_task.local_imports(reference.parent):
        module = reference_task.import_file(reference)
        if given_inputs is not None:
            return _shapes_for(module, given_inputs)
        return _from_get_inputs(reference, module) or _smallest(reference, module)


def _read(given: Path | None, beside: Path) -> str | None:
    """Return a given file's text, else that of the one beside the reference, else None."""
    path = given or beside
    if given is not None and not given.is_file():
        raise KernelLintError(f"{given} does not exist", "name an existing file")
    return path.read_text(encoding="utf-8") if path.is_file() else None


def _shapes_for(module: ModuleType, inputs: str) -> DerivedTask:
    """Write a shapes.json of one shape, possible when every argument has a default."""
    factory = next(
        (
            node
            for node in ast.parse(inputs).body
            if isinstance(node, ast.FunctionDef) and node.name == "_make_inputs"
        ),
        None,
    )
    if factory is None:
        raise KernelLintError(
            "the inputs file defines no _make_inputs", "see the contract's section on the evaluator"
        )
    needed = [
        argument.arg for argument in factory.args.args[: len(factory.args.args) - len(factory.args.defaults)]
    ]
    needed += [name for name, _ in _required(module.Model)]
    if needed:
        raise KernelLintError(
            f"no shapes.json, and these have no default: {', '.join(needed)}", "give --shapes FILE"
        )
    text = _shapes_text({}, {})
    return DerivedTask(inputs, text, ("shapes.json: one shape with every argument at its default",))


def _from_get_inputs(reference: Path, module: ModuleType) -> DerivedTask | None:
    """Wrap ``get_inputs()``: the reference says itself what it runs on."""
    if not callable(getattr(module, "get_inputs", None)):
        return None
    names = _input_names(module.Model)
    values = list(module.get_init_inputs()) if callable(getattr(module, "get_init_inputs", None)) else []
    init_names = list(inspect.signature(module.Model.__init__).parameters)[1:]
    init_kwargs = dict(zip(init_names, values, strict=False))
    if not _is_json(init_kwargs):
        raise KernelLintError(
            f"{reference}: get_init_inputs returns values that JSON cannot hold", "give --shapes FILE"
        )
    text = (
        f'"""Inputs of the task, from get_inputs in {reference.name}."""\n\n'
        "from reference import get_inputs\n\n"
        f"NAMES = {tuple(names)!r}\n\n\n"
        "def _make_inputs():\n"
        "    return dict(zip(NAMES, get_inputs()))\n"
    )
    assumption = "input.py and shapes.json: one shape, from get_inputs and get_init_inputs of the reference"
    return DerivedTask(text, _shapes_text(init_kwargs, {}), (assumption,))


def _smallest(reference: Path, module: ModuleType) -> DerivedTask:
    """Try small tensors until the reference runs; ranks before dtypes, all inputs alike first."""
    names = _input_names(module.Model, required_only=True)
    if not names:
        raise KernelLintError(f"{reference}: Model.forward takes no inputs", "give --inputs and --shapes")
    init_kwargs = {name: _init_value(annotation) for name, annotation in _required(module.Model)}
    for shapes, dtype in itertools.islice(_candidates(len(names)), _MAX_TRIES):
        if _runs(module, names, init_kwargs, shapes, dtype):
            odd = (_resized(init_kwargs), tuple(map(_resized_shape, shapes)))
            boundary = odd if _runs(module, names, *odd, dtype) else None
            return _write(names, (init_kwargs, shapes), boundary, dtype)
    raise KernelLintError(
        f"{reference} has no inputs, and no small tensors were found that it runs on",
        "give --inputs input.py and --shapes shapes.json",
    )


def _candidates(count: int) -> Iterator[tuple[tuple[tuple[int, ...], ...], str]]:
    for dtype in _DTYPES:
        for shape in _RANKS:
            yield (shape,) * count, dtype
    for dtype in _DTYPES:
        yield from ((shapes, dtype) for shapes in itertools.product(_RANKS, repeat=count))


def _runs(
    module: ModuleType,
    names: list[str],
    init_kwargs: dict[str, Any],
    shapes: tuple[tuple[int, ...], ...],
    dtype: str,
) -> bool:
    """Whether the reference runs, with real tensors: values may decide (an index, a sign)."""
    import torch

    try:
        torch.manual_seed(0)
        tensors = {name: _tensor(shape, dtype) for name, shape in zip(names, shapes, strict=True)}
        with torch.no_grad():
            module.Model(**init_kwargs)(**tensors)
    except Exception:  # the point of the trial: any failure means "not these"
        return False
    return True


def _tensor(shape: tuple[int, ...], dtype: str) -> Any:
    import torch

    kind = getattr(torch, dtype)
    return torch.randn(shape).to(kind) if kind.is_floating_point else torch.randint(0, _INDICES, shape)


def _write(names: list[str], base: _Sizes, boundary: _Sizes | None, dtype: str) -> DerivedTask:
    draw = (
        f"torch.randint(0, {_INDICES}, shape)"
        if dtype == "int64"
        else f"torch.randn(shape, dtype=torch.{dtype})"
    )
    text = (
        '"""Inputs of the task: the smallest that the reference, which came without any, runs on."""\n\n'
        "import torch\n\n\n"
        f"def _make_inputs({', '.join(f'{name}_shape' for name in names)}):\n"
        '    device = "cuda" if torch.cuda.is_available() else "cpu"\n'
        f"    shapes = {{{', '.join(f'{name!r}: {name}_shape' for name in names)}}}\n"
        f"    return {{name: {draw}.to(device) for name, shape in shapes.items()}}\n"
    )
    entries = {}
    assumptions = []
    for label, sizes in (("base", base), ("odd", boundary)):
        if sizes is None:
            assumptions.append("no boundary shape: the reference does not run on odd sizes")
            continue
        init_kwargs, shapes = sizes
        input_kwargs = {f"{name}_shape": list(shape) for name, shape in zip(names, shapes, strict=True)}
        entries[label] = {"init_kwargs": init_kwargs, "input_kwargs": input_kwargs}
        shown = ", ".join(f"{name} {list(shape)}" for name, shape in zip(names, shapes, strict=True))
        built = ", ".join(f"{key}={value!r}" for key, value in init_kwargs.items())
        assumptions.append(f"shape {label}: {dtype} {shown}" + (f"; Model({built})" if built else ""))
    return DerivedTask(text, json.dumps(entries, indent=2) + "\n", tuple(assumptions))


def _resized(init_kwargs: dict[str, Any]) -> dict[str, Any]:
    return {key: _ODD_SIZE if value == _SIZE else value for key, value in init_kwargs.items()}


def _resized_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(_ODD_SIZE if size == _SIZE else size for size in shape)


def _shapes_text(init_kwargs: dict[str, Any], input_kwargs: dict[str, Any]) -> str:
    entry = {"base": {"init_kwargs": init_kwargs, "input_kwargs": input_kwargs}}
    return json.dumps(entry, indent=2) + "\n"


def _input_names(model: Any, required_only: bool = False) -> list[str]:
    parameters = list(inspect.signature(model.forward).parameters.values())[1:]
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return [p.name for p in named if not required_only or p.default is p.empty]


def _required(model: Any) -> list[tuple[str, Any]]:
    """Return the parameters of ``__init__`` that have no default, with their annotations."""
    parameters = list(inspect.signature(model.__init__).parameters.values())[1:]
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return [(p.name, p.annotation) for p in named if p.default is p.empty]


def _init_value(annotation: Any) -> Any:
    kinds: dict[Any, Any] = {
        float: 1.0,
        "float": 1.0,
        bool: False,
        "bool": False,
        str: "float32",
        "str": "float32",
    }
    return kinds.get(annotation, _SIZE)


def _is_json(value: Any) -> bool:
    try:
        return bool(json.loads(json.dumps(value)) == value)
    except (TypeError, ValueError):
        return False
