"""The loop: what is judged, in which order, how often; and what a run takes from the one before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from fleet_cases import ADD, FakeExecutor, options, right, write_candidate, write_task, wrong

from kernel_lint.diagnostics import Reason, StageResult
from kernel_lint.errors import KernelLintError
from kernel_lint.verify import Verdict
from kernel_lint.verify.fleet import FleetOptions, FleetReport, driver, find_candidates, verify_fleet
from kernel_lint.verify.fleet.plan import FleetTask
from kernel_lint.verify.stages import failed

Judge = Callable[[FleetTask], tuple[StageResult, ...]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_task(tmp_path / "task")
    for number in range(3):
        write_candidate(tmp_path / f"c{number}", ADD + f"# {number}\n")
    return tmp_path


class Harness:
    """Runs fleets in one folder with an executor that judges nothing."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self._patch = folder, monkeypatch
        self.said: list[str] = []
        self.lines: list[str] = []

    def run(
        self, judge: Judge = right, room: int = 2, own_tasks: bool = False, **changes: object
    ) -> FleetReport:
        self.executor = FakeExecutor(judge, room)
        self._patch.setattr(driver, "make_executor", lambda fleet, options: self.executor)
        task = None if own_tasks else self.folder / "task"
        candidates, _ = find_candidates(sorted(self.folder.glob("c*")), task)
        self.said, self.lines = [], []
        fleet = FleetOptions(progress=self.lines.append, say=self.said.append)
        return verify_fleet(candidates, options(self.folder, **changes), fleet)

    def judged(self) -> list[str]:
        return [f"{t.path.parent.name} {t.shape or 'file'}" for t in self.executor.judged]


