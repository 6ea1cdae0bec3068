"""The judge's side of the stage: has both processes take turns, and weighs what they say."""

from __future__ import annotations

import hashlib
import random
import shutil
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernel_lint.diagnostics import Reason, StageResult
from kernel_lint.errors import KernelLintError
from kernel_lint.verify.contract import Shape
from kernel_lint.verify.performance import roofline, validity
from kernel_lint.verify.performance.clocks import UNJOINED
from kernel_lint.verify.performance.result import COMPILED, report
from kernel_lint.verify.performance.schedule import Block, Collected, collect, pair_of_sets
from kernel_lint.verify.performance.statistics import MINIMUM_ROUNDS, pooled_median
from kernel_lint.verify.performance.telemetry import open_telemetry
from kernel_lint.verify.performance.work import Work
from kernel_lint.verify.protocol import Reply
from kernel_lint.verify.session import Session
from kernel_lint.verify.stages import as_task_fault, failed, passed, skipped

if TYPE_CHECKING:
    from kernel_lint.verify.backends import Backend
    from kernel_lint.verify.cases import CaseRunner
    from kernel_lint.verify.reference import Reference
    from kernel_lint.verify.workplace import Workplace

# A block or a burst is many calls.
_CANDIDATE_SECONDS = 120.0
# Contents that are drawn, and places in memory that they are put at.
_DRAWS = 2
_SETS = 8
_WALL_ATTEMPTS = 4


@dataclass(frozen=True, slots=True)
class TimingOptions:
    """How to measure: ``-O rounds=N``, ``samples=N``, ``compiled=0``, ``flops=EXPR``, ``bytes=EXPR``."""

    rounds: int = 12
    samples: int = 5
    warmup: int = 3
    compiled: bool = True
    flops: str | None = None
    bytes: str | None = None

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> TimingOptions:
        """Read the backend's options; unknown ones belong to the backend."""
        return cls(
            rounds=max(_whole(given, "rounds", 12), MINIMUM_ROUNDS),
            samples=max(_whole(given, "samples", 5), 1),
            compiled=given.get("compiled", "1") != "0",
            flops=given.get("flops"),
            bytes=given.get("bytes"),
        )


def _whole(given: Mapping[str, str], key: str, default: int) -> int:
    text = given.get(key, str(default))
    if not text.isdigit():
        raise KernelLintError(f"-O {key}={text} is not a whole number", f"for instance: -O {key}={default}")
    return int(text)


def times(backend: Backend, given: Mapping[str, str]) -> bool:
    """Return whether a backend takes times under these options."""
    can = getattr(backend, "times", None)
    return can is not None and bool(can(given)) and given.get("timing") != "off"


class Refusal(Exception):  # noqa: N818 - an outcome, not an error
    """A result that ends the measurement early."""

    def __init__(self, reason: Reason, message: str, **data: Any) -> None:
        super().__init__(message)
        self.reason, self.message, self.data = reason, message, data


@dataclass(slots=True)
class _Source:
    """One thing that is timed: where it runs, its slot, and what was asked of it so far."""

    name: str
    ask: Callable[..., Reply]
    folder: Path | None
    slot: str
    files: list[Path]
    mode: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    threads: int = 0
    history: list[list[int]] = field(default_factory=list)
    blocks: int = 0

    @property
    def ours(self) -> bool:
        """Whether it runs the task's own code (a candidate has a folder to exchange files in)."""
        return self.folder is None


