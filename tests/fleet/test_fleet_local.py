"""Workers of this machine: the same verdicts as one process gives, whoever is killed on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from fleet_cases import (
    ADD,
    KILLS_ITS_JUDGE,
    OPTIONS,
    OTHER_NAMES,
    QUICK,
    RAISES,
    STALE,
    WRONG_SECOND,
    options,
    write_candidate,
    write_task,
)

from kernel_lint.diagnostics import Reason
from kernel_lint.errors import KernelLintError
from kernel_lint.verify import VerifyOptions, VerifyReport, verify
from kernel_lint.verify.fleet import FleetOptions, find_candidates, local, verify_fleet
from kernel_lint.verify.fleet.execute import judge_nothing, run_task
from kernel_lint.verify.fleet.local import LocalExecutor, find_slots
from kernel_lint.verify.fleet.outcome import Outcome
from kernel_lint.verify.fleet.plan import Planner
from kernel_lint.verify.workplace import PREFIX, remove_own_folders

# A shell that runs the tests in the background has its children ignore interrupts.
WITHOUT_RAY = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.modules["ray"] = None
from kernel_lint.cli import main
sys.exit(main())
"""
SOURCES = {
    "right": ADD,
    "wrong": WRONG_SECOND,
    "stale": STALE,
    "raises": RAISES,
    "names": OTHER_NAMES,
    "syntax": "class Model(:\n",
}


def comparable(report: VerifyReport) -> dict[str, Any]:
    """Leave out what differs from run to run, and the comparisons that a fleet does not keep.

    Whether the shape before is right when it runs again is judged on another draw, so with other figures.
    """
    value = report.to_json()
    for name in ("seconds", "replay"):
        del value[name]
    for stage in value["stages"]:
        del stage["seconds"]
        if "runs again" in stage["message"]:
            stage["message"] = value["headline"] = stage["message"].split(":")[0]
            del stage["data"]["comparison"]
        for name in ("traceback", "output", *(["cases"] if stage["status"] == "passed" else [])):
            stage["data"].pop(name, None)
    return value


def test_a_fleet_says_what_one_process_says(tmp_path: Path) -> None:
    task = write_task(tmp_path / "task")
    paths = [write_candidate(tmp_path / name, source) for name, source in SOURCES.items()]
    alone = [verify(path, task, options(tmp_path, variants=True)) for path in paths]
    candidates, _ = find_candidates(paths, task)
    report = verify_fleet(candidates, options(tmp_path, variants=True), FleetOptions(jobs=1))
    for one, other in zip(alone, report.reports, strict=True):
        assert comparable(one) == comparable(other)
    assert "is wrong when it runs again after shape second" in report.reports[2].headline
    assert [each.verdict.value for each in report.reports] == ["PASS", *["FAIL"] * 5]


def test_who_kills_the_judge_fails_and_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "MAX_RETRIES", 1)
    task = write_task(tmp_path / "task")
    paths = [
        write_candidate(tmp_path / name, source) for name, source in (("a", KILLS_ITS_JUDGE), ("b", ADD))
    ]
    candidates, _ = find_candidates(paths, task)
    report = verify_fleet(candidates, options(tmp_path, isolate=False), FleetOptions(jobs=1))
    killer, other = report.reports
    assert (killer.verdict.value, killer.reason, other.verdict.value) == ("FAIL", Reason.CRASH, "PASS")
    assert killer.failure is not None
    assert killer.failure.shape == "second"
    assert "each of the 2 workers that judged this ended (was ended by SIGKILL)" in killer.failure.message
    assert (report.exit_code, report.judged, report.retried) == (1, 6, 1)


def command(folder: Path, *arguments: str) -> list[str]:
    return [
        *(sys.executable, "-c", WITHOUT_RAY, "verify", *QUICK, "--task", str(folder / "task")),
        *("--state-dir", str(folder / "state"), "--executor", "local", "--jobs", "1"),
        *("--output-format", "json", *arguments, *map(str, sorted(folder.glob("c*")))),
    ]


