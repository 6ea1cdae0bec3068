"""A task that takes its time: a limit that can be set, the slow code named, and a word meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest
from verify_tasks import ADD_ONE, HEADER, TaskText, judge

from kernel_lint.cli import main
from kernel_lint.diagnostics import Reason
from kernel_lint.verify import pace
from kernel_lint.verify.pace import Pace

_CANDIDATE = HEADER + ADD_ONE.reference
_SLEEP = "import time\ntime.sleep(60)\n"


def _slow(file: str, text: str) -> TaskText:
    parts = {"reference": ADD_ONE.reference, "inputs": ADD_ONE.inputs, file: text}
    return TaskText(parts["reference"], parts["inputs"], ADD_ONE.shapes, {})


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (_slow("inputs", _SLEEP + ADD_ONE.inputs), "input.py: import"),
        (_slow("reference", _SLEEP + ADD_ONE.reference), "reference.py: import"),
        (
            _slow("inputs", ADD_ONE.inputs.replace("return", "import time; time.sleep(60); return")),
            'input.py: _make_inputs for shape "only"',
        ),
        (
            _slow("reference", ADD_ONE.reference.replace("return", "import time; time.sleep(60); return")),
            'reference.py: Model.forward for shape "only"',
        ),
        (
            _slow(
                "reference",
                ADD_ONE.reference.replace(
                    "return", "import time; time.sleep(60 * (a.dtype == torch.float64)); return"
                ),
            ),
            'reference.py: Model.forward for shape "only" in float64',
        ),
    ],
    ids=["input import", "reference import", "inputs", "forward", "float64"],
)
def test_the_message_names_what_did_not_end(
    text: TaskText, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "QUIET_SECONDS", 0.3)
    said: list[str] = []
    report = judge(tmp_path, text, _CANDIDATE, task_timeout=2.0, progress=said.append)
    assert (report.reason, report.exit_code) == (Reason.INVALID_TASK, 2)
    assert f"{where}: gave no answer within 2 s and was killed" in report.headline
    assert "--task-timeout SECONDS" in report.headline
    assert any(line.startswith(f"waiting for {where}: ") and "of at most 2 s" in line for line in said)


def test_a_slow_candidate_is_waited_for_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "QUIET_SECONDS", 0.3)
    said: list[str] = []
    source = HEADER + ADD_ONE.reference.replace("return", "import time; time.sleep(1); return")
    assert judge(tmp_path, ADD_ONE, source, progress=said.append).passed
    assert any(line.startswith("waiting for the candidate's Model.forward: ") for line in said)


def test_a_long_wait_is_told_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(pace.time, "monotonic", lambda: now[0])
    said: list[str] = []
    watch = Pace(said.append)
    while now[0] < 300:
        now[0] += 0.25
        watch.waiting("x", now[0], 300.0)
    assert said == [f"waiting for x: {second} s of at most 300 s" for second in (5, 10, 20, 40, 80, 160)]


def test_nothing_is_said_right_after_something_was(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(pace.time, "monotonic", lambda: now[0])
    said: list[str] = []
    watch = Pace(said.append)
    for second in range(12):
        now[0] = float(second)
        watch.now_and_then(f"at {second}")
    assert said == ["at 5", "at 10"]


@pytest.mark.parametrize("name", ["verify", "finalize"])
def test_the_limit_can_be_set(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    main([name, "--help"])
    assert "--task-timeout" in capsys.readouterr().out
