"""What a fleet costs a task, what spreading costs, and what that makes of 10,000 candidates x 20 shapes.

Three things are measured on this machine. A task: one worker judges every shape of a model that takes no
time (backend torch) and of a FlyDSL kernel on the emulator, next to the same shapes in one process. The
executors: how many tasks a second pass through them when the judge answers at once. The driver: planning,
journal and reports for ``--candidates`` candidates, with answers of the size that real ones have. The last
table divides: it is computed, and says what from. Wall times are medians; the load is printed with them.

    python benchmarks/fleet.py [--candidates 10000] [--tasks 2000] [--no-ray] [--no-emulate] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from measure import machine

from kernel_lint.verify import VerifyOptions, verify
from kernel_lint.verify.fleet import FleetOptions, driver, find_candidates
from kernel_lint.verify.fleet.execute import judge_nothing
from kernel_lint.verify.fleet.executor import Done, Executor
from kernel_lint.verify.fleet.local import LocalExecutor
from kernel_lint.verify.fleet.outcome import Outcome
from kernel_lint.verify.fleet.plan import Candidate, FleetTask, Plan, Planner
from kernel_lint.verify.session import close_zygotes

_MODEL = "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x * 2\n"
_INPUT = "import torch\n\n\ndef _make_inputs(rows):\n    return {'x': torch.randn(rows, 1024)}\n"
SIZED = (10_000, 20)
GPUS = (8, 64, 512)
_EXAMPLE = Path(__file__).parents[1] / "examples" / "softmax"


@dataclass(frozen=True, slots=True)
class TaskCost:
    """Seconds of wall time: the worker's first task with its start, a file as a whole and a shape when
    warm, and a shape in a run in one process."""

    name: str
    first: float
    file: float
    shape: float
    alone: float


@dataclass(frozen=True, slots=True)
class Rate:
    """Tasks a second through one part of the machinery, when judging takes no time."""

    name: str
    tasks: int
    seconds: float
    megabytes: float = 0.0

    @property
    def rate(self) -> float:
        """Tasks a second."""
        return self.tasks / self.seconds


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
    plan = plan_for(path, folder, options)
    assert plan.file is not None
    executor = LocalExecutor(options, 1)
    try:
        started = time.perf_counter()
        [first] = through(executor, [plan.file])
        cold = time.perf_counter() - started
        assert first.opens_shapes, first.failure
        [again] = through(executor, [replace(plan.file, key="again")])
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
    return TaskCost(name, cold, again.seconds, shape, alone)


def measure_executor(name: str, make: Callable[[], Executor], tasks: list[FleetTask]) -> Rate:
    """Put tasks through workers that answer at once; starting the workers does not count."""
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
    answers = Answers(file, shape)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    original = driver.make_executor
    driver.make_executor = lambda fleet, options: answers
    try:
        started = time.perf_counter()
        report = driver.verify_fleet(many, options, FleetOptions())
        seconds = time.perf_counter() - started
    finally:
        driver.make_executor = original
    assert report.counts == {"PASS": candidates}
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) / 1024
    return Rate(f"driver, {candidates} candidates", report.judged, seconds, grown)


def sized(costs: list[TaskCost], limit: float) -> list[str]:
    """Return the computed table: hours on so many GPUs, and the share of the driver's rate that they ask for.

    ``limit`` is that rate in tasks a second: the driver's process does the executor's part too, in turn.
    """
    candidates, shapes = SIZED
    lines = [f"computed: {candidates} candidates x {shapes} shapes, one task a GPU at a time"]
    lines.append(f"{'seconds a shape':34}" + "".join(f"{f'{n} GPUs':>24}" for n in GPUS))
    rows = [(cost.name, cost.file, cost.shape) for cost in costs]
    rows += [(f"if a shape takes {seconds:g} s", 0.5, seconds) for seconds in (1.0, 3.0, 10.0)]
    for name, file, shape in rows:
        work = candidates * (file + shapes * shape)
        cells = []
        for gpus in GPUS:
            asked = candidates * (shapes + 1) / (work / gpus)
            hours = work / gpus / 3600 * max(1.0, asked / limit)
            cells.append(f"{hours:9.2f} h ({asked / limit:4.0%} driver)")
        lines.append(f"{name[:34]:34}" + "".join(f"{cell:>24}" for cell in cells))
    return lines


def measure_costs(folder: Path, emulate: bool, keep: list[Outcome]) -> list[TaskCost]:
    """Measure the tasks of a model that takes no time, and of an emulated kernel."""
    common = {"lint": True, "state_dir": folder / "state", "seed": 1}
    torch = VerifyOptions(
        backend="torch",
        targets=("cpu",),
        require_launch=False,
        **{**common, "lint": False},  # type: ignore[arg-type]
    )
    costs = [measure_task("torch, no time of its own", folder / "generated_kernel.py", folder, torch, keep)]
    if emulate:
        options = VerifyOptions(backend="emulate", targets=("gfx942",), **common)  # type: ignore[arg-type]
        path = _EXAMPLE / "generated_kernel.py"
        costs.append(measure_task("examples/softmax, emulated", path, _EXAMPLE, options, []))
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--candidates", type=int, default=10_000)
    parser.add_argument("--tasks", type=int, default=2_000)
    parser.add_argument("--no-ray", action="store_true")
    parser.add_argument("--no-emulate", action="store_true")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = prepare(Path(name), SIZED[1])
        real: list[Outcome] = []
        costs = measure_costs(folder, not arguments.no_emulate, real)
        print(f"{'seconds':34} {'first':>7} {'file':>7} {'shape':>7} {'in one process':>15}")
        for cost in costs:
            figures = f"{cost.first:7.2f} {cost.file:7.2f} {cost.shape:7.2f} {cost.alone:15.2f}"
            print(f"{cost.name:34} {figures}")
        rates = measure_rates(folder, arguments.tasks, not arguments.no_ray)
        rates.append(measure_driver(folder, arguments.candidates, real[0], real[1]))
    print(f"\n{'judging takes no time':34} {'tasks':>7} {'seconds':>8} {'tasks/s':>8} {'MB':>7}")
    for rate in rates:
        print(f"{rate.name:34} {rate.tasks:7} {rate.seconds:8.1f} {rate.rate:8.0f} {rate.megabytes:7.0f}")
    print()
    print("\n".join(sized(costs, 1 / (1 / rates[-2].rate + 1 / rates[-1].rate))))
    print(f"\nload average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors; {machine()}")
    if arguments.json is not None:
        data = {"benchmark": "fleet", "machine": machine(), "costs": [asdict(c) for c in costs]}
        data["rates"] = [asdict(rate) for rate in rates]
        arguments.json.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
