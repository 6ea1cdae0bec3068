"""What a worker does with one task; the same on this machine and on a node of a cluster."""

from __future__ import annotations

import functools
import os
import platform
import shutil
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from kernel_lint import __version__
from kernel_lint.diagnostics import Reason
from kernel_lint.verify.backends import load_backend
from kernel_lint.verify.fleet.outcome import Outcome, slim
from kernel_lint.verify.fleet.plan import FleetTask, TaskFiles
from kernel_lint.verify.judge import Part, verify
from kernel_lint.verify.options import VerifyOptions
from kernel_lint.verify.stages import failed
from kernel_lint.verify.workplace import new_folder


def run_task(task: FleetTask) -> str:
    """Judge one task and return its :class:`Outcome` as text; never raises for what the task does."""
    place = f"{platform.node()}:{os.getpid()}"
    started = time.monotonic()
    try:
        problem = _unfit(task)
        if problem:
            return _fault(task, Reason.ENV_ERROR, f"{place}: {problem}", place)
        with _on_disk(task) as (candidate, folder):
            part = Part.FILE if task.shape is None else Part.SHAPES
            report = verify(candidate, folder, task.options, part, task.before)
    except OSError as error:
        return _fault(task, Reason.ENV_ERROR, f"{place}: {error.strerror}: {error.filename}", place)
    except Exception as error:
        message = f"kernel-lint failed on {place}: {type(error).__name__}: {error}"
        return _fault(task, Reason.HARNESS_ERROR, message, place, traceback.format_exc(limit=-8))
    return Outcome(
        task.key,
        tuple(map(slim, report.stages)),
        report.isolation,
        report.notes,
        report.environment if task.shape is None else {},
        time.monotonic() - started,
        place,
    ).to_text()


def judge_nothing(task: FleetTask) -> str:
    """Answer at once and judge nothing: measures what the spreading itself costs (benchmarks/fleet.py)."""
    from kernel_lint.verify.stages import passed

    stages = ("import", "signature") if task.shape is None else ("compile", "correctness", "integrity")
    where = (None, None) if task.shape is None else (task.shape, task.options.targets[0])
    return Outcome(task.key, tuple(passed(stage, *where) for stage in stages)).to_text()


def _fault(task: FleetTask, reason: Reason, message: str, place: str, trace: str = "") -> str:
    """Return the outcome of a task that could not be judged here."""
    stage = failed("import", reason, message, task.shape)
    if trace:
        stage = replace(stage, data={"traceback": trace})
    return Outcome(task.key, (stage,), place=place).to_text()


def _unfit(task: FleetTask) -> str:
    """Say why this process must not judge the task, or nothing."""
    if task.version != __version__:
        return f"kernel-lint {__version__} is installed here and {task.version} where the run was started"
    own = task.options.targets if task.targets_given else _own_targets(task.options.backend)
    if own != task.options.targets:
        return f"the GPU here is {', '.join(own)}, and the run is for {', '.join(task.options.targets)}"
    return ""


@functools.lru_cache
def _own_targets(backend: str) -> tuple[str, ...]:
    """Return the backend's targets where this process runs; asking a GPU takes seconds."""
    return load_backend(backend).default_targets()


def find_targets(options: VerifyOptions) -> tuple[str, ...]:
    """Return the targets of a run: those asked for, or the backend's own where this process runs."""
    return options.targets or load_backend(options.backend).default_targets()


@contextmanager
def _on_disk(task: FleetTask) -> Iterator[tuple[Path, Path]]:
    """Give the paths of candidate and task with the contents that the task has.

    They are the ones that the user named as long as those hold the same; a node without that
    folder, and a file that was changed since the run began, get a copy.
    """
    folder = _task_folder(task.files)
    if _holds(task.path, task.source):
        yield task.path, folder
        return
    place = new_folder()
    try:
        copy = place / task.path.name
        copy.write_bytes(task.source)
        yield copy, folder
    finally:
        shutil.rmtree(place, ignore_errors=True)


_copies: dict[str, Path] = {}


def _task_folder(files: TaskFiles) -> Path:
    if all(_holds(files.folder / name, data) for name, data in files.contents):
        return files.folder
    # The copy lives as long as this process: the next tasks are likely to want it too.
    folder = _copies.get(files.digest)
    if folder is None or not folder.is_dir():
        folder = _copies[files.digest] = new_folder()
    for name, data in files.contents:
        if not _holds(folder / name, data):
            (folder / name).write_bytes(data)
    return folder


def _holds(path: Path, data: bytes) -> bool:
    try:
        return path.read_bytes() == data
    except OSError:
        return False
