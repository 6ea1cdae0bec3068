"""Run one model of a task in the emulator, for development; verify does the judging."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from kernel_lint.emulator.findings import Finding
from kernel_lint.emulator.hook import install
from kernel_lint.emulator.options import EmulatorOptions
from kernel_lint.emulator.session import EmulatedLaunch
from kernel_lint.emulator.trace import TraceRecord
from kernel_lint.errors import KernelLintError


@dataclass(frozen=True, slots=True)
class ShapeRun:
    """What one shape gave.

    ``relative_error`` is ||out - ref|| / ||ref|| in float64 over all outputs, None without a reference;
    ``seconds`` the emulation's own time, which says nothing about a GPU.
    """

    shape: str
    relative_error: float | None
    launches: tuple[EmulatedLaunch, ...]
    findings: tuple[Finding, ...]
    trace: tuple[TraceRecord, ...]
    seconds: float


def run_model(
    model: Path, task: Path, shapes: tuple[str, ...], options: EmulatorOptions, seed: int = 0
) -> Iterator[ShapeRun]:
    """Emulate ``Model`` of a file on the shapes of a task folder, all of them when none is named.

    Raises :class:`KernelLintError` when a file is missing or a shape is not known.
    """
    table = _shapes(task)
    missing = sorted(set(shapes) - set(table))
    if missing:
        raise KernelLintError(
            f"{task / 'shapes.json'} has no shape {missing[0]!r}", f"choose among: {', '.join(table)}"
        )
    inputs = load_module(task / "input.py", "kernel_lint_task_input")
    reference = (
        load_module(task / "reference.py", "kernel_lint_task_reference")
        if (task / "reference.py").exists()
        else None
    )
    with install(options) as session, imports_from(model.parent):
        candidate = load_module(model, "kernel_lint_candidate")
        for name in shapes or tuple(table):
            session.clear()
            start = time.perf_counter()
            out, expected = _run(candidate, reference, inputs, table[name], seed, options.device)
            seconds = time.perf_counter() - start
            error = relative_error(out, expected) if reference is not None else None
            yield ShapeRun(
                name, error, tuple(session.launches), session.found(), session.trace.records(), seconds
            )


def _shapes(task: Path) -> dict[str, Any]:
    path = task / "shapes.json"
    try:
        table: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise KernelLintError(
            f"there is no {path}", "name the folder of input.py and shapes.json with --task"
        ) from None
    except json.JSONDecodeError as error:
        raise KernelLintError(f"{path} is not JSON: {error}", "correct the file") from None
    return table


def _run(
    candidate: Any, reference: Any, inputs: Any, shape: dict[str, Any], seed: int, device: str
) -> tuple[Any, Any]:
    torch.manual_seed(seed)
    data = {
        k: v.to(device) if isinstance(v, torch.Tensor) else v
        for k, v in inputs._make_inputs(**shape["input_kwargs"]).items()
    }
    init = shape.get("init_kwargs", {})
    torch.manual_seed(seed)
    model = candidate.Model(**init).to(device)
    expected = None
    if reference is not None:
        torch.manual_seed(seed)
        truth = reference.Model(**init).to(device)
        with contextlib.suppress(RuntimeError):
            model.load_state_dict(truth.state_dict())
        copies = {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in data.items()}
        with torch.no_grad():
            expected = truth(**copies)
    with torch.no_grad():
        return model(**data), expected


def relative_error(out: Any, expected: Any) -> float:
    """||out - expected|| / ||expected|| over all tensors of two equal structures; inf when one is not
    finite."""
    left, right = _flat(out), _flat(expected)
    if [t.shape for t in left] != [t.shape for t in right]:
        raise KernelLintError(
            f"the outputs have shapes {[tuple(t.shape) for t in left]}, "
            f"the reference's {[tuple(t.shape) for t in right]}",
            "return what the reference returns",
        )
    top = sum(float((a.double() - b.double()).square().sum()) for a, b in zip(left, right, strict=True))
    bottom = sum(float(b.double().square().sum()) for b in right)
    error = (top / max(bottom, 1e-300)) ** 0.5
    return error if error == error else float("inf")


def _flat(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [t for key in sorted(value) for t in _flat(value[key])]
    return [t for item in value for t in _flat(item)] if isinstance(value, (list, tuple)) else []


@contextlib.contextmanager
def imports_from(folder: Path) -> Iterator[None]:
    """Let a workspace import its own packages."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def load_module(path: Path, name: str) -> Any:
    """Import a file under a name of its own.

    Raises :class:`KernelLintError` when there is no such file.
    """
    if not path.exists():
        raise KernelLintError(f"there is no {path}", "check the path, or name the task's folder with --task")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