class Measurement:
    """The measurement of one shape."""

    def __init__(
        self,
        place: Workplace,
        candidate: Session,
        reference: Reference,
        runner: CaseRunner,
        shape: Shape,
        backend_options: Mapping[str, str],
        timeout: float,
        secret: int,
    ) -> None:
        self._place, self._candidate, self._reference = place, candidate, reference
        self._runner, self._shape, self._timeout = runner, shape, timeout
        self._options = TimingOptions.parse(backend_options)
        key = hashlib.sha256(f"{secret}/{shape.id}/timing".encode()).digest()
        self._secret = int.from_bytes(key[:7], "big")
        self._random = random.Random(self._secret)
        self._folder = place.private / "timing"
        self._notes: list[str] = []

    def run(self) -> StageResult:
        """Measure; whatever goes wrong becomes a typed result."""
        started = time.monotonic()
        shape = self._shape.id
        try:
            message, data = self._measure()
        except Refusal as refusal:
            if refusal.reason is Reason.UNMEASURED:
                return skipped("performance", refusal.message, shape, unmeasured=True)
            seconds = time.monotonic() - started
            return failed(
                "performance", refusal.reason, refusal.message, shape, None, seconds, **refusal.data
            )
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
        return passed("performance", shape, None, message, time.monotonic() - started, **data)

    def _measure(self) -> tuple[str, dict[str, Any]]:
        draws = self._draw()
        candidate = _Source("candidate", self._ask, self._candidate.folder, self._shape.id, draws)
        reference = _Source("reference", self._reference.ask, None, self._shape.id, draws)
        work = self._work(draws[0])
        self._load_alike(candidate, reference)
        problem = validity.sleeping(*map(float, reference.facts["idle_seconds"]))
        if problem:
            raise Refusal(Reason.INVALID_TIMING, problem)
        sources = [candidate, reference, *self._compiled(draws, candidate.mode)]
        device = reference.facts["device"]
        if not candidate.facts.get("renewable"):
            self._notes.append("inputs have no floating tensor: timed calls saw the same contents again")
        telemetry = open_telemetry(device.get("uuid"), device.get("index") or 0)
        measures = {source.name: self._measure_of(source) for source in sources}
        collected = collect(measures, self._options.rounds, self._options.samples, telemetry.read)
        self._believe(candidate, reference, collected, work, device)
        for source in (candidate, reference):
            self._check_wall(source, collected)
        self._check_outputs(candidate)
        if len(collected.kept) < MINIMUM_ROUNDS:
            raise Refusal(Reason.UNMEASURED, f"the device throttled: {'; '.join(collected.dropped)}")
        facts = {source.name: source.facts for source in sources}
        return report(facts, collected, work, telemetry.name, self._notes, candidate.mode)

    def _ask(self, op: str, **arguments: Any) -> Reply:
        return self._candidate.ask(op, max(self._timeout, _CANDIDATE_SECONDS), **arguments)

    def _draw(self) -> list[Path]:
        self._folder.mkdir(parents=True, exist_ok=True)
        reply = self._reference.ask(
            "draw",
            shape=self._shape.id,
            input_kwargs=self._shape.input_kwargs,
            secret=self._secret,
            count=_DRAWS,
            folder=str(self._folder),
        )
        return [Path(path) for path in _task(reply, "input.py").data["draws"]]

    def _work(self, inputs: Path) -> Work:
        reply = self._reference.ask("count", slot=self._shape.id, inputs=str(inputs))
        work = Work(**_task(reply, "reference.py").data)
        if self._options.flops is None and self._options.bytes is None:
            return work
        from kernel_lint.tools.expressions import evaluate

        numbers = {k: v for k, v in self._shape.input_kwargs.items() if isinstance(v, (int, float))}
        flops, moved = (
            None if text is None else float(evaluate(text, numbers))
            for text in (self._options.flops, self._options.bytes)
        )
        return work.overridden(flops, moved)

    def _load_alike(self, candidate: _Source, reference: _Source) -> None:
        """Load both as graphs, or, where one cannot be captured, both eagerly."""
        for graph in (True, False):
            for source in (reference, candidate):
                self._load(source, graph)
            if candidate.mode == reference.mode:
                return
            culprit = candidate if candidate.mode == "eager" else reference
            self._notes.append(f"timed without graphs: the {culprit.name}: {culprit.facts['why']}")

    def _load(self, source: _Source, graph: bool) -> None:
        files = source.files
        if source.folder is not None:
            files = [source.folder / "inbox" / f"timing-{path.name}" for path in files]
            for original, copy in zip(source.files, files, strict=True):
                copy.unlink(missing_ok=True)
                shutil.copyfile(original, copy)
        how = {"sets": _SETS, "warmup": self._options.warmup, "graph": graph, "idle": source.ours}
        reply = self._time(source, "load", files=list(map(str, files)), **how)
        source.facts, source.mode = reply.data, reply.data["mode"]
        source.threads = int(reply.data["threads"])
        sets = int(reply.data["sets"])
        if not len(files) <= sets <= _SETS:
            raise Refusal(Reason.TAMPERING, f"an impossible answer: {sets} sets of inputs")
        source.history = [[] for _ in range(sets)]
        self._threads(source, reply)
        if source.mode not in ("graph", "eager"):
            raise Refusal(Reason.TAMPERING, f"an impossible answer: mode {source.mode!r}")
        if reply.data.get("unjoined") and not source.ours:
            raise Refusal(
                Reason.INVALID_TIMING,
                f"a call leaves {UNJOINED}: neither a timer nor the caller knows when its output is there; "
                "launch on torch.cuda.current_stream(), or have that wait for the other stream",
            )

    def _compiled(self, draws: list[Path], mode: str) -> list[_Source]:
        """Return the compiled reference as a third source, or nothing and a note."""
        if not self._options.compiled:
            return []
        source = _Source(COMPILED, self._reference.ask, None, f"{self._shape.id}#{COMPILED}", draws)
        try:
            self._load(source, mode == "graph")
        except Refusal as refusal:
            self._notes.append(f"no torch.compile baseline: {refusal.message}")
            return []
        if source.mode != mode:
            self._notes.append(f"no torch.compile baseline: no graph of it ({source.facts['why']})")
            return []
        return [source]

    def _time(self, source: _Source, action: str, **arguments: Any) -> Reply:
        reply = source.ask("time", action=action, slot=source.slot, model=self._shape.id, **arguments)
        if source.ours:
            return _task(reply, "reference.py")
        if not reply.ok:
            raise Refusal(reply.reason or Reason.RUNTIME_ERROR, f"while timed: {reply.message}")
        found = reply.data.get("tampering") or []
        if found:
            raise Refusal(Reason(found[0]["reason"]), f"while timed: {found[0]['message']}")
        return reply

    def _measure_of(self, source: _Source) -> Callable[[int], Block]:
        def measure(count: int) -> Block:
            samples = []
            pair = pair_of_sets(source.blocks, len(source.history))
            source.blocks += 1
            for number in range(count):
                index, seed = pair[number % 2], self._random.getrandbits(48)
                source.history[index].append(seed)
                samples.append([index, seed])
            reply = self._time(source, "block", samples=samples)
            seconds, leftover = reply.data.get("seconds"), reply.data.get("leftover")
            if not isinstance(seconds, list) or len(seconds) != count or not isinstance(leftover, list):
                raise Refusal(Reason.INVALID_TIMING, f"{count} samples were asked for, not {seconds!r}")
            if not source.ours and sum(map(float, seconds)) > reply.seconds:
                raise Refusal(Reason.INVALID_TIMING, "the samples add up to more than the time that passed")
            self._threads(source, reply)
            return Block(tuple(seconds), tuple(map(float, leftover)))

        return measure

    def _threads(self, source: _Source, reply: Reply) -> None:
        now, python = (int(reply.data.get(name, 0)) for name in ("threads", "python_threads"))
        problem = "" if source.ours else validity.threads_left(source.threads, now, python)
        if problem:
            raise Refusal(Reason.INVALID_TIMING, problem)

    def _believe(
        self, candidate: _Source, reference: _Source, collected: Collected, work: Work, device: dict[str, Any]
    ) -> None:
        own, other = (collected.blocks(source.name) for source in (candidate, reference))
        problem = validity.unusable(own)
        if not problem:
            least = min(statistics.median(block.seconds) for block in own)
            bound, why = roofline.bound_seconds(device["name"], work, device.get("l2_bytes") or 0)
            problem = validity.work_left(own, other) or validity.faster_than_possible(least, bound, why)
        if problem:
            raise Refusal(Reason.INVALID_TIMING, problem)
        if validity.unusable(other):
            raise Refusal(Reason.HARNESS_ERROR, f"the reference: {validity.unusable(other)}")

    def _check_wall(self, source: _Source, collected: Collected) -> None:
        """Look at the judge's own clock while calls run back to back: twice as many, less once as many.

        A busy host makes that slower now and then, so only the best of some attempts counts.
        """
        reported = pooled_median([list(block.seconds) for block in collected.blocks(source.name)])
        how = source.mode if source.facts["device"]["name"] != "cpu" else "cpu"
        problem = ""
        for _attempt in range(_WALL_ATTEMPTS):
            each = self._wall_seconds(source, reported)
            source.facts["wall_seconds"] = min(each, source.facts.get("wall_seconds", each))
            problem = validity.slower_on_the_wall(reported, each, how)
            if not problem:
                return
        if source.ours:
            self._notes.append(f"the reference: {problem}")
        else:
            raise Refusal(Reason.INVALID_TIMING, problem)

    def _wall_seconds(self, source: _Source, reported: float) -> float:
        """Return the seconds that one more call costs by the judge's clock."""
        calls = max(4, min(200, int(0.05 / max(reported, 1e-5))))
        once, twice = (self._time(source, "burst", calls=n).seconds for n in (calls, 2 * calls))
        return (twice - once) / calls

    def _check_outputs(self, candidate: _Source) -> None:
        """Compare the outputs of the last timed call on some sets with the reference's."""
        from kernel_lint.verify.cases import Case, Failure

        used = [index for index, seeds in enumerate(candidate.history) if seeds]
        for index in self._random.sample(used, min(_DRAWS, len(used))):
            path = candidate.files[index % len(candidate.files)]
            assert candidate.folder is not None
            output = candidate.folder / "outbox" / f"timed-{index}.safetensors"
            output.unlink(missing_ok=True)
            self._time(candidate, "save", set=index, output=str(output))
            if not output.exists():
                raise Refusal(Reason.TAMPERING, "an answer came without an output")
            renewed = self._folder / f"renewed-{index}.safetensors"
            reply = self._reference.ask(
                "renew", inputs=str(path), seeds=candidate.history[index], output=str(renewed)
            )
            _task(reply, "reference.py")
            case = Case(f"timed set {index}", renewed, 1)
            expected = self._runner._expect(case, self._shape.id)
            if isinstance(expected, Failure):
                raise Refusal(expected.reason, expected.message, **expected.data)
            comparison = self._runner._compare(output, expected)
            expected.discard()
            output.unlink(missing_ok=True)
            if isinstance(comparison, Failure):
                raise Refusal(comparison.reason, comparison.message, **comparison.data)
            if not comparison.passed:
                raise Refusal(
                    Reason.TAMPERING,
                    f"right when it is checked, wrong when timed on new contents: {comparison.summary}",
                    comparison=comparison.to_json(),
                )


def _task(reply: Reply, file: str) -> Reply:
    """Return a reply of the reference's process, or raise what its failure means."""
    if not reply.ok:
        fault = as_task_fault(reply, file)
        raise Refusal(fault.reason or Reason.HARNESS_ERROR, fault.message)
    return reply
