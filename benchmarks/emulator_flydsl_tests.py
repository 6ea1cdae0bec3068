"""Run FlyDSL's own device tests in the emulator, file by file, and count what passes.

    python benchmarks/emulator_flydsl_tests.py FLYDSL_CHECKOUT --target gfx942 --report out.json \
        tests/system tests/kernels/test_softmax.py

With ``--backend nvptx`` they run as PTX on an NVIDIA GPU instead; a test whose kernel cannot be is counted as
refused. The checkout must match the installed flydsl; nothing of it is changed. Tests run in batches,
``--jobs`` processes at a time, the files in turn, so that a run that ends early (``--deadline``) has seen
something of every file. A test that takes more than ``--timeout`` seconds of processor time is counted as out
of time, neither passed nor failed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flydsl_plugin import BACKEND, CHECKS, REPORT, TARGET, TIMEOUT

PYTEST = (sys.executable, *"-m pytest -p flydsl_plugin -p no:cacheprovider -q".split())
OUTCOMES = ("passed", "failed", "out of time", "refused", "skipped", "died", "not run")


@dataclass(frozen=True)
class Batch:
    """Some tests of one file, run by one process. ``lines`` is where the plugin writes."""

    file: str
    tests: tuple[str, ...]
    lines: Path


def environment(arguments: argparse.Namespace, lines: Path) -> dict[str, str]:
    """The environment of one test process."""
    path = [str(Path(__file__).parent.resolve()), str(arguments.checkout), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        TARGET: arguments.target,
        CHECKS: arguments.checks,
        TIMEOUT: str(arguments.timeout),
        REPORT: str(lines),
        "PYTHONPATH": os.pathsep.join(part for part in path if part),
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        BACKEND: arguments.backend,
        **({"CUDA_VISIBLE_DEVICES": ""} if arguments.backend == "emulate" else {}),
        "FLYDSL_GPU_ARCH": arguments.target,
        "ARCH": arguments.target,
    }


def collect(arguments: argparse.Namespace, file: str, listing: Path) -> list[str]:
    """The ids of a file's tests, which the plugin lists; with pytest's words where there are none."""
    command = [*PYTEST, "--collect-only", file, *(["-k", arguments.keyword] if arguments.keyword else [])]
    env = environment(arguments, listing)
    done = subprocess.run(
        command, cwd=arguments.checkout, env=env, capture_output=True, text=True, timeout=300
    )
    tests = listing.read_text(encoding="utf-8").splitlines() if listing.exists() else []
    if not tests:
        print(f"{file}: no tests collected\n{(done.stdout + done.stderr)[-1500:]}", flush=True)
    return tests


def batches(tests: dict[str, list[str]], size: int, folder: Path) -> list[Batch]:
    """The tests in batches, the files in turn; the tests of a file are spread over its batches."""
    columns = []
    for number, (file, ids) in enumerate(tests.items()):
        count = -(-len(ids) // size)
        columns.append(
            [Batch(file, tuple(ids[i::count]), folder / f"{number}-{i}.jsonl") for i in range(count)]
        )
    rows: Iterator[tuple[Batch | None, ...]] = itertools.zip_longest(*columns)
    return [batch for row in rows for batch in row if batch is not None]


def run_batch(arguments: argparse.Namespace, batch: Batch, end: float) -> None:
    """Run a batch in a process of its own; what it did is in its lines. After ``end`` nothing is started."""
    todo = list(batch.tests)
    while todo and (left := end - time.monotonic()) > 0:
        before = len(todo)
        process = subprocess.Popen(
            [*PYTEST, *todo],
            cwd=arguments.checkout,
            env=environment(arguments, batch.lines),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            said, _ = process.communicate(timeout=left)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return
        done = {row["test"] for row in rows_of(batch)}
        todo = [test for test in todo if test not in done]
        if todo and process.returncode < 0:
            # The process died in the first test that has no line; the others still get their turn.
            with batch.lines.open("a", encoding="utf-8") as out:
                row = {"test": todo.pop(0), "outcome": "died", "error": f"signal {-process.returncode}"}
                out.write(json.dumps(row) + "\n")
        elif len(todo) == before:
            print(f"{batch.file}: a process ran none of its tests\n{said[-1500:]}", flush=True)
            return


def rows_of(batch: Batch) -> list[dict[str, Any]]:
    """What the plugin wrote; a line that a killed process left unfinished does not count."""
    if not batch.lines.exists():
        return []
    text = batch.lines.read_text(encoding="utf-8")
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def outcome_of(row: dict[str, Any]) -> str:
    """A row's outcome; being out of time is one of its own, and so is a kernel that cannot run here."""
    for error, outcome in (("TestTimeoutError", "out of time"), ("NvptxRefusalError", "refused")):
        if row["outcome"] == "failed" and error in row["error"]:
            return outcome
    return str(row["outcome"])


