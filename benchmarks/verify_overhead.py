"""What verify costs a shape, warm: all draws, variants and repeats of a model that takes no time.

Prints wall time and the processor time of judge and workers for each shape, after a first run
that starts the workers' process, next to the machine's load (wall time means little on a busy one).

    python benchmarks/verify_overhead.py [--shapes 20] [--rows 64] [--columns 1024]
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

import psutil

from kernel_lint.verify import VerifyOptions, VerifyReport, verify
from kernel_lint.verify.session import close_zygotes

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


def processor_seconds() -> float:
    """Return the processor time of this process and of all that it started, ended ones included."""
    total = 0.0
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        times = process.cpu_times()
        total += times.user + times.system + times.children_user + times.children_system
    return total


def main() -> int:
    """Run the benchmark; returns 1 when a shape takes longer than the target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", type=int, default=20)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--columns", type=int, default=1024)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = prepare(Path(name), arguments.shapes, arguments.rows, arguments.columns)

        def run(shapes: tuple[str, ...] = ()) -> VerifyReport:
            options = VerifyOptions(
                backend="torch", lint=False, require_launch=False, shapes=shapes, state_dir=folder / "state"
            )
            return verify(folder / "generated_kernel.py", folder, options)

        started = time.perf_counter()
        run(("0",))
        cold = time.perf_counter() - started
        before, started = processor_seconds(), time.perf_counter()
        report = run()
        wall = (time.perf_counter() - started) / arguments.shapes
        busy = (processor_seconds() - before) / arguments.shapes
    assert report.passed, report.headline
    cases = [len(r.data["cases"]) for r in report.stages if r.stage == "correctness"]
    close_zygotes()
    print(f"first run, with the start of the workers: {cold:.2f} s")
    print(f"a shape, warm: {wall:.3f} s wall, {busy:.3f} s of processor, {max(cases)} cases each")
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors; target {TARGET_SECONDS} s")
    return 0 if min(wall, busy) <= TARGET_SECONDS else 1


if __name__ == "__main__":
    raise SystemExit(main())
