"""The judge: the order of events in a verify run, and the verdict.

It runs neither the candidate's code nor the task's. It starts a worker for each, gives the
candidate's worker inputs one draw at a time, and decides from the tensors that come back,
from how the processes ended, and from the clock.
"""

from __future__ import annotations

import contextlib
import enum
import importlib.metadata
import importlib.util
import os
import platform
import re
import shlex
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernel_lint.diagnostics import Reason, StageResult, StageStatus
from kernel_lint.errors import KernelLintError
from kernel_lint.files import read_regular
from kernel_lint.verify.backends import Backend, BackendUnavailableError, load_backend
from kernel_lint.verify.contract import InvalidTaskError, Shape, Task, load_task
from kernel_lint.verify.journal import Journal, open_journal
from kernel_lint.verify.options import DEFAULT_TIMEOUT, VerifyOptions
from kernel_lint.verify.reference import TASK_SECONDS, Reference
from kernel_lint.verify.report import VerifyReport, decide
from kernel_lint.verify.session import HarnessError
from kernel_lint.verify.stages import (
    as_harness_fault,
    as_task_fault,
    failed,
    from_reply,
    lint_stage,
    passed,
    skipped,
)
from kernel_lint.verify.workplace import Workplace

# An AMD architecture, an NVIDIA one, or the CPU.
_TARGET = re.compile(r"gfx[0-9a-f]{3,5}(-[a-z]+)?|sm_[0-9]+[a-z]?|cpu")
_PACKAGES = ("torch", "flydsl", "numpy", "safetensors")


class Part(enum.Enum):
    """How much of a run to do, for those who spread one over several processes.

    ``FILE`` ends before the first shape. ``SHAPES`` takes for granted that ``FILE`` passed; it does
    not keep a journal. The verdict of a part says nothing: :func:`assemble` gives the whole one.
    """

    WHOLE = "whole"
    FILE = "file"
    SHAPES = "shapes"


def verify(
    candidate: Path,
    task: Path,
    options: VerifyOptions | None = None,
    part: Part = Part.WHOLE,
    before: str | None = None,
) -> VerifyReport:
    """Verify one candidate file against the task in a folder.

    ``before`` is the shape that runs once before the chosen ones and once more after the first
    of them, as it would had it been chosen too. Never raises for what the candidate or the task
    does. Raises :class:`KernelLintError` when the candidate cannot be read or an option makes no sense.
    """
    options = options or VerifyOptions()
    backend = load_backend(options.backend)
    if not _folder_exists():
        raise KernelLintError("the current folder has been removed", "change to a folder that exists: cd")
    try:
        source = read_regular(candidate)
    except OSError as error:
        raise KernelLintError(
            f"{candidate} cannot be read ({error.strerror})", "name the candidate: kernel-lint verify FILE"
        ) from None
    started = time.monotonic()
    run = _Run(candidate, task, source, options, backend)
    run.part, run.before = part, before
    try:
        with _threads(options.threads):
            stages = tuple(run.stages())
    except HarnessError as error:
        stages = (*run.done, failed("import", Reason.HARNESS_ERROR, str(error)))
    except KernelLintError:
        raise
    except Exception as error:
        # A fault of ours must not look like the candidate's, nor end in exit code 1.
        message = f"kernel-lint failed: {type(error).__name__}: {error}"
        trace = traceback.format_exc(limit=-8)
        stages = (*run.done, failed("import", Reason.HARNESS_ERROR, message, traceback=trace))
    return run.report(stages, time.monotonic() - started)


def _folder_exists() -> bool:
    """Whether there is a current folder: torch does not load, and no process starts, without one."""
    try:
        return bool(os.getcwd())
    except OSError:
        return False


@contextlib.contextmanager
def _threads(count: int) -> Iterator[None]:
    """Have torch compute on ``count`` threads in this process, as in the workers.

    Its threads wait for each other at the end of every operator; on a busy machine that costs a
    time slice each, for arrays that one thread adds up in microseconds.
    """
    if importlib.util.find_spec("torch") is None:
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def assemble(
    candidate: Path,
    task: Path,
    options: VerifyOptions,
    shapes: tuple[Shape, ...],
    parts: Sequence[VerifyReport],
) -> VerifyReport:
    """Return the report of a run that was done in parts, the first of them being ``FILE``.

    It is decided on as that of a run in one process; ``seconds`` is the sum of the parts'.
    """
    run = _Run(candidate, task, b"", options, load_backend(options.backend))
    run.shapes = shapes
    run.isolation = next((part.isolation for part in parts if part.isolation), {})
    run.notes = list(dict.fromkeys(note for part in parts for note in part.notes))
    stages = tuple(stage for part in parts for stage in part.stages)
    report = run.report(stages, sum(part.seconds for part in parts))
    return replace(report, environment=parts[0].environment) if parts else report


