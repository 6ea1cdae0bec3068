"""The whole stage on the CPU, by the wall clock; the same candidates on a GPU where there is one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "verify"))
sys.path.insert(0, str(Path(__file__).parent))

from timing_candidates import HEADER as CANDIDATE_HEADER
from timing_candidates import HONEST, HOSTILE, INPUTS, REFERENCE, Hostile
from verify_tasks import TaskText, judge, task

from kernel_lint.diagnostics import Reason, StageStatus

SOFTMAX = task(REFERENCE, INPUTS, {"only": {"rows": 64, "columns": 512}})
# A call keeps a device busy for longer than it takes to launch.
LARGE = {"only": {"rows": 2048, "columns": 4096}}
QUICK = {"timing": "wall", "compiled": "0", "rounds": "4", "samples": "2"}
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")


def performance(folder: Path, source: str, about: TaskText = SOFTMAX, **changes: object):
    options = {"backend_options": QUICK, **changes}
    report = judge(folder, about, CANDIDATE_HEADER + source, **options)
    return report, next(r for r in report.stages if r.stage == "performance")


def test_an_honest_candidate_is_measured(tmp_path: Path) -> None:
    report, result = performance(tmp_path, HONEST["same"])
    assert report.passed, report.headline
    assert result.status is StageStatus.PASSED
    assert result.data["microseconds"]["candidate"]["value"] > 0
    assert result.data["speedup"]["reference"]["rounds"] == 4
    assert result.data["work"]["bytes"] == 2 * 4 * 64 * 512
    assert result.data["method"] == "wall clock, eager"


def test_without_being_asked_a_cpu_is_not_timed(tmp_path: Path) -> None:
    report, result = performance(tmp_path, HONEST["same"], backend_options={})
    assert report.passed
    assert result.status is StageStatus.SKIPPED
    assert "UNMEASURED" in report.headline


@pytest.mark.parametrize("hostile", [h for h in HOSTILE if not h.gpu], ids=lambda h: h.name)
def test_hostile_candidates_are_refused(tmp_path: Path, hostile: Hostile) -> None:
    report, _result = performance(tmp_path, hostile.source)
    assert not report.passed
    assert report.reason is not None
    assert report.reason.value in hostile.reasons, report.headline


SLEEPING = REFERENCE.replace("        return", "        __import__('time').sleep(0.005)\n        return")


def test_a_sleeping_reference_is_refused(tmp_path: Path) -> None:
    slow = task(SLEEPING, INPUTS, {"only": {"rows": 64, "columns": 512}})
    report = judge(tmp_path, slow, CANDIDATE_HEADER + HONEST["same"], backend_options=QUICK)
    assert not report.passed
    assert report.reason is Reason.INVALID_TIMING
    assert "the reference sleeps" in report.headline


ON_A_GPU = {"backend": "device", "backend_options": {"compiled": "0", "rounds": "4"}}


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda h: h.name)
def test_hostile_candidates_are_refused_on_a_gpu(tmp_path: Path, hostile: Hostile) -> None:
    report, _result = performance(tmp_path, hostile.source, task(REFERENCE, INPUTS, LARGE), **ON_A_GPU)
    assert not report.passed
    assert report.reason is not None
    assert report.reason.value in hostile.reasons, report.headline


@pytest.mark.gpu
@needs_gpu
def test_a_sleeping_reference_is_refused_on_a_gpu(tmp_path: Path) -> None:
    report, _result = performance(tmp_path, HONEST["same"], task(SLEEPING, INPUTS, LARGE), **ON_A_GPU)
    assert report.reason is Reason.INVALID_TIMING
    assert "the reference sleeps" in report.headline


@pytest.mark.gpu
@needs_gpu
def test_a_reference_that_waits_for_its_device_is_measured(tmp_path: Path) -> None:
    waits = "        for _ in range(200):\n            y = torch.softmax(x, dim=-1)\n        y.sum().item()\n"
    waiting = REFERENCE.replace("        return", f"{waits}        return")
    report, result = performance(tmp_path, HONEST["same"], task(waiting, INPUTS, LARGE), **ON_A_GPU)
    assert report.passed, report.headline
    assert result.data["method"] == "device events, eager"
