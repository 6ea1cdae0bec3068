# ruff: noqa: PT012, E501 - what is raised stands for a kill inside the block
from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest
from verify_tasks import ADD, judge

from kernel_lint.diagnostics import Reason
from kernel_lint.verify import VerifyOptions
from kernel_lint.verify.contract import Task, load_task
from kernel_lint.verify.isolation import Limits
from kernel_lint.verify.journal import open_journal
from kernel_lint.verify.stages import failed, passed


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return load_task(ADD.write(tmp_path / "task"))


def _options(tmp_path: Path, resume: bool, **changes: object) -> VerifyOptions:
    return VerifyOptions(state_dir=tmp_path / "state", resume=resume, **changes)  # type: ignore[arg-type]


def _interrupt(task: Task, tmp_path: Path, source: bytes = b"x") -> Path:
    """Finish one shape, then end like a killed process."""
    with (
        pytest.raises(KeyboardInterrupt),
        open_journal(task, source, _options(tmp_path, False), ("t",)) as journal,
    ):
        journal.finish("first", "t", [passed("correctness", "first", "t", "fine", 1.5, cases=[1])])
        raise KeyboardInterrupt
    [path] = (tmp_path / "state").iterdir()
    return path


def test_a_finished_shape_is_found_again(task: Task, tmp_path: Path) -> None:
    _interrupt(task, tmp_path)
    with open_journal(task, b"x", _options(tmp_path, True), ("t",)) as journal:
        [result] = journal.finished("first", "t") or []
        assert (result.stage, result.message, result.data) == (
            "correctness",
            "fine",
            {"cases": [1], "resumed": True},
        )
        assert journal.finished("second", "t") is None
        assert journal.finished("first", "u") is None


def test_without_resume_the_old_run_is_forgotten(task: Task, tmp_path: Path) -> None:
    _interrupt(task, tmp_path)
    with open_journal(task, b"x", _options(tmp_path, False), ("t",)) as journal:
        assert journal.finished("first", "t") is None


OTHER_OPTIONS = {
    "tolerance": "contract",
    "seeds": 9,
    "timeout": 7.0,
    "threads": 2,
    "limits": Limits(processes=3),
    "backend_options": {"device": "cuda"},
}


@pytest.mark.parametrize("option", OTHER_OPTIONS)
def test_other_options_share_nothing(task: Task, tmp_path: Path, option: str) -> None:
    _interrupt(task, tmp_path)
    changed = _options(tmp_path, True, **{option: OTHER_OPTIONS[option]})
    with open_journal(task, b"x", changed, ("t",)) as journal:
        assert journal.finished("first", "t") is None


def test_another_candidate_shares_nothing(task: Task, tmp_path: Path) -> None:
    _interrupt(task, tmp_path)
    with open_journal(task, b"y", _options(tmp_path, True), ("t",)) as journal:
        assert journal.finished("first", "t") is None


def test_other_versions_share_nothing(task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _interrupt(task, tmp_path)
    monkeypatch.setattr(importlib.metadata, "version", lambda name: f"{name} of tomorrow")
    with open_journal(task, b"x", _options(tmp_path, True), ("t",)) as journal:
        assert journal.finished("first", "t") is None


def test_a_line_cut_short_is_no_line(task: Task, tmp_path: Path) -> None:
    path = _interrupt(task, tmp_path)
    whole = path.read_text()
    for length in range(0, len(whole) - 1, 7):
        path.write_text(whole[:length])
        with (
            pytest.raises(KeyboardInterrupt),
            open_journal(task, b"x", _options(tmp_path, True), ("t",)) as journal,
        ):
            assert journal.finished("first", "t") is None
            raise KeyboardInterrupt


def test_faults_of_the_machine_are_tried_again(task: Task, tmp_path: Path) -> None:
    with (
        pytest.raises(KeyboardInterrupt),
        open_journal(task, b"x", _options(tmp_path, False), ("t",)) as journal,
    ):
        journal.finish("first", "t", [failed("correctness", Reason.HARNESS_ERROR, "no room", "first", "t")])
        raise KeyboardInterrupt
    with open_journal(task, b"x", _options(tmp_path, True), ("t",)) as journal:
        assert journal.finished("first", "t") is None


def test_a_run_that_reached_its_end_leaves_nothing(task: Task, tmp_path: Path) -> None:
    with open_journal(task, b"x", _options(tmp_path, False), ("t",)) as journal:
        journal.finish("first", "t", [passed("correctness", "first", "t")])
    assert list((tmp_path / "state").iterdir()) == []


def test_the_evidence_of_a_failing_case_is_kept(tmp_path: Path) -> None:
    from kernel_lint.verify import trees

    wrong = "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, a, b):\n        return a + b + 1\n"
    report = judge(tmp_path, ADD, wrong, keep=tmp_path / "kept", shapes=("first",))
    assert report.reason is Reason.VALUE
    [folder] = (tmp_path / "kept").iterdir()
    files = {path.stem: trees.load_tree(path).value for path in folder.iterdir()}
    assert set(files) == {"inputs", "output", "expected", "expected64", "difference"}
    total = files["inputs"]["a"] + files["inputs"]["b"]
    assert files["expected"].equal(total)
    assert files["output"].equal(total + 1)
    assert files["difference"]["output"].round().eq(1).all()


def test_a_seed_replays_the_same_draws(tmp_path: Path) -> None:
    right = "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, a, b):\n        return a + b\n"

    def draws(seed: int) -> list[str]:
        report = judge(tmp_path, ADD, right, seed=seed, shapes=("first",))
        assert f"--seed {seed}" in report.replay
        return next(list(r.data["draws"]) for r in report.stages if r.stage == "correctness")

    assert draws(5) == draws(5) != draws(6)