class _Run:
    """One run: the state that its steps share."""

    def __init__(
        self, candidate: Path, folder: Path, source: bytes, options: VerifyOptions, backend: Backend
    ) -> None:
        self.candidate = candidate
        self.folder = folder
        self.source = source
        limit = options.timeout or getattr(backend, "default_timeout", DEFAULT_TIMEOUT)
        self.options = replace(options, timeout=limit)
        self.backend = backend
        self.targets = options.targets or backend.default_targets()
        # Only what the user named: a backend may have a word of its own where there is no device to ask.
        for target in options.targets:
            if not _TARGET.fullmatch(target):
                raise KernelLintError(
                    f"{target!r} is not the name of a target", "name GPU architectures: --target gfx942"
                )
        self.shapes: tuple[Shape, ...] = ()
        self.done: list[StageResult] = []
        self.isolation: dict[str, Any] = {}
        self.notes: list[str] = []
        self.part = Part.WHOLE
        self.before: str | None = None

    def stages(self) -> Iterator[StageResult]:
        """Yield stage results in order, as they become known."""
        for result in self._stages():
            self.done.append(result)
            self.options.progress(_progress_line(result))
            yield result

    def _stages(self) -> Iterator[StageResult]:
        try:
            task = load_task(self.folder)
            self.shapes = self._chosen(task)
        except InvalidTaskError as error:
            yield failed("import", Reason.INVALID_TASK, error.sentence, remedy=error.remedy)
            return
        if self.options.lint and self.part is not Part.SHAPES:
            yield lint_stage(self.candidate, task.reference, self.options.framework)
        try:
            self.backend.check()
            check_options = getattr(self.backend, "check_options", None)
            if check_options is not None:
                check_options(self.targets, self.options.backend_options)
        except BackendUnavailableError as error:
            yield from self._unavailable(f"{error.message}. {error.remedy}".strip())
            return
        try:
            with self._journal(task) as journal:
                self.notes += getattr(self.backend, "notes", tuple)()
                with Workplace(task, self.source, self.options, self.backend) as workplace:
                    yield from self._with_place(task, workplace, journal)
        except OSError as error:
            yield from self._unavailable(f"{error.strerror}: {error.filename}")

    def _journal(self, task: Task) -> contextlib.AbstractContextManager[Journal]:
        if self.part is not Part.WHOLE:
            return contextlib.nullcontext(Journal(None, {}))
        return open_journal(task, self.source, self.options, self.targets)

    def _chosen(self, task: Task) -> tuple[Shape, ...]:
        if not self.options.shapes:
            return task.shapes
        known = {shape.id for shape in task.shapes}
        unknown = [name for name in self.options.shapes if name not in known]
        if unknown:
            raise KernelLintError(
                f"shapes.json has no shape {unknown[0]!r}", f"it has: {', '.join(sorted(known))}"
            )
        return tuple(shape for shape in task.shapes if shape.id in self.options.shapes)

    def _unavailable(self, message: str) -> Iterator[StageResult]:
        """Say for every shape and target that this machine cannot do it."""
        for target in self.targets:
            for shape in self.shapes:
                for stage in sorted(self.backend.stages()):
                    yield failed(stage, Reason.ENV_ERROR, message, shape.id, target)

    def _with_place(self, task: Task, place: Workplace, journal: Journal) -> Iterator[StageResult]:
        with Reference(place, task, self.targets[0]) as reference:
            reply = reference.start()
            if not reply.ok:
                yield from_reply("import", as_task_fault(reply, "reference.py"))
                return
            if self.part is Part.SHAPES:
                yield from self._shape_stages(place, task, reference, journal)
                return
            shape = self.shapes[0]
            path = place.private / "names.safetensors"
            reply = reference.ask(
                "inputs",
                shape=shape.id,
                input_kwargs=shape.input_kwargs,
                path=str(path),
                folder=str(place.private),
            )
            if not reply.ok:
                yield from_reply("import", as_task_fault(reply, "input.py"))
                return
            names = tuple(reply.data["names"])
            yield from self._file_stages(place, names)
            if any(
                r.status is not StageStatus.PASSED for r in self.done if r.stage in ("import", "signature")
            ):
                yield from self._not_reached()
            elif self.part is Part.WHOLE:
                yield from self._shape_stages(place, task, reference, journal)

    def _file_stages(self, place: Workplace, names: tuple[str, ...]) -> Iterator[StageResult]:
        """Import the candidate in a process of its own and look at its signatures."""
        with place.start_candidate(self.targets[0]) as session:
            reply = session.ask("prepare", TASK_SECONDS)
            if not reply.ok:
                yield from_reply("import", as_harness_fault(reply))
                return
            self.isolation = reply.data["isolation"]
            reply = session.ask("import", self.options.import_timeout)
            if not reply.ok:
                yield from_reply("import", reply, output=session.output())
                yield from _tampering(reply.data)
                return
            yield passed("import", seconds=reply.seconds)
            tampering = list(_tampering(reply.data))
            yield from tampering
            for shape in self.shapes:
                reply = session.ask(
                    "signature",
                    self.options.call_seconds,
                    init_names=list(shape.init_kwargs),
                    input_names=list(names),
                )
                if not reply.ok:
                    yield from_reply("signature", reply, output=session.output())
                    return
            yield passed("signature")

    def _not_reached(self) -> Iterator[StageResult]:
        for target in self.targets:
            for shape in self.shapes:
                for stage in ("compile", "correctness", "integrity", "performance"):
                    yield skipped(stage, "not reached: an earlier stage did not pass", shape.id, target)

    def _shape_stages(
        self, place: Workplace, task: Task, reference: Reference, journal: Journal
    ) -> Iterator[StageResult]:
        from kernel_lint.verify.compile_run import compile_shape

        if "correctness" in self.backend.stages():
            from kernel_lint.verify.shape_run import TargetRun

            before = next((shape for shape in task.shapes if shape.id == self.before), None)
            for target in self.targets:
                run = TargetRun(place, reference, self.backend, self.options, target)
                if before is not None:
                    run.visit(before)
                yield from run.shapes(self.shapes, journal)
            return
        for target in self.targets:
            for shape in self.shapes:
                results = journal.finished(shape.id, target)
                if results is None:
                    results = compile_shape(place, reference, shape, target, self.options)
                    results += [
                        skipped(stage, self.backend.limitation(), shape.id, target, unmeasured=True)
                        for stage in ("correctness", "integrity", "performance")
                    ]
                    journal.finish(shape.id, target, results)
                yield from results

    def _replay(self) -> str:
        options = self.options
        words = ["kernel-lint", "verify", str(self.candidate), "--task", str(self.folder)]
        words += ["--backend", options.backend, "--seed", str(options.seed), "--seeds", str(options.seeds)]
        words += [word for target in options.targets for word in ("--target", target)]
        words += [word for key, value in options.backend_options.items() for word in ("-O", f"{key}={value}")]
        words += ["--tolerance", options.tolerance] if options.tolerance != "calibrated" else []
        words += ["--no-require-launch"] if not options.require_launch else []
        return shlex.join(words)

    def report(self, stages: tuple[StageResult, ...], seconds: float) -> VerifyReport:
        """Return the report on what is known."""
        shapes = tuple(shape.id for shape in self.shapes)
        required = self.backend.stages() - {"performance"}
        relaxed = (
            [] if self.options.require_launch else ["launch of a kernel not required; torch may compute"]
        )
        if self.options.nondeterministic:
            relaxed.append("declared nondeterministic: runs may differ in bits")
        if not self.options.isolate:
            relaxed.append("the candidate's process was not isolated")
        descriptions = dict.fromkeys(self.backend.describe(target) for target in self.targets)
        return VerifyReport(
            verdict=decide(stages, shapes, required, self.targets),
            candidate=str(self.candidate),
            task=str(self.folder),
            backend=self.options.backend,
            description=", ".join(descriptions),
            targets=self.targets,
            shapes=shapes,
            stages=stages,
            tolerance=self.options.tolerance,
            isolation=self.isolation,
            environment=_environment(),
            notes=tuple(self.notes),
            relaxed=tuple(relaxed),
            replay=self._replay(),
            seconds=seconds,
        )


def _tampering(data: dict[str, Any]) -> Iterator[StageResult]:
    found = data.get("tampering") or []
    if found:
        yield failed("integrity", Reason(found[0]["reason"]), "; ".join(f["message"] for f in found[:5]))


def _progress_line(result: StageResult) -> str:
    where = " ".join(filter(None, (result.shape, result.target)))
    reason = f" {result.reason.value}" if result.reason else ""
    return f"{result.stage} {where} {result.status.value}{reason}".replace("  ", " ")


def _environment() -> dict[str, str]:
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found
