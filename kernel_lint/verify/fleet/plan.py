"""Candidates, and the tasks that they come to: one for the file as a whole, then one for each shape.

A task is named by a key: the hash of everything that decides its outcome. What has the same key
is judged once, in this run or in the one that this run goes on with.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kernel_lint import __version__, config
from kernel_lint.diagnostics import Reason, StageResult
from kernel_lint.errors import KernelLintError
from kernel_lint.verify.contract import Shape, Task, load_task
from kernel_lint.verify.options import VerifyOptions
from kernel_lint.verify.stages import failed
from kernel_lint.verify.workplace import CANDIDATE_NAME

_LISTED = 5


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file to judge; ``problem`` instead of ``source`` where there is nothing to read.

    ``folder`` holds its task: reference.py, input.py and shapes.json.
    """

    path: Path
    folder: Path
    source: bytes = b""
    problem: StageResult | None = None


@dataclass(frozen=True, slots=True)
class TaskFiles:
    """The three files of a task by content, so that a machine without the folder can have them."""

    folder: Path
    digest: str
    contents: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class FleetTask:
    """One piece of work: a candidate's file as a whole (``shape`` None), or one shape of it.

    ``before`` is the shape that comes before it in the task, and that runs before and after it.
    ``targets_given`` False: they came from the GPU of one machine, and others may have another.
    """

    key: str
    path: Path
    source: bytes = field(repr=False)
    files: TaskFiles = field(repr=False)
    options: VerifyOptions = field(repr=False)
    shape: str | None = None
    before: str | None = None
    targets_given: bool = True
    version: str = __version__

    @property
    def name(self) -> str:
        """What a line of progress calls it."""
        return f"{self.path} {self.shape or 'file'}"


@dataclass(frozen=True, slots=True)
class Plan:
    """One candidate's tasks: ``file`` first, ``shapes`` if it passes; or the ``problem`` instead of them."""

    candidate: Candidate
    file: FleetTask | None = None
    shapes: tuple[FleetTask, ...] = ()
    chosen: tuple[Shape, ...] = ()
    problem: StageResult | None = None


def find_candidates(names: Sequence[Path], task: Path | None) -> tuple[tuple[Candidate, ...], int]:
    """Return the candidates that files, folders and patterns name, and how many were named twice.

    A folder stands for its generated_kernel.py; one without is a candidate that failed, since in a
    large run some always are. Raises :class:`KernelLintError` for a name that stands for nothing.
    """
    paths: list[Path] = []
    missing: list[str] = []
    for name in names:
        # Unlike Path.exists, this takes a name that is too long, or a loop of links, for one that is missing.
        if os.path.exists(name):
            paths.append(name)
        elif glob.has_magic(str(name)):
            found = [Path(each) for each in sorted(glob.glob(str(name), recursive=True))]
            # A pattern over a folder of workspaces meets logs and notes too.
            found = [path for path in found if path.is_dir() or path.suffix == ".py"]
            paths += found
            missing += [] if found else [f"{name} (a pattern that matches nothing)"]
        else:
            missing.append(str(name))
    if missing:
        more = f" and {len(missing) - _LISTED} more" if len(missing) > _LISTED else ""
        raise KernelLintError(
            f"no such candidate: {', '.join(missing[:_LISTED])}{more}",
            "name files, folders that hold a generated_kernel.py, or a pattern of them in quotes",
        )
    if not paths:
        raise KernelLintError("no candidate was named", "kernel-lint verify CANDIDATES... --executor local")
    unique: dict[Path, Path] = {}
    for path in paths:
        file = path / CANDIDATE_NAME if path.is_dir() else path
        unique.setdefault(file.resolve(), file)
    return tuple(_read(path, task) for path in unique.values()), len(paths) - len(unique)


def _read(path: Path, task: Path | None) -> Candidate:
    folder = task if task is not None else path.parent
    try:
        return Candidate(path, folder, path.read_bytes())
    except FileNotFoundError:
        inner = any(path.parent.glob(f"*/{CANDIDATE_NAME}"))
        hint = f"; its folders do: name '{path.parent}/*'" if inner else ""
        problem = failed("import", Reason.IMPORT_ERROR, f"{path.parent} holds no {path.name}{hint}")
    except OSError as error:
        problem = failed("import", Reason.ENV_ERROR, f"{path} cannot be read ({error.strerror})")
    return Candidate(path, folder, problem=problem)


