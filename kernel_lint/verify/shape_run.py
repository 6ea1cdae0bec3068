"""What happens to each shape under a backend that runs the candidate.

One worker process serves all shapes while nothing goes wrong, so that what one shape leaves
behind can be seen in the next; after any failure the next shape starts in a fresh process.
For each shape: build, draws, variants, and the shape before it once more (A, B, A).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from kernel_lint.diagnostics import Reason, StageResult, StageStatus
from kernel_lint.verify.backends import Backend
from kernel_lint.verify.cases import CaseRunner
from kernel_lint.verify.contract import Shape
from kernel_lint.verify.evidence import evidence
from kernel_lint.verify.expected import Case, Failure
from kernel_lint.verify.findings import integrity_stage
from kernel_lint.verify.journal import Journal
from kernel_lint.verify.options import VerifyOptions
from kernel_lint.verify.performance.stage import Measurement, times
from kernel_lint.verify.protocol import Reply
from kernel_lint.verify.reference import TASK_SECONDS, Reference
from kernel_lint.verify.session import Session
from kernel_lint.verify.stages import as_harness_fault, as_task_fault, failed, from_reply, passed, skipped
from kernel_lint.verify.wording import counted
from kernel_lint.verify.workplace import Workplace

_RUN_STAGES = ("correctness", "integrity", "performance")


@dataclass(slots=True)
class TargetRun:
    """The shapes of one target, in order."""

    place: Workplace
    reference: Reference
    backend: Backend
    options: VerifyOptions
    target: str
    session: Session | None = None
    before: tuple[Shape, Case] | None = None
    notes: list[str] = field(default_factory=list)

    def shapes(self, shapes: tuple[Shape, ...], journal: Journal) -> Iterator[StageResult]:
        """Yield the results of every shape; a shape finished in an earlier run is taken from the journal."""
        try:
            for shape in shapes:
                results = journal.finished(shape.id, self.target)
                if results is None:
                    results = [replace(r, target=self.target) for r in self._shape(shape)]
                    journal.finish(shape.id, self.target, results)
                    if any(r.reason not in (None, Reason.UNMEASURED) for r in results):
                        self._end_session()
                yield from results
        finally:
            self._end_session()

    def visit(self, shape: Shape) -> None:
        """Run a shape once without a result of its own, so that the next one has one before it.

        When it fails, that is said where the shape has its turn; here the next one starts afresh.
        """
        if self._build(shape) is None:
            assert self.session is not None
            runner = CaseRunner(self.place, self.session, self.reference, self.options, self.target, shape)
            if runner.run_once() is None and runner.kept is not None:
                self.before = (shape, runner.kept)
                return
        self._end_session()

    def _end_session(self) -> None:
        if self.session is not None:
            self.session.close()
        self.session, self.before = None, None

    def _shape(self, shape: Shape) -> list[StageResult]:
        problem = self._build(shape)
        if problem is not None:
            return [
                problem,
                *(skipped(s, "not reached: compile did not pass", shape.id) for s in _RUN_STAGES),
            ]
        assert self.session is not None
        built = passed("compile", shape.id, None, "the Model builds", 0.0)
        runner = CaseRunner(self.place, self.session, self.reference, self.options, self.target, shape)
        failure = runner.run_all()
        if failure is None and self.before is not None:
            failure = runner.run_again(*self.before)
        if failure is None and self.options.require_launch and getattr(self.backend, "skips_launches", False):
            runner.run_idle()
        results = [
            built,
            self._correctness(shape, runner, failure),
            integrity_stage(shape.id, runner, self.options),
        ]
        if runner.artifacts:
            results[0] = replace(
                built, message=counted(len(runner.artifacts), "kernel"), data={"kernels": runner.artifacts}
            )
        results.append(self._performance(shape, runner, results))
        if self.before is not None and not self.session.ended:
            self.session.ask("forget", self.options.call_seconds, slot=self.before[0].id)
            self.reference.ask("forget", slot=self.before[0].id)
        keeps = failure is None and runner.kept is not None and not self.session.ended
        self.before = (shape, runner.kept) if keeps and runner.kept is not None else None
        return results

    def _performance(self, shape: Shape, runner: CaseRunner, before: list[StageResult]) -> StageResult:
        """Time the shape where the backend can; a wrong result's time would say nothing."""
        options = self.options.backend_options
        if not times(self.backend, options):
            return skipped("performance", self.backend.limitation(), shape.id, unmeasured=True)
        if any(result.status is not StageStatus.PASSED for result in before):
            return skipped("performance", "not reached: an earlier stage did not pass", shape.id)
        assert self.session is not None
        timeout, secret = self.options.call_seconds, self.options.seed
        return Measurement(
            self.place, self.session, self.reference, runner, shape, options, timeout, secret
        ).run()

    def _correctness(self, shape: Shape, runner: CaseRunner, failure: Failure | None) -> StageResult:
        data = {"cases": runner.summaries, "notes": runner.notes, **runner.evidence}
        if failure is None:
            found = evidence(runner.summaries)
            data["notes"] = [*runner.notes, *found.notes()]
            data["untold"] = list(found.untold)
            fault = found.fault(shape.id)
            if not fault:
                message = runner.praise() + found.words()
                return passed("correctness", shape.id, None, message, runner.seconds, **data)
            failure = Failure(Reason.INVALID_TASK, fault)
        data.update(failure.data)
        return failed("correctness", failure.reason, failure.message, shape.id, None, runner.seconds, **data)

    def _build(self, shape: Shape) -> StageResult | None:
        """Build both Models with the same parameters; returns the failed stage, if any."""
        parameters = self.place.private / "parameters.safetensors"
        reply = self.reference.ask(
            "build",
            slot=shape.id,
            init_kwargs=shape.init_kwargs,
            seed=1,
            parameters=str(parameters),
        )
        if not reply.ok:
            return from_reply("compile", as_task_fault(reply, "reference.py"), shape.id)
        facts = reply.data
        problem = self._ensure_session(shape)
        if problem is not None:
            return problem
        assert self.session is not None
        arguments: dict[str, Any] = {"slot": shape.id, "init_kwargs": shape.init_kwargs, "seed": 1}
        if facts["parameters"]:
            copy = self.session.folder / "inbox" / "parameters.safetensors"
            copy.unlink(missing_ok=True)
            shutil.copyfile(parameters, copy)
            arguments["parameters"] = str(copy)
        reply = self.session.ask("build", self.options.call_seconds, **arguments)
        if not reply.ok:
            return from_reply("compile", reply, shape.id, None, self.session.output())
        if reply.data.get("parameters") == "same seed" and not facts["reproducible"]:
            return failed(
                "compile",
                Reason.INVALID_TASK,
                "reference.py: Model: its parameters differ from one construction to the next under one "
                "seed, and the candidate's have other names or shapes, so they cannot be copied",
                shape.id,
            )
        return None

    def _ensure_session(self, shape: Shape) -> StageResult | None:
        if self.session is not None and not self.session.ended:
            return None
        self._end_session()
        self.session = self.place.start_candidate(self.target)
        reply: Reply = self.session.ask("prepare", TASK_SECONDS)
        if not reply.ok:
            return from_reply("compile", as_harness_fault(reply), shape.id)
        reply = self.session.ask("import", self.options.import_timeout)
        return None if reply.ok else from_reply("compile", reply, shape.id, None, self.session.output())
