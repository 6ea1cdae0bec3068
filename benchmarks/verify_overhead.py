"""What verify costs a shape, warm: all draws, variants and repeats of a model that takes no time.

Prints wall time and the processor time of judge and workers for each shape, after a first run
that starts the workers' process, next to the machine's load (wall time means little on a busy one).
The best of some runs counts; it fails when wall time and processor time are both over the target, since a
busy machine spoils the first of them.

    python benchmarks/verify_overhead.py [--shapes 10] [--rows 64] [--columns 1024]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import psutil
from tables import Table, write_tables

from kernel_lint.verify import VerifyOptions, VerifyReport, verify
from kernel_lint.verify.session import Session, close_zygotes

_MODEL = "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x * 2\n"
_INPUT = "import torch\n\n\ndef _make_inputs(rows, columns):\n    return {'x': torch.randn(rows, columns)}\n"
TARGET_SECONDS = 0.5


def prepare(folder: Path, shapes: int, rows: int, columns: int) -> Path:
    """Write the task; every shape has one more row than the one before."""
    entries = {
        str(number): {"init_kwargs": {}, "input_kwargs": {"rows": rows + number, "columns": columns}}
        for number in range(shapes)
    }
    (folder / "reference.py").write_text(_MODEL)
    (folder / "generated_kernel.py").write_text(_MODEL)
    (folder / "input.py").write_text(_INPUT)
    (folder / "shapes.json").write_text(json.dumps(entries))
    return folder


class Workers:
    """The processor time of all workers, which is lost when they end: it is read right before that."""

    def __init__(self) -> None:
        self._seconds: dict[tuple[int, float], float] = {}
        close = Session.close

        def read_and_close(session: Session) -> None:
            self.read()
            close(session)

        Session.close = read_and_close  # type: ignore[assignment, method-assign]

    def read(self) -> float:
        """Return the seconds of this process and of all that it ever started."""
        own = psutil.Process()
        for process in (own, *own.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                self._seconds[process.pid, process.create_time()] = times.user + times.system
        return sum(self._seconds.values())


def main() -> int:
    """Run the benchmark; returns 1 when a shape takes longer than the target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", type=int, default=10)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--columns", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=3, help="runs, of which the best counts")
    parser.add_argument("--json", type=Path, help="write the table there")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = prepare(Path(name), arguments.shapes, arguments.rows, arguments.columns)

        def run(shapes: tuple[str, ...] = ()) -> VerifyReport:
            options = VerifyOptions(
                backend="torch", lint=False, require_launch=False, shapes=shapes, state_dir=folder / "state"
            )
            return verify(folder / "generated_kernel.py", folder, options)

        workers = Workers()
        started = time.perf_counter()
        run(("0",))
        cold = time.perf_counter() - started
        walls, busies = [], []
        for _ in range(arguments.repeats):
            before, started = workers.read(), time.perf_counter()
            report = run()
            walls.append((time.perf_counter() - started) / arguments.shapes)
            busies.append((workers.read() - before) / arguments.shapes)
        wall, busy = min(walls), min(busies)
    assert report.passed, report.headline
    cases = [len(r.data["cases"]) for r in report.stages if r.stage == "correctness"]
    close_zygotes()
    rows = (
        ("the first run, of one shape, with the start of the workers", cold, None),
        (f"a shape after that, {max(cases)} cases each", wall, busy),
    )
    note = (
        f"a model that takes no time, {arguments.shapes} shapes, the best of {arguments.repeats} runs; "
        f"the limit is {TARGET_SECONDS} s"
    )
    table = Table("What verify costs a shape", ("", "wall s", "CPU s"), rows, note)
    print(table.text())
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    write_tables(arguments.json, [table])
    if min(wall, busy) > TARGET_SECONDS:
        print(f"a shape takes {min(wall, busy):.2f} s, over the limit of {TARGET_SECONDS} s", file=sys.stderr)
    return 0 if min(wall, busy) <= TARGET_SECONDS else 1


if __name__ == "__main__":
    raise SystemExit(main())
