"""Load a reference, its inputs and its shapes, and run them under fake tensors.

This executes the user's own ``reference.py`` and ``input.py`` in this process. Under fake tensors no
memory is allocated and nothing is computed, so a shape of any size can be described anywhere.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from kernel_lint.errors import KernelLintError
from kernel_lint.verify.contract import Shape, load_shapes

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class ReferenceTask:
    """A loaded reference: its class, its input factory, and its shapes."""

    path: Path
    model: Callable[..., torch.nn.Module]
    make_inputs: Callable[..., Any]
    shapes: tuple[Shape, ...]


@contextlib.contextmanager
def local_imports(folder: Path) -> Iterator[None]:
    """Let the files of a folder import each other in this block, and forget them afterwards.

    So two workspaces, each with a module called ``reference``, can be loaded in one process.
    """
    place = str(folder.resolve())
    before = set(sys.modules)
    sys.path.insert(0, place)
    try:
        yield
    finally:
        sys.path.remove(place)
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None)
            if file is not None and Path(file).resolve().is_relative_to(place):
                del sys.modules[name]


def load(reference: Path) -> ReferenceTask:
    """Import ``reference.py`` and the ``input.py`` beside it, and read ``shapes.json``.

    Call it inside :func:`local_imports`. Raises :class:`KernelLintError` when a file is missing, does
    not import, or lacks its part.
    """
    folder = reference.parent
    reference_module = import_file(reference)
    inputs_module = import_file(folder / "input.py")
    return ReferenceTask(
        reference,
        _part(reference_module, "Model", reference),
        _part(inputs_module, "_make_inputs", folder / "input.py"),
        load_shapes(folder / "shapes.json"),
    )


def import_file(path: Path) -> ModuleType:
    """Import one Python file under its own name.

    Raises :class:`KernelLintError` when it is missing or raises.
    """
    if not path.is_file():
        raise KernelLintError(f"{path} does not exist", "`kernel-lint init` makes the files of a workspace")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses and pickle look their module up there
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise KernelLintError(
            f"{path} does not import: {type(error).__name__}: {error}", "mend the file"
        ) from error
    return module


@contextlib.contextmanager
def fake_mode() -> Iterator[None]:
    """Make every tensor a fake one: shape, stride, dtype and device, but no values."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True):
        yield


def build(task: ReferenceTask, shape: Shape) -> tuple[torch.nn.Module, dict[str, Any]]:
    """Return ``Model(**init_kwargs)`` and its inputs for one shape, under the current mode.

    Raises :class:`KernelLintError` when either cannot be made.
    """
    try:
        inputs = task.make_inputs(**shape.input_kwargs)
        with _device(inputs):  # parameters belong where the inputs are
            model = task.model(**shape.init_kwargs)
    except Exception as error:
        where = f"shape {shape.id!r} of {task.path.parent}"
        raise KernelLintError(
            f"{where}: {type(error).__name__}: {error}", "compare shapes.json with the files"
        ) from error
    if not isinstance(inputs, Mapping) or not all(isinstance(name, str) for name in inputs):
        raise KernelLintError(
            "_make_inputs returned no dict of named inputs", f"mend {task.path.parent / 'input.py'}"
        )
    return model.eval(), dict(inputs)


def _device(inputs: Any) -> torch.device:
    """Return the device that the inputs are on; the evaluator's inputs go to the GPU where there is one."""
    import torch

    values = inputs.values() if isinstance(inputs, Mapping) else ()
    devices = [value.device for value in values if isinstance(value, torch.Tensor)]
    return next((device for device in devices if device.type != "cpu"), torch.device("cpu"))


def _part(module: ModuleType, name: str, path: Path) -> Callable[..., Any]:
    part = getattr(module, name, None)
    if not callable(part):
        raise KernelLintError(f"{path} defines no {name}", "the contract needs it at module level")
    assert callable(part)
    return part  # type: ignore[no-any-return]