def await_lines(process: subprocess.Popen[str], count: int) -> list[str]:
    """Return the first lines of progress."""
    assert process.stderr is not None
    lines: list[str] = []
    while sum("] " in line for line in lines) < count:
        line = process.stderr.readline()
        assert line, f"ended early: {lines}"
        lines.append(line)
    return lines


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
def test_the_driver_ends_in_the_middle_and_goes_on(tmp_path: Path, number: signal.Signals) -> None:
    write_task(tmp_path / "task")
    for name in ("c0", "c1", "c2"):
        write_candidate(tmp_path / name, ADD + f"# {name}\n")
    first = subprocess.Popen(command(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    await_lines(first, 4)
    family = psutil.Process(first.pid).children(recursive=True)
    assert family
    first.send_signal(number)
    out, err = first.communicate(timeout=60)
    assert out == ""
    if number is signal.SIGINT:
        assert first.returncode == 2, err
        assert "of 9 tasks are finished, and kept in" in err
        assert "Traceback" not in err
    _, alive = psutil.wait_procs(family, timeout=10)
    assert not alive, "workers outlived their driver"
    for process in family:
        assert not list(Path(tempfile.gettempdir()).glob(f"{PREFIX}{process.pid}-*"))
    [journal] = (tmp_path / "state").glob("*.jsonl")
    kept = [json.loads(line)["key"] for line in journal.read_text().splitlines()[1:]]
    assert len(kept) == len(set(kept)) >= 4
    if number is signal.SIGINT:
        return
    again = subprocess.run(
        command(tmp_path, "--resume"), capture_output=True, text=True, timeout=120, check=False
    )
    report = json.loads(again.stdout)
    assert again.returncode == 0, again.stderr
    assert report["counts"] == {"PASS": 3}
    assert report["tasks"] == {"judged": 9 - len(kept), "resumed": len(kept), "retried": 0}


def test_a_worker_killed_from_outside_costs_nothing(tmp_path: Path) -> None:
    write_task(tmp_path / "task")
    for name in ("c0", "c1"):
        write_candidate(tmp_path / name, ADD + f"# {name}\n")
    run = subprocess.Popen(command(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    await_lines(run, 2)
    [worker] = [
        p for p in psutil.Process(run.pid).children() if "fleet import worker" in " ".join(p.cmdline())
    ]
    worker.kill()
    out, err = run.communicate(timeout=120)
    report = json.loads(out)
    assert run.returncode == 0, err
    assert report["counts"] == {"PASS": 2}
    assert (report["tasks"]["judged"], report["tasks"]["resumed"]) == (6, 0)
    assert report["tasks"]["retried"] <= 1


def test_a_worker_that_cannot_start_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_BOOT", "raise SystemExit(3)")
    candidates, _ = find_candidates([write_candidate(tmp_path / "a")], write_task(tmp_path / "task"))
    with pytest.raises(KernelLintError, match="did not start: it ended with exit status 3"):
        verify_fleet(candidates, options(tmp_path), FleetOptions(jobs=1))


def test_a_file_that_changed_since_is_judged_as_it_was(tmp_path: Path) -> None:
    path, task = write_candidate(tmp_path / "a"), write_task(tmp_path / "task")
    plan = Planner(options(tmp_path), False, True).plan(find_candidates([path], task)[0][0])
    assert plan.file is not None
    path.write_text(RAISES)
    (task / "reference.py").write_text(RAISES)
    outcome = Outcome.from_text(run_task(plan.file))
    assert outcome.opens_shapes, outcome.failure
    assert len(list(Path(tempfile.gettempdir()).glob(f"{PREFIX}{os.getpid()}-*"))) == 1
    remove_own_folders()
    assert not list(Path(tempfile.gettempdir()).glob(f"{PREFIX}{os.getpid()}-*"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": "0.0.1"}, "is installed here and 0.0.1 where the run was started"),
        ({"targets_given": False}, "the GPU here is cpu, and the run is for gfx950"),
    ],
)
def test_a_node_that_must_not_judge_says_why(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    settings = options(tmp_path, targets=("gfx950",))
    candidates, _ = find_candidates([write_candidate(tmp_path / "a")], write_task(tmp_path / "task"))
    plan = Planner(settings, False, True).plan(candidates[0])
    outcome = Outcome.from_text(run_task(replace(plan.shapes[0], **change)))
    assert not outcome.final
    assert outcome.failure is not None
    assert outcome.failure.reason is Reason.ENV_ERROR
    assert words in outcome.failure.message


class TestSlots:
    """One worker for each GPU, or for each CPU slot."""

    def test_processors_are_shared_among_threads(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
        monkeypatch.setattr(psutil, "virtual_memory", lambda: types.SimpleNamespace(available=64 << 30))
        assert len(find_slots(VerifyOptions(**OPTIONS), None)) == 8
        assert len(find_slots(VerifyOptions(**{**OPTIONS, "threads": 3}), None)) == 2
        assert len(find_slots(VerifyOptions(**{**OPTIONS, "threads": 99}), None)) == 1
        assert len(find_slots(VerifyOptions(**OPTIONS), 3)) == 3

    def test_no_more_than_the_memory_bears(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)))
        free = types.SimpleNamespace(available=5 << 30)
        monkeypatch.setattr(psutil, "virtual_memory", lambda: free)
        assert len(find_slots(VerifyOptions(**OPTIONS), None)) == 5
        free.available = 1 << 20
        assert len(find_slots(VerifyOptions(**OPTIONS), None)) == 1

    @staticmethod
    def gpus(monkeypatch: pytest.MonkeyPatch, text: str, jobs: int | None = None) -> list[Any]:
        done = subprocess.CompletedProcess([], 0, text, "")
        monkeypatch.setattr(subprocess, "run", lambda *a, **k: done)
        found = find_slots(VerifyOptions(**{**OPTIONS, "backend": "rocm"}), jobs)
        return [slot.environment for slot in found]

    def test_each_gpu_is_shown_to_one_worker(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("HIP_VISIBLE_DEVICES", raising=False)
        assert self.gpus(monkeypatch, "2 1") == [
            (("HIP_VISIBLE_DEVICES", "0"),),
            (("HIP_VISIBLE_DEVICES", "1"),),
        ]

    def test_only_those_that_the_user_shows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5, 7")
        assert self.gpus(monkeypatch, "2 0") == [
            (("CUDA_VISIBLE_DEVICES", "5"),),
            (("CUDA_VISIBLE_DEVICES", "7"),),
        ]

    def test_jobs_are_no_more_than_gpus(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("HIP_VISIBLE_DEVICES", raising=False)
        assert len(self.gpus(monkeypatch, "4 1", 2)) == 2
        assert len(self.gpus(monkeypatch, "4 1", 9)) == 4

    @pytest.mark.parametrize("text", ["0 0", "", "no torch"])
    def test_no_gpu_is_an_error_with_a_remedy(self, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
        with pytest.raises(KernelLintError, match="backend rocm needs a GPU") as error:
            self.gpus(monkeypatch, text)
        assert "--backend emulate" in error.value.remedy


def test_many_tasks_on_few_workers_each_come_back_once(tmp_path: Path) -> None:
    task = write_task(tmp_path / "task", shapes={str(n): n for n in range(1, 41)})
    settings = options(tmp_path)
    plan = Planner(settings, False, True).plan(find_candidates([write_candidate(tmp_path / "a")], task)[0][0])
    executor = LocalExecutor(settings, 2, judge_nothing)
    started = time.monotonic()
    try:
        for each in plan.shapes:
            executor.submit(each)
        found: list[str] = []
        while len(found) < 40:
            found += [done.outcome.key for done in executor.wait()]
    finally:
        executor.close()
    assert sorted(found) == sorted(each.key for each in plan.shapes)
    assert time.monotonic() - started < 60
