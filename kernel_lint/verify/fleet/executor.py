"""What the driver asks of those who spread tasks: hand over, wait, end."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import psutil

from kernel_lint.diagnostics import Reason
from kernel_lint.verify.backends import load_backend
from kernel_lint.verify.fleet.outcome import Outcome
from kernel_lint.verify.fleet.plan import FleetTask
from kernel_lint.verify.options import VerifyOptions
from kernel_lint.verify.stages import failed

# How often a task is tried again when its worker is lost, before that is held against the candidate.
MAX_RETRIES = 2

# A worker with its zygote, a reference and a candidate holds 0.4 to 0.6 GB before the tensors of the task
# (proportional set sizes with torch 2.13; the higher figure is the emulator's).
_WORKER_BYTES = 1 << 30

Work = Callable[[FleetTask], str]


@dataclass(frozen=True, slots=True)
class Done:
    """A task and its outcome."""

    task: FleetTask
    outcome: Outcome


class Executor(Protocol):
    """Spreads tasks over workers. Each task that is submitted comes back from :meth:`wait` once."""

    def describe(self) -> str:
        """Return what a person would call it: how many workers, where."""

    def targets(self, options: VerifyOptions) -> tuple[str, ...]:
        """Return the targets of the run as the workers see them."""

    def window(self) -> int:
        """Return how many tasks may be submitted and not yet back, so that no worker waits."""

    def submit(self, task: FleetTask) -> None:
        """Hand a task over."""

    def wait(self) -> list[Done]:
        """Return the tasks that are done, at least one; blocks until there is."""

    def close(self) -> None:
        """End every worker, whatever it does."""


def needs_gpu(options: VerifyOptions) -> bool:
    """Whether a task of this run needs a GPU to itself."""
    return load_backend(options.backend).device(options.backend_options) != "cpu"


def cpu_slots(options: VerifyOptions) -> int:
    """Return how many tasks this machine can judge at once: processors for the threads of each, and memory.

    Without the second bound the kernel would end workers for lack of memory, and candidates be blamed.
    """
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(processors // options.threads, psutil.virtual_memory().available // _WORKER_BYTES))


def lost_outcome(task: FleetTask, endings: tuple[str, ...]) -> Outcome:
    """Return the outcome of a task whose workers all ended: that is held against the candidate.

    One lost worker may be bad luck; the same task losing every worker that takes it is not.
    """
    stage = "import" if task.shape is None else "compile"
    targets = (None,) if task.shape is None else task.options.targets
    message = (
        f"each of the {len(endings)} workers that judged this ended ({endings[-1]}): the candidate ended "
        "its judge, or took all memory of the machine"
    )
    stages = tuple(failed(stage, Reason.CRASH, message, task.shape, target) for target in targets)
    return Outcome(task.key, stages, lost=endings)
