"""Positions, edits, and where verify's messages belong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pygls")

from lsprotocol import types

from kernel_lint.diagnostics import Severity, Span
from kernel_lint.fixing import fix_module
from kernel_lint.integrations.language_server import LONGEST_PAUSE, SHORTEST_PAUSE, KernelLintServer
from kernel_lint.integrations.lsp_documents import analyse
from kernel_lint.integrations.lsp_text import Lines, line_edits
from kernel_lint.integrations.lsp_verify import locate

TEXT = st.text(alphabet="ab\n\r\x0c\u2028é", max_size=30)


@pytest.mark.parametrize(("encoding", "character"), [("utf-16", 3), ("utf-8", 6), ("utf-32", 2), (None, 3)])
def test_units(encoding: str | None, character: int) -> None:
    assert Lines(["é𐐀x"], encoding).position(1, 3) == types.Position(0, character)


def test_behind_the_end_is_the_end() -> None:
    lines = Lines(["ab", "c"], "utf-16")
    assert lines.range(Span(1, 1, 3, 1)) == types.Range(types.Position(0, 0), types.Position(1, 1))
    assert Lines([], "utf-16").line_range(4) == types.Range(types.Position(0, 0), types.Position(0, 0))


@given(TEXT, TEXT)
def test_line_edits_make_the_new_text(before: str, after: str) -> None:
    """Applied as a client does it, by the protocol's three line ends and no others."""
    starts = [0]
    for index, char in enumerate(before):
        if char == "\n" or (char == "\r" and before[index + 1 : index + 2] != "\n"):
            starts.append(index + 1)

    def offset(position: types.Position) -> int:
        if position.line >= len(starts):
            return len(before)
        return starts[position.line] + position.character

    text = before
    for edit in reversed(line_edits(before, after)):
        text = text[: offset(edit.range.start)] + edit.new_text + text[offset(edit.range.end) :]
    assert text == after


def _report(**stage: Any) -> dict[str, Any]:
    base = {
        "stage": "integrity",
        "status": "failed",
        "shape": None,
        "reason": "RACE",
        "message": "m",
        "data": {},
    }
    return {"stages": [{**base, **stage}]}


@pytest.fixture
def candidate(tmp_path: Path) -> Path:
    path = tmp_path / "generated_kernel.py"
    path.write_text("x = 1\n\nclass Model:\n    pass\n")
    return path


def test_findings_go_to_the_lines_that_they_name(candidate: Path) -> None:
    findings = [
        {"reason": "RACE", "message": "draw 1: two waves write in k at line 4"},
        {"reason": "NO_LAUNCH", "message": "nothing was launched"},
    ]
    data = {"findings": findings, "notes": ["a load past the end in k at line 2"]}
    found = list(locate(_report(shape="s", data=data), candidate, candidate, None))
    assert [(m.line, m.severity) for m in found] == [
        (4, Severity.ERROR), (3, Severity.ERROR), (2, Severity.INFO),
    ]  # fmt: skip
    assert found[0].message == "integrity: RACE: two waves write in k (shape s)"


def test_one_fault_seen_in_many_calls_is_one_message(candidate: Path) -> None:
    texts = [f"draw {n}: at /tmp/x/generated_kernel.py:2, a race in k at line 4" for n in range(3)]
    data = {"findings": [{"reason": "RACE", "message": text} for text in texts]}
    report = {"stages": [s for name in "ab" for s in _report(shape=name, data=data)["stages"]]}
    (found,) = locate(report, candidate, candidate, None)
    assert found.message == "integrity: RACE: at generated_kernel.py:2, a race in k (shape a, b, 6 times)"


def test_an_exception_goes_to_its_last_line_in_the_file(candidate: Path) -> None:
    places = [("/w/generated_kernel.py", 1), ("/w/generated_kernel.py", 4), ("torch.py", 9)]
    trace = "\n".join(f'File "{file}", line {line}' for file, line in places)
    report = _report(stage="import", reason="IMPORT_ERROR", data={"traceback": trace})
    assert [m.line for m in locate(report, candidate, candidate, None)] == [4]


def test_what_passed_says_nothing(candidate: Path) -> None:
    assert list(locate(_report(status="passed", reason=None), candidate, candidate, None)) == []


def test_messages_lead_back_to_the_workspace(candidate: Path, tmp_path: Path) -> None:
    origin = {1: (str(tmp_path / "ops.py"), 10), 3: (str(tmp_path / "kernel.py"), 7)}
    data = {
        "findings": [{"reason": "RACE", "message": "in k at line 2"}, {"reason": "X", "message": "no line"}]
    }
    found = list(locate(_report(data=data), candidate, tmp_path / "kernel.py", origin))
    assert [(m.path.name, m.line) for m in found] == [("ops.py", 10), ("kernel.py", 7)]


def test_the_pause_grows_with_the_time_of_a_lint() -> None:
    server = KernelLintServer()
    assert server.pause("a") == SHORTEST_PAUSE
    server.seconds.update(a=1.0, b=100.0, c=0.001)
    assert SHORTEST_PAUSE < server.pause("a") < 1.0
    assert server.pause("b") == LONGEST_PAUSE
    assert server.pause("c") == SHORTEST_PAUSE


def test_all_fixes_are_found_once_for_each_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    server = KernelLintServer()
    texts = iter(["x = 1\nprint(x)\n", "x = 1\n"])
    made = [analyse(str(tmp_path / "ops.py"), text) for text in texts]
    calls = []

    def fix(*arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        return fix_module(*arguments, **options)

    monkeypatch.setattr("kernel_lint.integrations.language_server.fix_module", fix)
    for analysis, expected in ((made[0], True), (made[0], True), (made[1], False)):
        monkeypatch.setattr(server, "analysis", lambda uri, a=analysis: a)
        assert bool(server.fix_all("a")) is expected
    assert len(calls) == 1