def last_error(text: str) -> str:
    """The line of a traceback that names the exception."""
    lines = [line.removeprefix("E").strip() for line in text.splitlines() if line.startswith("E ")]
    return next(
        (line for line in lines if "Error" in line or "Unknown" in line or "Exception" in line),
        lines[-1] if lines else text[-200:],
    )[:300]


def summarize(file: str, tests: list[str], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Print and return a file's counts."""
    counts = Counter(outcome_of(row) for row in rows)
    counts["not run"] = len(tests) - len(rows)
    said = ", ".join(f"{counts[name]} {name}" for name in OUTCOMES[1:] if counts[name])
    decided = counts["passed"] + counts["failed"] + counts["died"]
    print(f"{file}: {counts['passed']} of {decided} passed{'; ' + said if said else ''}")
    for row in rows:
        if outcome_of(row) in ("failed", "died"):
            print(f"    {outcome_of(row)} {row['test'].split('::', 1)[-1]}: {last_error(row['error'])}")
    return {"file": file, "counts": dict(counts), "tests": rows}


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=lambda text: Path(text).resolve(), help="FlyDSL's source tree")
    parser.add_argument("files", nargs="+", help="test files, relative to the checkout")
    parser.add_argument("--target", default="gfx942")
    parser.add_argument("--backend", choices=("emulate", "nvptx"), default="emulate")
    parser.add_argument("--checks", default="bounds")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--batch", type=int, default=8, help="tests in a process")
    parser.add_argument("--timeout", type=int, default=120, help="seconds of processor time for a test")
    parser.add_argument("--deadline", type=float, default=3600, help="seconds for the whole run")
    parser.add_argument("--keyword", "-k", default="")
    parser.add_argument("--report", default="emulator_flydsl_tests.json", type=Path)
    return parser.parse_args()


def main() -> int:
    """Run the files named, print the counts, and fail when a test failed or a file has no tests."""
    arguments = parse()
    end = time.monotonic() + arguments.deadline
    with ThreadPoolExecutor(arguments.jobs) as pool, tempfile.TemporaryDirectory() as folder:
        listings = [Path(folder, f"{number}.txt") for number in range(len(arguments.files))]
        ids = pool.map(collect, itertools.repeat(arguments), arguments.files, listings)
        tests = dict(zip(arguments.files, ids, strict=True))
        todo = batches(tests, arguments.batch, Path(folder))
        list(pool.map(lambda batch: run_batch(arguments, batch, end), todo))
        results = [
            summarize(file, names, [row for batch in todo if batch.file == file for row in rows_of(batch)])
            for file, names in tests.items()
        ]
    arguments.report.write_text(
        json.dumps({"target": arguments.target, "results": results}, indent=1), encoding="utf-8"
    )
    bad = any(r["counts"].get("failed") or r["counts"].get("died") for r in results)
    return int(bad or not all(tests.values()))


if __name__ == "__main__":
    raise SystemExit(main())
