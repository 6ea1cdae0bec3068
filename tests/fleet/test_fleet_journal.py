"""What is kept of a run, and what a crash, a full disk or another run may do to it."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_lint.diagnostics import Reason, StageResult, StageStatus
from kernel_lint.errors import KernelLintError
from kernel_lint.verify.fleet.journal import FleetJournal
from kernel_lint.verify.fleet.outcome import Outcome, slim
from kernel_lint.verify.stages import failed, passed

IDENTITY = {"backend": "torch", "targets": ("cpu",), "seeds": 2}


def journal(folder: Path, identity: dict[str, Any] = IDENTITY, digest: str = "d") -> FleetJournal:
    return FleetJournal(folder, identity, [digest])


def outcome(key: str) -> Outcome:
    return Outcome(key, (passed("correctness", "first", "cpu", "fine", 1.5, draws=[key]),), place="here:1")


def interrupted(folder: Path, *keys: str, seed: int = 9) -> Path:
    """Leave what a run leaves that ended after some tasks."""
    with journal(folder) as opened:
        opened.begin(seed)
        opened.record((key, outcome(key).to_text()) for key in keys)
        return opened.path


def read(folder: Path) -> dict[str, Outcome]:
    with journal(folder) as opened:
        found = opened.read()
        return found.outcomes if found else {}


def test_finished_tasks_and_the_seed_are_found_again(tmp_path: Path) -> None:
    interrupted(tmp_path, "a", "b")
    with journal(tmp_path) as opened:
        found = opened.read()
        assert found is not None
        assert found.seed == 9
        assert found.outcomes == {"a": outcome("a"), "b": outcome("b")}


def test_a_run_that_goes_on_appends(tmp_path: Path) -> None:
    interrupted(tmp_path, "a")
    with journal(tmp_path) as opened:
        opened.begin(9, ["a"])
        opened.record([("b", outcome("b").to_text())])
    assert list(read(tmp_path)) == ["a", "b"]


def test_a_task_has_one_line(tmp_path: Path) -> None:
    interrupted(tmp_path, "a")
    with journal(tmp_path) as opened:
        opened.begin(9, ["a"])
        with pytest.raises(AssertionError, match="judged twice"):
            opened.record([("a", outcome("a").to_text())])


def test_only_the_user_may_read_the_seed(tmp_path: Path) -> None:
    assert stat.S_IMODE(interrupted(tmp_path).stat().st_mode) == 0o600


def test_cut_anywhere_it_holds_the_whole_lines_and_goes_on(tmp_path: Path) -> None:
    path = interrupted(tmp_path, "a", "b")
    whole = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(whole) if byte == 10]
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        expected = ["a", "b"][: max(0, sum(end <= length for end in ends) - 1)]
        assert list(read(tmp_path)) == expected
        with journal(tmp_path) as opened:
            opened.begin(9, expected)
            opened.record([("c", outcome("c").to_text())])
        assert list(read(tmp_path)) == [*expected, "c"]


@pytest.mark.parametrize("junk", [b"\0" * 40, b"{}", b'{"key": "x"}', b"[1]", b"\xff\xfe", b"null"])
def test_a_line_that_is_none_is_skipped(tmp_path: Path, junk: bytes) -> None:
    path = interrupted(tmp_path, "a")
    with path.open("ab") as file:
        file.write(junk + b"\n" + outcome("b").to_text().encode() + b"\n")
    assert list(read(tmp_path)) == ["a", "b"]


@pytest.mark.parametrize("junk", [b"", b"nonsense\n", b"{}\n", b'{"format": "another"}\n'])
def test_a_file_of_another_kind_is_no_journal(tmp_path: Path, junk: bytes) -> None:
    interrupted(tmp_path, "a").write_bytes(junk)
    assert read(tmp_path) == {}


def test_other_options_or_tasks_have_another_file_and_are_named(tmp_path: Path) -> None:
    path = interrupted(tmp_path, "a")
    with journal(tmp_path, {**IDENTITY, "backend": "emulate"}) as opened:
        assert opened.read() is None
        assert opened.others() == [(path, ["backend"])]
    with journal(tmp_path, digest="e") as opened:
        assert opened.read() is None
        assert opened.others() == [(path, [])]


def test_two_runs_at_once_are_refused(tmp_path: Path) -> None:
    with journal(tmp_path), pytest.raises(KernelLintError, match="another run") as error, journal(tmp_path):
        pass
    assert "--state-dir" in error.value.remedy


def test_a_run_that_starts_anew_sets_the_old_one_aside(tmp_path: Path) -> None:
    path = interrupted(tmp_path, "a")
    text = path.read_bytes()
    with journal(tmp_path) as opened:
        old = opened.set_aside()
        assert old is not None
        assert old.read_bytes() == text
        assert opened.read() is None
        assert opened.set_aside() is None


def test_of_two_that_were_set_aside_the_longer_is_kept(tmp_path: Path) -> None:
    text = interrupted(tmp_path, "a", "b").read_bytes()
    with journal(tmp_path) as opened:
        opened.set_aside()
    interrupted(tmp_path, "a")
    with journal(tmp_path) as opened:
        assert opened.set_aside() == opened.old
        assert opened.old.read_bytes() == text
        assert opened.take_back({"c"}) == 0
        assert opened.take_back({"b", "c"}) == 1
        assert opened.path.read_bytes() == text
        assert not opened.old.exists()
        assert opened.take_back({"a", "b"}) == 0


def test_a_finished_run_leaves_nothing(tmp_path: Path) -> None:
    interrupted(tmp_path, "a")
    with journal(tmp_path) as opened:
        opened.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_said_and_what_was_written_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, full = os.write, False

    def half(file: int, data: bytes) -> int:
        if full and len(data) > 20:
            return write(file, data[:20])
        if full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, data)

    with journal(tmp_path) as opened:
        opened.begin(9)
        opened.record([("a", outcome("a").to_text())])
        monkeypatch.setattr(os, "write", half)
        full = True
        with pytest.raises(KernelLintError, match="No space left on device") as error:
            opened.record([("b", outcome("b").to_text())])
        full = False
    assert "make room" in error.value.remedy
    assert list(read(tmp_path)) == ["a"]


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(KernelLintError, match="cannot be written"), journal(tmp_path / "file" / "state"):
        pass


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
STAGES = st.builds(
    StageResult,
    st.sampled_from(["import", "correctness"]),
    st.sampled_from(StageStatus),
    st.none() | st.text(max_size=5),
    st.none() | st.just("cpu"),
    st.none() | st.sampled_from(Reason),
    st.text(max_size=40),
    st.integers(0, 1000).map(float),
    st.dictionaries(st.text(max_size=5), JSON, max_size=3),
)


@given(st.lists(STAGES, max_size=4), st.text(max_size=9), st.lists(st.text(max_size=9), max_size=3))
def test_an_outcome_is_one_line_and_comes_back(stages: list[StageResult], note: str, lost: list[str]) -> None:
    before = Outcome(
        "k", tuple(stages), {"audit_hook": True}, (note,), {"torch": "2"}, 1.5, note, tuple(lost)
    )
    text = before.to_text()
    assert "\n" not in text
    assert Outcome.from_text(text) == before


def test_the_comparisons_of_what_passed_are_left_out() -> None:
    stage = passed("correctness", cases=[1, 2], draws=["x"])
    assert slim(stage).data == {"draws": ["x"]}
    bad = failed("correctness", Reason.VALUE, "no", cases=[1])
    assert slim(bad) is bad