class Planner:
    """Makes plans; tasks that many candidates share are read once.

    ``options`` must name its targets: workers of one run may not each choose their own.
    ``seed_given`` tells whether the seed is part of what was asked for, or secret and new.
    """

    def __init__(self, options: VerifyOptions, seed_given: bool, targets_given: bool) -> None:
        self._options = options
        self._targets_given = targets_given
        self._identity = identity(options, seed_given)
        self._tasks: dict[Path, tuple[Task, TaskFiles] | StageResult] = {}

    def plan(self, candidate: Candidate) -> Plan:
        """Return the candidate's tasks; raises :class:`KernelLintError` for an unknown ``--shape``."""
        if candidate.problem is not None:
            return Plan(candidate, problem=candidate.problem)
        if candidate.folder not in self._tasks:
            self._tasks[candidate.folder] = _load(candidate.folder)
        known = self._tasks[candidate.folder]
        if isinstance(known, StageResult):
            return Plan(candidate, problem=known)
        task, files = known
        chosen = choose(task, self._options.shapes)
        names = tuple(shape.id for shape in chosen)
        settings = replace(self._options, keep=_keep_folder(self._options.keep, candidate.path))
        base = {
            **self._identity,
            "candidate": hashlib.sha256(candidate.source).hexdigest(),
            "task": files.digest,
        }
        file_key = _key(base, shapes=names, lint=self._lint_identity(candidate))
        whole = FleetTask(
            file_key,
            candidate.path,
            candidate.source,
            files,
            replace(settings, shapes=names),
            targets_given=self._targets_given,
        )
        shapes = tuple(
            replace(
                whole,
                key=_key(base, shape=name, before=before),
                options=replace(settings, shapes=(name,)),
                shape=name,
                before=before,
            )
            for before, name in zip((None, *names), names, strict=False)
        )
        return Plan(candidate, whole, shapes, chosen)

    def _lint_identity(self, candidate: Candidate) -> str:
        """Return what the linter's findings depend on besides the text: the folder's settings."""
        if not self._options.lint:
            return ""
        try:
            return f"{candidate.path.name} {config.load(candidate.path)}"
        except KernelLintError as error:
            return error.message


def _keep_folder(folder: Path | None, candidate: Path) -> Path | None:
    """Return a folder of the candidate's own for the evidence of ``--keep``, told by its path."""
    if folder is None:
        return None
    name = "-".join(part for part in candidate.with_suffix("").parts[-3:] if part not in ("/", ".", ".."))
    return folder / f"{name}-{hashlib.sha256(str(candidate.resolve()).encode()).hexdigest()[:8]}"


def identity(options: VerifyOptions, seed_given: bool) -> dict[str, Any]:
    """Return the settings that decide outcomes, for keys and for the journal's first line.

    The shapes are in each task's key, and lint in that of the file as a whole. Versions of packages are those
    of the driver's machine.
    """
    return {**options.identity(), "seed": options.seed if seed_given else "secret"}


def choose(task: Task, wanted: tuple[str, ...]) -> tuple[Shape, ...]:
    """Return the shapes that ``--shape`` names, or all; raises :class:`KernelLintError`."""
    known = {shape.id for shape in task.shapes}
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise KernelLintError(
            f"{task.folder / 'shapes.json'} has no shape {unknown[0]!r}",
            f"it has: {', '.join(sorted(known))}",
        )
    return tuple(shape for shape in task.shapes if not wanted or shape.id in wanted)


def _load(folder: Path) -> tuple[Task, TaskFiles] | StageResult:
    from kernel_lint.verify.contract import InvalidTaskError

    try:
        task = load_task(folder)
        paths = (task.reference, task.inputs, folder / "shapes.json")
        contents = tuple((path.name, path.read_bytes()) for path in paths)
    except InvalidTaskError as error:
        return failed("import", Reason.INVALID_TASK, error.sentence, remedy=error.remedy)
    except OSError as error:
        return failed("import", Reason.INVALID_TASK, f"{error.filename}: cannot be read ({error.strerror})")
    return task, TaskFiles(folder, task.digest, contents)


def _key(base: dict[str, Any], **more: Any) -> str:
    text = json.dumps({**base, **more}, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
