"""The stop hook, driven by recorded events through block, fix, allow, and the loop that must end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from integrations.workspaces import make_workspace, package_into, remember

from kernel_lint import gate
from kernel_lint.cli import cli
from kernel_lint.gate import GateOptions
from kernel_lint.integrations import stop_hook

EVENTS = json.loads((Path(__file__).parent / "data" / "stop_events.json").read_text(encoding="utf-8"))


@pytest.fixture(autouse=True)
def emulator_is_best(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "best_backend", lambda: "emulate")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_workspace(tmp_path)


def _stop(folder: Path, event: str = "first", text: str | None = None) -> dict[str, Any] | None:
    """Send a recorded event; return the decision, or None when the agent may stop."""
    sent = text if text is not None else json.dumps({**EVENTS[event], "cwd": str(folder)})
    result = CliRunner().invoke(cli, ["hook", "stop"], input=sent, standalone_mode=False)
    assert result.exception is None
    assert result.return_value == 0
    assert result.stderr == ""
    if not result.stdout:
        return None
    decision: dict[str, Any] = json.loads(result.stdout)
    assert decision["decision"] == "block"
    assert set(decision) == {"decision", "reason"}
    assert len(decision["reason"]) < 2000
    return decision


def _finish(folder: Path) -> None:
    candidate = package_into(folder)
    remember(candidate)
    gate.write_limitations(gate.judge(GateOptions(candidate)))


def test_block_fix_allow(folder: Path) -> None:
    first = _stop(folder)
    assert first is not None
    assert "does not exist" in first["reason"]
    assert f"kernel-lint finalize {folder / 'kernel.py'} --backend emulate" in first["reason"]
    assert first["reason"].count("kernel-lint gate ") == 1
    candidate = package_into(folder)
    second = _stop(folder, "again")
    assert second is not None
    assert second["reason"].index("1. verified") < second["reason"].index("2. limits recorded")
    remember(candidate)
    gate.write_limitations(gate.judge(GateOptions(candidate)))
    assert _stop(folder, "again") is None
    assert _stop(folder) is None


def test_nothing_changed_lets_go(folder: Path) -> None:
    assert _stop(folder) is not None
    assert _stop(folder, "again") is None


def test_a_change_blocks_again_then_lets_go(folder: Path) -> None:
    assert _stop(folder) is not None
    (folder / "kernel.py").write_text((folder / "kernel.py").read_text() + "\nx = 1\n")
    assert _stop(folder, "again") is not None
    assert _stop(folder, "again") is None


def test_a_new_stop_blocks_whatever_was_before(folder: Path) -> None:
    assert _stop(folder) is not None
    assert _stop(folder, "again") is None
    assert _stop(folder) is not None


def test_another_session_has_a_memory_of_its_own(folder: Path) -> None:
    assert _stop(folder) is not None
    assert _stop(folder, "other_session_again") is not None
    assert _stop(folder, "other_session_again") is None


def test_changes_without_end_lead_to_an_end(folder: Path) -> None:
    assert _stop(folder) is not None
    for number in range(stop_hook.MAX_BLOCKS - 1):
        (folder / "note.py").write_text(f"x = {number}\n")
        assert _stop(folder, "again") is not None
    (folder / "note.py").write_text("x = -1\n")
    assert _stop(folder, "again") is None


def test_without_a_memory_it_lets_go(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("read-only")

    monkeypatch.setattr(stop_hook, "replace_file", refuse)
    assert _stop(folder) is not None
    assert _stop(folder, "again") is None


def test_elsewhere_it_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("x = 1\n")
    assert _stop(tmp_path) is None
    assert list(tmp_path.iterdir()) == [tmp_path / "app.py"]


@pytest.mark.parametrize(
    "text", ["", "not json", "[]", '{"cwd": 3}', '{"stop_hook_active": "yes"}', "\udcff"]
)
def test_broken_input_judges_the_working_directory(
    folder: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert _stop(folder, text=text.encode("utf-8", "surrogateescape").decode("latin-1")) is not None


def test_a_gate_that_breaks_blocks_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: GateOptions) -> gate.Verdict:
        raise RuntimeError("boom " * 1000)

    monkeypatch.setattr(gate, "judge", broken)
    decision = _stop(folder)
    assert decision is not None
    assert "RuntimeError: boom" in decision["reason"]
    assert _stop(folder, "again") is None


def test_long_lists_are_cut(folder: Path) -> None:
    checks = tuple(gate.Check(f"check {n}", False, "much is wrong " * 300, "do this") for n in range(20))
    reason = stop_hook.explain_block(gate.Verdict(folder / "generated_kernel.py", checks), folder)
    assert len(reason) < 2000
    assert "1. check 0" in reason
    assert "more" in reason
    assert f"kernel-lint gate {folder}" in reason
