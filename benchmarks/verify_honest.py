"""Judge every right candidate of tests/honest on many draws of inputs; none may ever fail.

    python benchmarks/verify_honest.py [--draws 100] [--only NAME]

Each candidate is verified once with that many draws for each shape, under a new secret seed that
is printed for whatever fails.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

_TESTS = Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(_TESTS / "honest"), str(_TESTS / "verify")]


def main() -> int:
    """Run all; returns 1 when a right candidate failed."""
    # The candidates and their tasks live with the tests, which are not a package.
    candidates = importlib.import_module("honest_candidates").ALL
    judge = importlib.import_module("verify_tasks").judge
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--only")
    arguments = parser.parse_args()
    names = {honest.name for honest in candidates}
    if arguments.only is not None and arguments.only not in names:
        parser.error(f"--only: there is no {arguments.only}; there are {', '.join(sorted(names))}")
    failures, judged, started = 0, 0, time.monotonic()
    for honest in candidates:
        if arguments.only not in (None, honest.name):
            continue
        with tempfile.TemporaryDirectory() as name:
            changes: dict[str, Any] = {"variants": True, **honest.options, "seeds": arguments.draws}
            report = judge(Path(name), honest.task, honest.source, **changes)
        judged += sum(len(r.data["cases"]) for r in report.stages if r.stage == "correctness")
        if not report.passed:
            failures += 1
            print(f"{honest.name}: {report.headline}\n    {report.replay}", flush=True)
    seconds = time.monotonic() - started
    count = 1 if arguments.only else len(candidates)
    print(f"{judged} cases of {count} right candidates in {seconds:.0f} s: {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
