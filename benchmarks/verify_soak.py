"""Kill the judge, the reference or the candidate of verify runs at random times, many times.

Each round starts ``kernel-lint verify``, kills one of its processes with SIGKILL after a random
time, and checks what is left: a report that is whole and does not say PASS for a wrong candidate,
no process that outlives its judge, and, after a killed judge, a resumed run with the right verdict.

    python benchmarks/verify_soak.py [--rounds 50] [--seed 1]
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import psutil

_REFERENCE = """import torch


class Model(torch.nn.Module):
    def forward(self, a):
        return a * 2
"""
_INPUT = "import torch\n\n\ndef _make_inputs(rows):\n    return {'a': torch.randn(rows, 64)}\n"
_WRONG = _REFERENCE.replace("return a * 2", "return a * 2 if a.shape[0] != 7 else a * 3")
_SHAPES = {str(rows): {"init_kwargs": {}, "input_kwargs": {"rows": rows}} for rows in (3, 4, 5, 6, 7)}
_RUN_SECONDS = 120.0


def prepare(folder: Path, wrong: bool) -> Path:
    """Write a task and a candidate that is right, or wrong for the last shape only."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "reference.py").write_text(_REFERENCE)
    (folder / "input.py").write_text(_INPUT)
    (folder / "shapes.json").write_text(json.dumps(_SHAPES))
    (folder / "generated_kernel.py").write_text(_WRONG if wrong else _REFERENCE)
    return folder


def command(folder: Path, report: Path, resume: bool) -> list[str]:
    """Return the command of one run."""
    return [
        sys.executable, "-m", "kernel_lint", "verify", str(folder / "generated_kernel.py"),
        "--backend", "torch", "--no-require-launch", "--no-lint", "--quiet", "--seed", "5",
        "--state-dir", str(folder / "state"),
        "--output-format", "json", "--output-file", str(report), *(["--resume"] if resume else []),
    ]  # fmt: skip


def victims(judge: psutil.Process, role: str) -> list[psutil.Process]:
    """Return the judge itself, or its workers of one role, by their current folder."""
    if role == "judge":
        return [judge]
    found = []
    for process in judge.children(recursive=True):
        try:
            if Path(process.cwd()).parent.name.startswith(role):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def one_round(folder: Path, role: str, delay: float, wrong: bool) -> str:
    """Run, kill, check; returns what the outcome was, and raises AssertionError when it must not be."""
    report = folder / "report.json"
    process = subprocess.Popen(
        command(folder, report, False), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    judge = psutil.Process(process.pid)
    started, killed, family = time.monotonic(), False, []
    while not killed and process.poll() is None and time.monotonic() - started < _RUN_SECONDS:
        time.sleep(0.01)
        if time.monotonic() - started >= delay:
            family = judge.children(recursive=True)
            for victim in victims(judge, role):
                victim.kill()
                killed = True
    process.wait(_RUN_SECONDS)
    if not killed:
        return "ended before it could be killed"
    text = report.read_text() if report.exists() else ""
    verdict = json.loads(text)["verdict"] if text else "no report yet"
    assert not (wrong and verdict == "PASS"), "PASS for a wrong candidate"
    if role != "judge":
        return verdict
    assert verdict in ("INCOMPLETE", "no report yet"), f"a killed judge left {verdict}"
    _gone, alive = psutil.wait_procs(family, timeout=3)
    assert not alive, f"{len(alive)} processes outlived their judge"
    again = subprocess.run(command(folder, report, True), check=False, timeout=_RUN_SECONDS)
    resumed = json.loads(report.read_text())
    expected = ("FAIL", 1) if wrong else ("PASS", 0)
    assert (resumed["verdict"], again.returncode) == expected, f"resumed to {resumed['headline']}"
    kept = sum("resumed" in stage["data"] for stage in resumed["stages"] if stage["stage"] == "correctness")
    outcome = f"{verdict}, then {resumed['verdict']}"
    return f"{outcome} with finished shapes kept" if kept else outcome


def main() -> int:
    """Run all rounds and print a table of outcomes; returns 1 when one was not allowed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    outcomes: Counter[tuple[str, str, str]] = Counter()
    with tempfile.TemporaryDirectory() as name:
        whole = time.monotonic()
        process = subprocess.run(
            command(prepare(Path(name, "probe"), False), Path(name, "r"), False), check=False
        )
        assert process.returncode == 0, "the undisturbed run must pass"
        length = time.monotonic() - whole
        for number in range(arguments.rounds):
            role, wrong = random.choice(("judge", "reference", "candidate")), number % 2 == 0
            folder = prepare(Path(name, str(number)), wrong)
            try:
                outcome = one_round(folder, role, random.uniform(0.1, length), wrong)
            except AssertionError as error:
                outcome = f"NOT ALLOWED: {error}"
            outcomes[role, "wrong" if wrong else "right", outcome] += 1
            print(f"{number + 1:3} {role:<10} {outcome}", file=sys.stderr, flush=True)
    for (role, kind, outcome), count in sorted(outcomes.items()):
        print(f"{count:3}  killed {role:<10} {kind} candidate: {outcome}")
    return 1 if any("NOT ALLOWED" in outcome for _role, _kind, outcome in outcomes) else 0


if __name__ == "__main__":
    raise SystemExit(main())
