"""Small workspaces for the tests of the fleet, and an executor that judges nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernel_lint.diagnostics import Reason, StageResult
from kernel_lint.verify import VerifyOptions
from kernel_lint.verify.fleet.executor import Done
from kernel_lint.verify.fleet.outcome import Outcome
from kernel_lint.verify.fleet.plan import FleetTask
from kernel_lint.verify.stages import failed, passed

ADD = """import torch


class Model(torch.nn.Module):
    def forward(self, a, b):
        return a + b
"""
WRONG_SECOND = ADD.replace("a + b", "a + b if a.shape[0] == 5 else a - b")
# Right on each shape by itself; a shape that was seen before another one gets the other's rule.
STALE = """import torch

LAST = []


class Model(torch.nn.Module):
    def forward(self, a, b):
        stale = bool(LAST) and a.shape[0] in LAST and LAST[-1] != a.shape[0]
        LAST.append(a.shape[0])
        return a - b if stale else a + b
"""
RAISES = "raise RuntimeError('not today')\n"
OTHER_NAMES = ADD.replace("a, b", "x, y").replace("a + b", "x + y")
# Ends its judge: candidate <- first process <- keeper <- zygote <- worker.
KILLS_ITS_JUDGE = """import os
import signal

import torch


def parent(pid):
    return int(open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[1])


class Model(torch.nn.Module):
    def forward(self, a, b):
        if a.shape[0] == 7:
            judge = os.getpid()
            for _ in range(4):
                judge = parent(judge)
            os.kill(judge, signal.SIGKILL)
        return a + b
"""
INPUTS = """import torch


def _make_inputs(rows):
    return {"a": torch.randn(rows, 12), "b": torch.randn(rows, 12)}
"""
SHAPES = {"first": 5, "second": 7}

# What the command is told so that a task takes half a second.
QUICK = ["--backend", "torch", "--no-lint", "--no-require-launch", "--seeds", "2", "--no-variants"]
OPTIONS: dict[str, Any] = {
    "backend": "torch",
    "targets": ("cpu",),
    "lint": False,
    "require_launch": False,
    "seeds": 2,
    "variants": False,
    "seed": 11,
}


def write_task(folder: Path, reference: str = ADD, shapes: dict[str, int] | None = None) -> Path:
    """Write the three files of a task and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "reference.py").write_text(reference)
    (folder / "input.py").write_text(INPUTS)
    entries = {
        name: {"init_kwargs": {}, "input_kwargs": {"rows": rows}} for name, rows in (shapes or SHAPES).items()
    }
    (folder / "shapes.json").write_text(json.dumps(entries))
    return folder


def write_candidate(folder: Path, source: str = ADD) -> Path:
    """Write a candidate under the name that it is handed in with, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "generated_kernel.py"
    path.write_text(source)
    return path


def options(folder: Path, **changes: Any) -> VerifyOptions:
    """Return options that judge quickly and keep their journal in ``folder``."""
    return VerifyOptions(**{**OPTIONS, "state_dir": folder / "state", **changes})


def right(task: FleetTask) -> tuple[StageResult, ...]:
    """Return the stages of a task that passes."""
    if task.shape is None:
        return (passed("import"), passed("signature"))
    return tuple(passed(s, task.shape, "cpu") for s in ("compile", "correctness", "integrity"))


def wrong(task: FleetTask) -> tuple[StageResult, ...]:
    """Return the stages of a task that fails by the candidate's fault."""
    if task.shape is None:
        return (failed("import", Reason.IMPORT_ERROR, "not today"),)
    return (failed("correctness", Reason.VALUE, "all elements are wrong", task.shape, "cpu"),)


class FakeExecutor:
    """Answers in order of submission; remembers what it was asked, and how much at once."""

    def __init__(self, judge: Callable[[FleetTask], tuple[StageResult, ...]] = right, room: int = 2) -> None:
        self._judge, self._room = judge, room
        self._queue: list[FleetTask] = []
        self.judged: list[FleetTask] = []
        self.closed = False

    def describe(self) -> str:
        return "nobody"

    def targets(self, options: VerifyOptions) -> tuple[str, ...]:
        return options.targets

    def window(self) -> int:
        return self._room

    def submit(self, task: FleetTask) -> None:
        self._queue.append(task)
        assert len(self._queue) <= self._room

    def wait(self) -> list[Done]:
        task = self._queue.pop(0)
        self.judged.append(task)
        return [Done(task, Outcome(task.key, self._judge(task), seconds=0.5))]

    def close(self) -> None:
        self.closed = True