@pytest.fixture
def harness(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Harness:
    return Harness(folder, monkeypatch)


def verdicts(report: FleetReport) -> list[str]:
    return [each.verdict.value for each in report.reports]


def test_all_pass(harness: Harness) -> None:
    report = harness.run()
    assert verdicts(report) == ["PASS", "PASS", "PASS"]
    assert (report.exit_code, report.judged, report.resumed, report.counts) == (0, 9, 0, {"PASS": 3})
    assert [each.shapes for each in report.reports] == [("first", "second")] * 3
    assert report.reports[0].seconds == 1.5
    assert harness.executor.closed


def test_a_candidates_shapes_go_before_the_next_candidate(harness: Harness) -> None:
    harness.run(room=1)
    assert harness.judged() == [f"c{n} {part}" for n in range(3) for part in ("file", "first", "second")]


def test_shapes_of_a_broken_file_are_not_judged(harness: Harness) -> None:
    report = harness.run(lambda task: wrong(task) if task.path.parent.name == "c1" else right(task))
    assert verdicts(report) == ["PASS", "FAIL", "PASS"]
    assert (report.exit_code, report.judged) == (1, 7)
    assert report.reports[1].reason is Reason.IMPORT_ERROR
    assert harness.lines[-1].startswith("[7/7] ")


def test_one_wrong_shape_fails_its_candidate_only(harness: Harness) -> None:
    report = harness.run(
        lambda task: wrong(task) if (task.path.parent.name, task.shape) == ("c2", "second") else right(task)
    )
    assert verdicts(report) == ["PASS", "PASS", "FAIL"]
    assert report.reports[2].headline == "FAIL: correctness (shape second): VALUE: all elements are wrong"


def test_the_same_text_is_judged_once(harness: Harness) -> None:
    for number in (1, 2):
        write_candidate(harness.folder / f"c{number}", ADD + "# 0\n")
    report = harness.run()
    assert harness.judged() == ["c0 file", "c0 first", "c0 second"]
    assert verdicts(report) == ["PASS", "PASS", "PASS"]
    assert [Path(each.candidate).parent.name for each in report.reports] == ["c0", "c1", "c2"]
    assert report.notes == (
        "2 of the candidates have the text and the task of another, and share its results",
    )


def test_the_same_broken_text_counts_its_shapes_once(harness: Harness) -> None:
    for number in (1, 2):
        write_candidate(harness.folder / f"c{number}", ADD + "# 0\n")
    assert verdicts(harness.run(wrong)) == ["FAIL", "FAIL", "FAIL"]
    assert harness.lines == [
        f"[1/1] {harness.folder}/c0/generated_kernel.py file  failed IMPORT_ERROR  0.50 s"
    ]


def test_each_workspace_has_its_own_task(harness: Harness) -> None:
    write_task(harness.folder / "c0", shapes={"one": 3})
    write_task(harness.folder / "c1")
    report = harness.run(own_tasks=True)
    assert verdicts(report) == ["PASS", "PASS", "INVALID_TASK"]
    assert report.exit_code == 2
    assert [each.shapes for each in report.reports] == [("one",), ("first", "second"), ()]


def test_a_candidate_without_a_file_fails_and_the_others_are_judged(harness: Harness) -> None:
    (harness.folder / "c1" / "generated_kernel.py").unlink()
    report = harness.run()
    assert verdicts(report) == ["PASS", "FAIL", "PASS"]
    assert report.reports[1].replay == ""


def test_a_fault_of_the_machine_is_neither_a_pass_nor_the_candidates(harness: Harness) -> None:
    def judge(task: FleetTask) -> tuple[StageResult, ...]:
        return (failed("import", Reason.ENV_ERROR, "no GPU", task.shape),)

    report = harness.run(judge)
    assert verdicts(report) == ["ERROR"] * 3
    assert report.exit_code == 2
    assert any("--resume" in line for line in harness.said)
    again = harness.run(resume=True)
    assert (verdicts(again), again.judged, again.resumed) == (["PASS"] * 3, 9, 0)


def test_a_shape_that_nobody_spoke_of_is_no_pass(harness: Harness) -> None:
    report = harness.run(lambda task: right(task) if task.shape != "second" else ())
    assert verdicts(report) == ["FAIL"] * 3


class Interruption:
    """Ends a run after some tasks, as Ctrl-C does."""

    def __init__(self, tasks: int) -> None:
        self.left = tasks

    def __call__(self, task: FleetTask) -> tuple[StageResult, ...]:
        if self.left == 0:
            raise KeyboardInterrupt
        self.left -= 1
        return right(task)


@pytest.mark.parametrize("tasks", range(9))
def test_a_run_goes_on_where_it_was_stopped(harness: Harness, tasks: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        harness.run(Interruption(tasks))
    assert harness.executor.closed
    assert harness.said[-1].startswith(f"stopped: {tasks} of 9 tasks are finished")
    before = Counter(harness.judged()[:tasks])
    report = harness.run(resume=True, seed=99)
    assert (verdicts(report), report.resumed, report.judged) == (["PASS"] * 3, tasks, 9 - tasks)
    assert set((before + Counter(harness.judged())).values()) == {1}
    assert list((harness.folder / "state").iterdir()) == []
    # The secret of the first run is that of the whole, so that one line replays all.
    assert all("--seed 11 " in each.replay for each in report.reports)


def test_stopped_and_gone_on_again_and_again(harness: Harness) -> None:
    counts: Counter[str] = Counter()
    for _ in range(8):
        with pytest.raises(KeyboardInterrupt):
            harness.run(Interruption(1), resume=True)
        counts.update(harness.judged()[:1])
    report = harness.run(resume=True)
    counts.update(harness.judged())
    assert (verdicts(report), report.resumed, set(counts.values())) == (["PASS"] * 3, 8, {1})


def test_without_resume_a_run_starts_anew_and_says_so(harness: Harness) -> None:
    with pytest.raises(KeyboardInterrupt):
        harness.run(Interruption(4))
    report = harness.run()
    assert (report.judged, report.resumed) == (9, 0)
    assert harness.said[0].startswith("an interrupted run of these tasks (4 finished) was set aside: ")


def test_who_forgets_to_resume_has_not_lost_the_long_run(harness: Harness) -> None:
    with pytest.raises(KeyboardInterrupt):
        harness.run(Interruption(7))
    for tasks in (0, 2):
        with pytest.raises(KeyboardInterrupt):
            harness.run(Interruption(tasks))
    report = harness.run(resume=True)
    assert harness.said[0].startswith("going on with the run that was set aside (7 finished)")
    assert (verdicts(report), report.resumed, report.judged) == (["PASS"] * 3, 7, 2)
    assert list((harness.folder / "state").iterdir()) == []


def test_what_was_set_aside_and_holds_others_stays(harness: Harness) -> None:
    with pytest.raises(KeyboardInterrupt):
        harness.run(Interruption(8), room=1)
    (harness.folder / "c0" / "generated_kernel.py").rename(harness.folder / "kept.py")
    harness.run()
    (harness.folder / "kept.py").rename(harness.folder / "c0" / "generated_kernel.py")
    assert harness.run(resume=True).resumed == 8


def test_the_start_says_what_is_ahead_and_what_cannot_be_judged(harness: Harness) -> None:
    (harness.folder / "c1" / "generated_kernel.py").unlink()
    harness.run()
    assert harness.said == [
        f"3 candidates, at most 6 tasks; {harness.executor.describe()}",
        f"  not judged: {harness.folder}/c1/generated_kernel.py: IMPORT_ERROR: "
        f"{harness.folder}/c1 holds no generated_kernel.py",
    ]
    for number in range(30):
        (harness.folder / f"cx{number}").mkdir()
    harness.run()
    assert harness.said[-1] == "  not judged: 21 more; the report has them all"
    assert len(harness.said) == 12


def test_a_changed_candidate_is_judged_again_and_only_it(harness: Harness) -> None:
    with pytest.raises(KeyboardInterrupt):
        harness.run(Interruption(8), room=1)
    write_candidate(harness.folder / "c0", ADD + "# changed\n")
    report = harness.run(resume=True)
    assert (report.judged, report.resumed) == (4, 5)
    assert sorted(harness.judged()) == ["c0 file", "c0 first", "c0 second", "c2 second"]


def test_more_candidates_may_come(harness: Harness) -> None:
    with pytest.raises(KeyboardInterrupt):
        harness.run(Interruption(8))
    write_candidate(harness.folder / "c3", ADD + "# 3\n")
    report = harness.run(resume=True)
    assert (verdicts(report), report.judged, report.resumed) == (["PASS"] * 4, 4, 8)


@pytest.mark.parametrize(
    ("change", "words"),
    [("reference", "the tasks' files differ"), ("seeds", "seeds differ"), ("timeout", "timeout differ")],
)
def test_a_journal_of_something_else_is_named_and_not_used(harness: Harness, change: str, words: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        harness.run(Interruption(4))
    if change == "reference":
        write_task(harness.folder / "task", ADD + "# changed\n")
    changes: dict[str, object] = {"seeds": {"seeds": 3}, "timeout": {"timeout": 9.0}}.get(change, {})
    report = harness.run(resume=True, **changes)
    assert (report.judged, report.resumed) == (9, 0)
    assert harness.said[0].startswith("there is no interrupted run")
    assert words in harness.said[1]


def test_a_journal_of_other_candidates_says_so(harness: Harness) -> None:
    with pytest.raises(KeyboardInterrupt):
        harness.run(Interruption(4))
    for number in range(3):
        write_candidate(harness.folder / f"c{number}", ADD + f"# new {number}\n")
    assert harness.run(resume=True).judged == 9
    assert harness.said[0].startswith("the interrupted run judged other candidates")


def test_a_report_that_cannot_be_written_loses_nothing(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = FakeExecutor()
    monkeypatch.setattr(driver, "make_executor", lambda fleet, options: executor)
    candidates, _ = find_candidates(sorted(harness.folder.glob("c*")), harness.folder / "task")

    def publish(report: FleetReport) -> None:
        raise KernelLintError("report.json cannot be written (No space left on device)")

    with pytest.raises(KernelLintError, match=r"report\.json"):
        verify_fleet(candidates, options(harness.folder), FleetOptions(), publish)
    report = harness.run(resume=True)
    assert (report.judged, report.resumed) == (0, 9)
    assert all(each.verdict is Verdict.PASS for each in report.reports)


def test_stages_of_two_targets_are_in_the_order_of_one_process(harness: Harness) -> None:
    def judge(task: FleetTask) -> tuple[StageResult, ...]:
        if task.shape is None:
            return right(task)
        return tuple(
            StageResult(s.stage, s.status, s.shape, target)
            for target in task.options.targets
            for s in right(task)
        )

    report = harness.run(judge, backend="emulate", targets=("gfx942", "gfx950"))
    assert verdicts(report) == ["PASS"] * 3
    places = [(s.target, s.shape) for s in report.reports[0].stages if s.stage == "compile"]
    assert places == [(t, s) for t in ("gfx942", "gfx950") for s in ("first", "second")]


def test_an_executor_that_does_not_exist() -> None:
    with pytest.raises(KernelLintError, match="there is no executor 'slurm'"):
        driver.make_executor(FleetOptions("slurm"), options(Path()))
