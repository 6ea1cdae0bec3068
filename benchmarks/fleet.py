"""What a fleet costs a task, what spreading costs, and what that makes of 10,000 candidates x 20 shapes.

Three things are measured on this machine. A task: one worker judges every shape of a model that takes no
time (backend torch) and of a FlyDSL kernel on the emulator, next to the same shapes in one process. The
executors: how many tasks a second pass through them when the judge answers at once. The driver: planning,
journal and reports for ``--candidates`` candidates, with answers of the size that real ones have. The last
table divides: it is computed, and says what from. Wall times are medians; memory is the proportional share of
a worker and all its processes (PSS), at its largest.

    python benchmarks/fleet.py [--candidates 10000] [--tasks 2000] [--no-ray] [--no-emulate] [--json FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
from tables import Table, write_tables

from kernel_lint.packager import package
from kernel_lint.verify import VerifyOptions, verify
from kernel_lint.verify.fleet import FleetOptions, driver, find_candidates
from kernel_lint.verify.fleet.execute import judge_nothing
from kernel_lint.verify.fleet.executor import Done, Executor
from kernel_lint.verify.fleet.local import LocalExecutor
from kernel_lint.verify.fleet.outcome import Outcome
from kernel_lint.verify.fleet.plan import Candidate, FleetTask, Plan, Planner
from kernel_lint.verify.fleet.render import render_json
from kernel_lint.verify.fleet.report import FleetReport
from kernel_lint.verify.session import close_zygotes

_MODEL = "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x * 2\n"
_INPUT = "import torch\n\n\ndef _make_inputs(rows):\n    return {'x': torch.randn(rows, 1024)}\n"
SIZED = (10_000, 20)
GPUS = (8, 64, 512)
# What a file as a whole takes where nothing was measured: seconds.
SUPPOSED_FILE = 0.5
_EXAMPLE = Path(__file__).parents[1] / "examples" / "softmax"


@dataclass(frozen=True, slots=True)
class TaskCost:
    """Seconds of wall time: the worker's first task with its start, a file as a whole and a shape when
    warm, and a shape in a run in one process; and the MB of a worker with all its processes."""

    name: str
    first: float
    file: float
    shape: float
    alone: float
    megabytes: float


@dataclass(frozen=True, slots=True)
class Rate:
    """Tasks a second through one part of the machinery, when judging takes no time.

    Of the driver also: by how many MB its process grew, and how many its journal and JSON report have.
    """

    name: str
    tasks: int
    seconds: float
    megabytes: float | None = None
    journal: float | None = None
    report: float | None = None

    @property
    def rate(self) -> float:
        """Tasks a second."""
        return self.tasks / self.seconds


def say(line: str) -> None:
    """Tell a person who waits what is going on."""
    print(f"  {line}", file=sys.stderr, flush=True)


class Memory:
    """The largest proportional share of memory that this process's children had, in MB, while watched."""

    def __init__(self) -> None:
        self.peak = 0.0
        self._end = threading.Event()

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Look every fifth of a second; without /proc/*/smaps_rollup there is nothing to see."""
        thread = threading.Thread(target=self._watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._end.set()
            thread.join()

    def _watch(self) -> None:
        own = psutil.Process()
        while not self._end.wait(0.2):
            total = sum(_share(process.pid) for process in own.children(recursive=True))
            self.peak = max(self.peak, total * 1024 / 1e6)


def _share(pid: int) -> int:
    """Return a process's proportional set size in KiB; 0 when it is gone."""
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
        return int(next(line for line in lines if line.startswith("Pss:")).split()[1])
    return 0


def prepare(folder: Path, shapes: int) -> Path:
    """Write a task whose shapes differ by a row, and a candidate that is the reference."""
    entries = {str(n): {"init_kwargs": {}, "input_kwargs": {"rows": 64 + n}} for n in range(shapes)}
    (folder / "reference.py").write_text(_MODEL)
    (folder / "generated_kernel.py").write_text(_MODEL)
    (folder / "input.py").write_text(_INPUT)
    (folder / "shapes.json").write_text(json.dumps(entries))
    return folder


def plan_for(path: Path, folder: Path, options: VerifyOptions) -> Plan:
    """Return the tasks of one candidate."""
    return Planner(options, True, True).plan(find_candidates([path], folder)[0][0])


def through(executor: Executor, tasks: list[FleetTask]) -> list[Outcome]:
    """Put tasks through an executor as the driver does, and return their outcomes."""
    waiting, running, outcomes = list(reversed(tasks)), 0, []
    while waiting or running:
        while waiting and running < executor.window():
            executor.submit(waiting.pop())
            running += 1
        done = executor.wait()
        running -= len(done)
        outcomes += [each.outcome for each in done]
    return outcomes


def measure_task(
    name: str, path: Path, folder: Path, options: VerifyOptions, keep: list[Outcome]
) -> TaskCost:
    """Judge every shape of one candidate with one worker, then in one process."""
    say(f"a task: {name}, {options.backend}")
    plan = plan_for(path, folder, options)
    assert plan.file is not None
    executor, memory = LocalExecutor(options, 1), Memory()
    try:
        started = time.perf_counter()
        [first] = through(executor, [plan.file])
        cold = time.perf_counter() - started
        assert first.opens_shapes, first.failure
        [again] = through(executor, [replace(plan.file, key="again")])
        with memory.watched():
            outcomes = through(executor, list(plan.shapes))
    finally:
        executor.close()
    assert all(outcome.failure is None for outcome in outcomes)
    keep += [first, *outcomes]
    verify(path, folder, replace(options, shapes=(plan.chosen[0].id,)))
    started = time.perf_counter()
    report = verify(path, folder, options)
    alone = (time.perf_counter() - started) / len(plan.chosen)
    assert report.passed, report.headline
    close_zygotes()
    shape = statistics.median(outcome.seconds for outcome in outcomes)
    title = f"{name}, backend `{options.backend}`, {len(plan.chosen)} shapes"
    return TaskCost(title, cold, again.seconds, shape, alone, memory.peak)


def measure_executor(name: str, make: Callable[[], Executor], tasks: list[FleetTask]) -> Rate:
    """Put tasks through workers that answer at once; starting the workers does not count."""
    say(f"spreading: {name}, {len(tasks):,} tasks")
    executor = make()
    try:
        through(executor, [replace(task, key=f"warm {task.key}") for task in tasks[:20]])
        started = time.perf_counter()
        outcomes = through(executor, tasks)
        seconds = time.perf_counter() - started
    finally:
        executor.close()
    assert sorted(outcome.key for outcome in outcomes) == sorted(task.key for task in tasks)
    return Rate(name, len(tasks), seconds)


class Answers:
    """An executor in this process whose answers are copies of real ones."""

    def __init__(self, file: Outcome, shape: Outcome) -> None:
        self._texts = {False: file.to_text(), True: shape.to_text()}
        self._keys = {False: file.key, True: shape.key}
        self._queue: list[FleetTask] = []

    def describe(self) -> str:
        """Return what it is."""
        return "copies of answers"

    def targets(self, options: VerifyOptions) -> tuple[str, ...]:
        """Return the options' own."""
        return options.targets

    def window(self) -> int:
        """Return what 512 GPUs would have in hand."""
        return 2 * max(GPUS)

    def submit(self, task: FleetTask) -> None:
        """Queue a task."""
        self._queue.append(task)

    def wait(self) -> list[Done]:
        """Return sixteen answers, about what is ready when so many GPUs are asked."""
        ready, self._queue = self._queue[:16], self._queue[16:]
        return [Done(task, Outcome.from_text(self._text(task))) for task in ready]

    def _text(self, task: FleetTask) -> str:
        kind = task.shape is not None
        text = self._texts[kind].replace(self._keys[kind], task.key)
        return text.replace('"shape":"0"', f'"shape":{json.dumps(task.shape)}')

    def close(self) -> None:
        """Do nothing."""


def measure_driver(folder: Path, candidates: int, file: Outcome, shape: Outcome) -> Rate:
    """Run the driver alone on many candidates: keys, journal with its synchronisation, reports."""
    options = VerifyOptions(
        backend="torch", targets=("cpu",), lint=False, require_launch=False, state_dir=folder / "state"
    )
    source = (folder / "generated_kernel.py").read_bytes()
    many = [Candidate(folder / f"{n}.py", folder, source + f"# {n}\n".encode()) for n in range(candidates)]
    say(f"the driver: {candidates:,} candidates")
    answers, journal = Answers(file, shape), [0.0]

    def look(_report: FleetReport) -> None:
        # The journal goes away at the end of a run.
        journal[0] = sum(path.stat().st_size for path in (folder / "state").glob("fleet-*.jsonl")) / 1e6

    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    original = driver.make_executor
    driver.make_executor = lambda fleet, options: answers
    try:
        started = time.perf_counter()
        report = driver.verify_fleet(many, options, FleetOptions(), look)
        seconds = time.perf_counter() - started
    finally:
        driver.make_executor = original
    assert report.counts == {"PASS": candidates}
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) / 1024
    name = f"the driver alone, {candidates:,} candidates"
    size = len(render_json(report)) / 1e6
    return Rate(name, report.judged, seconds, grown * 1.048576, journal[0], size)


def tables(costs: list[TaskCost], rates: list[Rate]) -> list[Table]:
    """Return the three tables: two are measured, the last is computed from them."""
    first = Table(
        "Measured: a task",
        ("seconds", "first", "file", "shape", "a shape in one process", "MB of a worker"),
        tuple((c.name, c.first, c.file, c.shape, c.alone, c.megabytes) for c in costs),
        "five draws, variants and repeats each; the first task of a worker has the imports in it",
    )
    columns = ("", "tasks", "seconds", "tasks a second", "grew by MB", "journal MB", "JSON report MB")
    rows = tuple((r.name, r.tasks, r.seconds, r.rate, r.megabytes, r.journal, r.report) for r in rates)
    note = "judging takes no time"
    return [first, Table("Measured: spreading", columns, rows, note), sized(costs, driver_rate(rates))]


def driver_rate(rates: list[Rate]) -> float:
    """Return how many tasks a second one driver manages, whose process does the executor's part too."""
    return 1 / (1 / rates[-2].rate + 1 / rates[-1].rate)


def sized(costs: list[TaskCost], limit: float) -> Table:
    """Return the computed table: hours on so many GPUs, and the share of the driver's rate that they ask for.

    ``limit`` is that rate in tasks a second.
    """
    candidates, shapes = SIZED
    cases = [(f"{c.shape:.2f} s (measured: {c.name.partition(',')[0]})", c.file, c.shape) for c in costs]
    cases += [(f"{seconds:g} s (supposed)", SUPPOSED_FILE, seconds) for seconds in (1.0, 3.0, 10.0)]
    rows = []
    for name, file, shape in cases:
        work = candidates * (file + shapes * shape)
        cells = []
        for gpus in GPUS:
            asked = candidates * (shapes + 1) / (work / gpus)
            hours = work / gpus / 3600 * max(1.0, asked / limit)
            cells.append(f"{hours:.{1 if hours >= 10 else 2}f} h ({asked / limit:.0%})")
        rows.append((name, f"{file:.2f} s", f"{work / 3600:,.0f} h", *cells))
    columns = ("a shape takes", "a file", "one GPU", *(f"{n} GPUs" for n in GPUS))
    _, file, shape = cases[0]
    hours = candidates * (file + shapes * shape) / GPUS[0] / 3600
    note = (
        f"first line: {candidates:,} x ({file:.2f} + {shapes} x {shape:.2f}) s / {GPUS[0]} = {hours:.1f} h; "
        f"in brackets the share of the {limit:,.0f} tasks a second that one driver manages"
    )
    return Table(f"Computed: {candidates:,} candidates x {shapes} shapes", columns, tuple(rows), note)


def measure_costs(folder: Path, emulate: bool, keep: list[Outcome]) -> list[TaskCost]:
    """Measure the tasks of a model that takes no time, and of an emulated kernel."""
    common = {"lint": True, "state_dir": folder / "state", "seed": 1}
    torch = VerifyOptions(
        backend="torch",
        targets=("cpu",),
        require_launch=False,
        **{**common, "lint": False},  # type: ignore[arg-type]
    )
    path = folder / "generated_kernel.py"
    costs = [measure_task("a model that takes no time", path, folder, torch, keep)]
    if emulate:
        options = VerifyOptions(backend="emulate", targets=("gfx942",), **common)  # type: ignore[arg-type]
        example = Path(shutil.copytree(_EXAMPLE, folder / "softmax"))
        path = example / "generated_kernel.py"
        path.write_text(package(example / "kernel.py").text)
        costs.append(measure_task("`examples/softmax`", path, example, options, []))
    return costs


def measure_rates(folder: Path, tasks: int, ray: bool) -> list[Rate]:
    """Measure the executors with a judge that answers at once."""
    options = VerifyOptions(backend="torch", targets=("cpu",), lint=False, require_launch=False)
    [*shapes] = plan_for(folder / "generated_kernel.py", folder, options).shapes
    many = [replace(shapes[n % len(shapes)], key=f"task {n}") for n in range(tasks)]
    rates = [measure_executor("local, 2 workers", lambda: LocalExecutor(options, 2, judge_nothing), many)]
    if ray:
        from kernel_lint.verify.fleet.ray_executor import RayExecutor

        class FullRay(RayExecutor):
            def window(self) -> int:
                return 2 * max(GPUS)

        rates.append(measure_executor("Ray, 2 workers", lambda: RayExecutor(options, 2, judge_nothing), many))
        name = f"Ray, {2 * max(GPUS)} tasks in hand"
        rates.append(measure_executor(name, lambda: FullRay(options, 2, judge_nothing), many))
    return rates


def main() -> int:
    """Measure, print the tables, write JSON when asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--candidates", type=int, default=SIZED[0])
    parser.add_argument("--shapes", type=int, default=SIZED[1], help="shapes of the model that takes no time")
    parser.add_argument("--tasks", type=int, default=2_000)
    parser.add_argument("--no-ray", action="store_true")
    parser.add_argument("--no-emulate", action="store_true")
    parser.add_argument("--json", type=Path, help="write the tables there")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = prepare(Path(name), arguments.shapes)
        real: list[Outcome] = []
        costs = measure_costs(folder, not arguments.no_emulate, real)
        rates = measure_rates(folder, arguments.tasks, not arguments.no_ray)
        rates.append(measure_driver(folder, arguments.candidates, real[0], real[1]))
    made = tables(costs, rates)
    print("\n\n".join(table.text() for table in made))
    print(f"\nload average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    write_tables(arguments.json, made)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
