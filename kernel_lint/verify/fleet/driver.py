"""The loop around a fleet: hand out what is ready, keep what is finished, assemble the verdicts.

Spreading, retrying and placing are the executor's; here is only the order. A candidate's shapes
become ready when its file as a whole passed, and go before the files of later candidates, so that verdicts
come one after the other. Tasks of the same key are judged once and count for all candidates that share them.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from kernel_lint.errors import KernelLintError
from kernel_lint.verify.fleet.executor import Executor
from kernel_lint.verify.fleet.journal import FleetJournal
from kernel_lint.verify.fleet.local import LocalExecutor
from kernel_lint.verify.fleet.outcome import Outcome
from kernel_lint.verify.fleet.plan import Candidate, FleetTask, Plan, Planner, identity
from kernel_lint.verify.fleet.report import FleetReport
from kernel_lint.verify.judge import assemble
from kernel_lint.verify.options import VerifyOptions
from kernel_lint.verify.report import VerifyReport
from kernel_lint.verify.wording import counted

EXECUTORS = ("local", "ray")
_LISTED = 10


def _silent(_text: str) -> None:
    """Say nothing."""


@dataclass(frozen=True, slots=True)
class FleetOptions:
    """How to spread. ``jobs`` bounds the workers of this machine; ``seed_given`` says that the options'
    seed was asked for and is not secret; ``progress`` gets a line for each finished task, ``say`` what the
    user should know besides."""

    executor: str = "local"
    jobs: int | None = None
    seed_given: bool = False
    progress: Callable[[str], None] = _silent
    say: Callable[[str], None] = _silent


def make_executor(fleet: FleetOptions, options: VerifyOptions) -> Executor:
    """Return the executor that was asked for; raises :class:`KernelLintError` when it cannot work here."""
    if fleet.executor == "local":
        return LocalExecutor(options, fleet.jobs)
    if fleet.executor == "ray":
        from kernel_lint.verify.fleet.ray_executor import RayExecutor

        return RayExecutor(options, fleet.jobs)
    raise KernelLintError(
        f"there is no executor {fleet.executor!r}", f"choose one of: {', '.join(EXECUTORS)}"
    )


def verify_fleet(
    candidates: Sequence[Candidate],
    options: VerifyOptions,
    fleet: FleetOptions,
    publish: Callable[[FleetReport], None] = lambda report: None,
) -> FleetReport:
    """Judge all candidates, and give the report to ``publish`` before the journal is let go.

    Never raises for what a candidate or a task does. Raises :class:`KernelLintError` when an option makes no
    sense, the executor cannot work or the journal cannot be written; what was finished by then is kept in the
    journal, as it is when KeyboardInterrupt passes through here.
    """
    options = replace(
        options,
        progress=_silent,
        keep=options.keep.absolute() if options.keep else None,
    )
    _check(options)
    executor = make_executor(fleet, options)
    try:
        targets_given = bool(options.targets)
        options = replace(options, targets=executor.targets(options))
        return _Run(candidates, options, fleet, executor, targets_given).run(publish)
    finally:
        executor.close()


def _check(options: VerifyOptions) -> None:
    """Raise :class:`KernelLintError` now for what every worker would stumble over."""
    # Targets of its own are no mistake, and to ask a GPU for them takes seconds.
    assemble(Path(), Path(), replace(options, targets=options.targets or ("cpu",)), (), ())
    if options.tolerance != VerifyOptions().tolerance:
        from kernel_lint.verify.compare_policy import parse_policy

        parse_policy(options.tolerance)


@dataclass(slots=True)
class _Tally:
    total: int = 0
    done: int = 0
    judged: int = 0
    resumed: int = 0
    retried: int = 0


@dataclass(slots=True)
class _Run:
    candidates: Sequence[Candidate]
    options: VerifyOptions
    fleet: FleetOptions
    executor: Executor
    targets_given: bool
    started: float = field(default_factory=time.monotonic)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    wanted: set[str] = field(default_factory=set)
    left_out: set[str] = field(default_factory=set)
    waiting: dict[str, list[Plan]] = field(default_factory=dict)
    ready: deque[FleetTask] = field(default_factory=deque)
    known: dict[str, Outcome] = field(default_factory=dict)
    tally: _Tally = field(default_factory=_Tally)

    def run(self, publish: Callable[[FleetReport], None]) -> FleetReport:
        plans = self._plans(self.options)
        digests = [plan.file.files.digest for plan in plans if plan.file]
        with FleetJournal(
            self.options.state_dir, identity(self.options, self.fleet.seed_given), digests
        ) as journal:
            seed = self._open(journal, plans)
            if seed != self.options.seed:
                self.options = replace(self.options, seed=seed)
                plans = self._plans(self.options)
            self.tally.total = len({t.key for p in plans if p.file for t in (p.file, *p.shapes)})
            self._say_what_is_ahead(plans)
            for plan in plans:
                self._start(plan)
            try:
                self._loop(journal)
            except BaseException:
                self._explain_resume(journal)
                raise
            report = self._report(plans)
            publish(report)
            if all(outcome.final for outcome in self.outcomes.values()):
                journal.remove()
            else:
                self.fleet.say(f"tasks without a verdict can be tried again with --resume ({journal.path})")
        return report

    def _say_what_is_ahead(self, plans: list[Plan]) -> None:
        """Say what there is to do, and at once what cannot be judged: the table comes hours later."""
        say = self.fleet.say
        tasks = counted(self.tally.total, "task")
        say(f"{counted(len(plans), 'candidate')}, at most {tasks}; {self.executor.describe()}")
        problems = [(plan.candidate.path, plan.problem) for plan in plans if plan.problem is not None]
        for path, problem in problems[:_LISTED]:
            reason = f"{problem.reason.value}: " if problem.reason else ""
            say(f"  not judged: {path}: {reason}{problem.message}")
        if len(problems) > _LISTED:
            say(f"  not judged: {len(problems) - _LISTED} more; the report has them all")

    def _plans(self, options: VerifyOptions) -> list[Plan]:
        planner = Planner(options, self.fleet.seed_given, self.targets_given)
        return [planner.plan(candidate) for candidate in self.candidates]

    def _open(self, journal: FleetJournal, plans: list[Plan]) -> int:
        """Read or set aside what an earlier run left; returns the run's seed."""
        if not self.options.resume:
            left = journal.read()
            old = journal.set_aside()
            if left is not None and left.outcomes:
                tasks = len(left.outcomes)
                self.fleet.say(f"an interrupted run of these tasks ({tasks} finished) was set aside: {old}")
                self.fleet.say("to go on with it instead: stop this one, and add --resume")
            journal.begin(self.options.seed)
            return self.options.seed
        keys = {task.key for plan in plans if plan.file for task in (plan.file, *plan.shapes)}
        if taken := journal.take_back(keys):
            self.fleet.say(
                f"going on with the run that was set aside ({taken} finished): the later one has fewer"
            )
        found = journal.read()
        self.known = {k: o for k, o in (found.outcomes if found else {}).items() if k in keys}
        self._say_what_was_found(journal, len(self.known), len(keys), bool(found and found.outcomes))
        if found is None:
            journal.set_aside()
        seed = found.seed if found else self.options.seed
        journal.begin(seed, found.outcomes if found else ())
        return seed

    def _say_what_was_found(self, journal: FleetJournal, known: int, total: int, other: bool) -> None:
        if known:
            self.fleet.say(f"going on: {known} of at most {total} tasks were finished before")
        elif other:
            self.fleet.say("the interrupted run judged other candidates: starting from the beginning")
        else:
            self.fleet.say(
                "there is no interrupted run of these tasks and options: starting from the beginning"
            )
            for path, names in journal.others()[:3]:
                what = ", ".join(names) if names else "the tasks' files"
                self.fleet.say(f"  {path} is of another run: {what} differ")

    def _start(self, plan: Plan) -> None:
        """Ask for a candidate's file as a whole; what comes of it lets its shapes have their turn."""
        if plan.file is None:
            return
        key = plan.file.key
        self.waiting.setdefault(key, []).append(plan)
        self.ready.extend(self._unknown((plan.file,)))
        if key in self.outcomes:
            self._go_on(key)

    def _unknown(self, tasks: Sequence[FleetTask]) -> list[FleetTask]:
        """Return which of the tasks have to be judged: nobody asked before, and no run has finished them."""
        new = [task for task in tasks if task.key not in self.wanted]
        self.wanted.update(task.key for task in new)
        for task in new:
            if task.key in self.known:
                self.tally.resumed += 1
                self._take(task.key, self.known[task.key])
        return [task for task in new if task.key not in self.known]

    def _take(self, key: str, outcome: Outcome) -> None:
        self.outcomes[key] = outcome
        self.tally.done += 1
        self._go_on(key)

    def _go_on(self, key: str) -> None:
        """Let the shapes have their turn, or be left out, now that the file as a whole is known."""
        for plan in self.waiting.pop(key, []):
            if self.outcomes[key].opens_shapes:
                self.ready.extendleft(reversed(self._unknown(plan.shapes)))
            else:
                left_out = {task.key for task in plan.shapes} - self.left_out
                self.left_out |= left_out
                self.tally.total -= len(left_out)

    def _loop(self, journal: FleetJournal) -> None:
        running = 0
        while self.ready or running:
            while self.ready and running < self.executor.window():
                self.executor.submit(self.ready.popleft())
                running += 1
            done = self.executor.wait()
            running -= len(done)
            journal.record((d.task.key, d.outcome.to_text()) for d in done if d.outcome.final)
            for each in done:
                self.tally.judged += 1
                self.tally.retried += bool(each.outcome.lost)
                self._take(each.task.key, each.outcome)
                self.fleet.progress(self._line(each.task, each.outcome))

    def _line(self, task: FleetTask, outcome: Outcome) -> str:
        failure = outcome.failure
        word = (
            "passed"
            if failure is None
            else f"{failure.status.value} {failure.reason.value if failure.reason else ''}"
        )
        again = f"  ({len(outcome.lost)} workers lost)" if outcome.lost else ""
        done = f"{self.tally.done:>{len(str(self.tally.total))}}"
        return f"[{done}/{self.tally.total}] {task.name}  {word}  {outcome.seconds:.2f} s{again}"

    def _explain_resume(self, journal: FleetJournal) -> None:
        self.fleet.say(
            f"stopped: {self.tally.done} of {self.tally.total} tasks are finished, and kept in "
            f"{journal.path}; the same command with --resume goes on there"
        )

    def _report(self, plans: list[Plan]) -> FleetReport:
        return FleetReport(
            tuple(self._assemble(plan) for plan in plans),
            f"{self.fleet.executor}: {self.executor.describe()}",
            self.tally.judged,
            self.tally.resumed,
            self.tally.retried,
            time.monotonic() - self.started,
            self._notes(plans),
        )

    def _notes(self, plans: list[Plan]) -> tuple[str, ...]:
        keys = [plan.file.key for plan in plans if plan.file]
        same = len(keys) - len(set(keys))
        if not same:
            return ()
        return (f"{same} of the candidates have the text and the task of another, and share its results",)

    def _assemble(self, plan: Plan) -> VerifyReport:
        candidate = plan.candidate
        if plan.file is None:
            assert plan.problem is not None
            parts = [Outcome("", (plan.problem,)).as_report()]
            report = assemble(candidate.path, candidate.folder, self.options, plan.chosen, parts)
            return replace(report, replay="")
        parts = [self.outcomes[plan.file.key].as_report()]
        if self.outcomes[plan.file.key].opens_shapes:
            shapes = [self.outcomes[task.key].as_report() for task in plan.shapes]
            parts += _by_target(shapes, self.options.targets)
        return assemble(candidate.path, candidate.folder, self.options, plan.chosen, parts)


def _by_target(parts: list[VerifyReport], targets: tuple[str, ...]) -> list[VerifyReport]:
    """Put stages in the order of a run in one process: all shapes of a target, then the next target's."""
    if len(targets) < 2 or not parts:
        return parts
    stages = [stage for part in parts for stage in part.stages]
    known = {target: number for number, target in enumerate(targets)}
    ordered = sorted(stages, key=lambda stage: known.get(stage.target or "", -1))
    whole = replace(parts[0], stages=tuple(ordered), seconds=sum(part.seconds for part in parts))
    return [replace(whole, notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)))]
