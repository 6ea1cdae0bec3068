"""Verdicts, exit codes and the four forms of a report."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from verify_tasks import ADD_ONE, HEADER, judge

from kernel_lint.diagnostics import Reason, StageResult, StageStatus
from kernel_lint.errors import KernelLintError
from kernel_lint.verify.backends import BackendUnavailableError
from kernel_lint.verify.doctor import Check, report_json
from kernel_lint.verify.output import ReportFile
from kernel_lint.verify.render import RENDERERS, render_junit, render_markdown, render_text
from kernel_lint.verify.report import Verdict, VerifyReport, decide
from kernel_lint.verify.stages import failed, passed, skipped
from kernel_lint.verify.wording import visible

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
_REQUIRED = frozenset({"compile", "correctness", "integrity"})
_FILE = (passed("import"), passed("signature"))


def _shape(name: str, target: str = "t") -> tuple[StageResult, ...]:
    return tuple(passed(stage, name, target) for stage in sorted(_REQUIRED))


def _report(verdict: Verdict, *stages: StageResult) -> VerifyReport:
    return VerifyReport(
        verdict, "c.py", "task", "torch", "plain torch", ("t",), ("a",), stages, replay="again"
    )


def _decide(stages: tuple[StageResult, ...], shapes: tuple[str, ...] = ("a", "b")) -> Verdict:
    return decide(stages, shapes, _REQUIRED, ("t",))


def test_pass_needs_every_stage_on_every_shape() -> None:
    assert _decide((*_FILE, *_shape("a"), *_shape("b"))) is Verdict.PASS


@pytest.mark.parametrize(
    "stages",
    [
        (),
        _FILE,
        (*_FILE, *_shape("a")),
        (*_FILE, *_shape("a"), *_shape("b")[:-1]),
        (*_FILE, *_shape("a"), *_shape("b", "other")),
        (*_shape("a"), *_shape("b")),
        (*_FILE, *_shape("a"), *_shape("b")[:-1], skipped("integrity", "", "b", "t", unmeasured=True)),
    ],
)
def test_what_is_missing_is_a_failure(stages: tuple[StageResult, ...]) -> None:
    assert _decide(stages) is Verdict.FAIL


def test_no_shapes_is_never_a_pass() -> None:
    assert _decide(_FILE, ()) is Verdict.FAIL


@given(st.lists(st.integers(0, 7), max_size=7, unique=True))
def test_pass_and_nothing_left_out_are_the_same(dropped: list[int]) -> None:
    stages = (*_FILE, *_shape("a"), *_shape("b"))
    kept = tuple(stage for index, stage in enumerate(stages) if index not in dropped)
    assert (_decide(kept) is Verdict.PASS) == (not dropped)


@pytest.mark.parametrize(
    ("reason", "verdict", "code"),
    [
        (Reason.VALUE, Verdict.FAIL, 1),
        (Reason.TIMEOUT, Verdict.FAIL, 1),
        (Reason.HARNESS_ERROR, Verdict.ERROR, 2),
        (Reason.ENV_ERROR, Verdict.ERROR, 2),
        (Reason.INVALID_TASK, Verdict.INVALID_TASK, 2),
    ],
)
def test_whose_fault_it_is_decides_the_exit_code(reason: Reason, verdict: Verdict, code: int) -> None:
    stages = (*_FILE, *_shape("a"), failed("correctness", reason, "no", "b", "t"))
    assert _decide(stages) is verdict
    assert _report(verdict, *stages).exit_code == code


def test_a_candidates_fault_outweighs_a_fault_of_ours() -> None:
    stages = (
        *_FILE,
        failed("correctness", Reason.HARNESS_ERROR, "ours", "a", "t"),
        failed("correctness", Reason.VALUE, "its", "b", "t"),
    )
    assert _decide(stages) is Verdict.FAIL
    assert _report(Verdict.FAIL, *stages).reason is Reason.VALUE


def test_tampering_explains_a_wrong_value() -> None:
    stages = (failed("correctness", Reason.VALUE, "v", "a"), failed("integrity", Reason.TAMPERING, "t", "a"))
    assert _report(Verdict.FAIL, *stages).reason is Reason.TAMPERING


def test_nothing_but_pass_and_compiled_exits_with_zero() -> None:
    assert {v for v in Verdict if _report(v).exit_code == 0} == {Verdict.PASS, Verdict.COMPILED}


_REPORTS = [
    _report(Verdict.PASS, *_FILE, *_shape("a"), skipped("performance", "no GPU", "a", "t", unmeasured=True)),
    _report(
        Verdict.FAIL,
        *_FILE,
        failed("correctness", Reason.VALUE, "a | b\n<&>\x00", "a", "t", traceback="Traceback\n\x1b[31m"),
    ),
    _report(Verdict.FAIL, *_FILE),
    _report(
        Verdict.COMPILED, passed("compile", "a", "t", kernels=[{"kernel": "k", "target": "t", "vgprs": 4}])
    ),
    VerifyReport(Verdict.INCOMPLETE, "", "", "", "", (), (), ()),
]


@pytest.mark.parametrize("report", _REPORTS, ids=lambda report: report.verdict.value)
def test_json_follows_its_schema(report: VerifyReport) -> None:
    schema = json.loads((SCHEMAS / "verify.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(RENDERERS["json"](report)), schema)


def test_json_holds_no_number_that_json_lacks() -> None:
    report = _report(
        Verdict.FAIL, failed("correctness", Reason.VALUE, "m", "a", error=float("nan"), most=[float("-inf")])
    )
    data = json.loads(RENDERERS["json"](report))["stages"][0]["data"]
    assert data == {"error": "NaN", "most": ["-Infinity"]}


def test_the_schema_knows_every_reason_status_and_verdict() -> None:
    schema = json.loads((SCHEMAS / "verify.schema.json").read_text())
    assert set(schema["$defs"]["reason"]["enum"]) == {reason.value for reason in Reason}
    assert set(schema["properties"]["verdict"]["enum"]) == {verdict.value for verdict in Verdict}
    assert set(schema["$defs"]["stage"]["properties"]["status"]["enum"]) == {
        status.value for status in StageStatus
    }


class _Backend:
    def __init__(self, name: str) -> None:
        self._lacks = {"rocm": ("torch sees no AMD GPU", "get one"), "nvptx": ("no driver", "")}.get(name)

    def check(self) -> None:
        if self._lacks:
            raise BackendUnavailableError(*self._lacks)


@pytest.mark.parametrize("linker", [True, False])
def test_doctor_json_follows_its_schema(linker: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernel_lint.verify.doctor.load_backend", _Backend)
    absent = {"GPU"} if linker else {"GPU", "linker"}
    names = ("python", "torch", "flydsl", "numpy", "linker", "GPU")
    checks = tuple(Check(name, name not in absent, "1", "d", "c", "r", True) for name in names)
    document = report_json(checks)
    jsonschema.validate(document, json.loads((SCHEMAS / "verify-doctor.schema.json").read_text()))
    assert document["complete"] is False
    assert document["backends"] == {
        "compile": "works" if linker else "works, as far as assembly",
        "device": "works",
        "emulate": "works",
        "nvptx": "no: no driver",
        "rocm": "no: torch sees no AMD GPU; get one",
        "torch": "works",
    }


@pytest.mark.parametrize("report", _REPORTS, ids=lambda report: report.verdict.value)
def test_junit_is_green_only_when_the_run_is(report: VerifyReport) -> None:
    [suite] = ElementTree.fromstring(render_junit(report))
    bad = int(suite.get("failures", "0")) + int(suite.get("errors", "0"))
    assert (bad == 0) == (report.exit_code == 0)
    assert int(suite.get("tests", "0")) == len(suite.findall("testcase"))
    assert int(suite.get("skipped", "0")) == len(suite.findall("testcase/skipped"))


def test_markdown_tables_survive_pipes_and_newlines() -> None:
    rows = [line for line in render_markdown(_REPORTS[1]).splitlines() if line.startswith("| correctness")]
    assert len(rows) == 1
    assert rows[0].replace("\\|", "").count("|") == 7


def test_text_ends_with_the_verdict_and_shows_how_to_replay() -> None:
    lines = render_text(_REPORTS[1]).splitlines()
    assert lines[-1] == "replay: again"
    assert any(line.startswith("FAIL: correctness (shape a): VALUE") for line in lines)
    assert "performance UNMEASURED" in render_text(_REPORTS[0]).splitlines()[-1]


def test_relaxed_requirements_are_shown() -> None:
    import dataclasses

    report = dataclasses.replace(_REPORTS[0], relaxed=("launch of a kernel not required",))
    for style in ("text", "json", "markdown"):
        assert "launch of a kernel not required" in RENDERERS[style](report)


def test_an_old_verdict_is_gone_before_the_run_starts(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text('{"verdict": "PASS"}')
    with ReportFile(path, "json") as file:
        assert json.loads(path.read_text())["verdict"] == "INCOMPLETE"
        file.write(_REPORTS[0])
    assert json.loads(path.read_text())["verdict"] == "PASS"
    assert [p.name for p in tmp_path.iterdir()] == ["report.json"]


def test_a_report_that_cannot_be_written_is_a_users_error(tmp_path: Path) -> None:
    with (
        pytest.raises(KernelLintError, match="cannot be written"),
        ReportFile(tmp_path / "no" / "r.json", "json"),
    ):
        pass


@pytest.mark.parametrize("value", [{"a": 1}, {}])
def test_stage_data_is_plain(value: dict[str, Any]) -> None:
    assert passed("lint", **value).to_json()["data"] == value


_PAINT = "\\x1b[2J\\x1b[32mPASS\\x07\\u202e\\x9b1A"


def test_what_a_candidate_says_does_not_reach_the_terminal_raw(tmp_path: Path) -> None:
    """It might clear the screen and write a verdict of its own."""
    source = HEADER + ADD_ONE.reference.replace("return a + b", f'raise ValueError("{_PAINT}")')
    report = judge(tmp_path, ADD_ONE, source)
    for text in (report.headline, RENDERERS["text"](report), RENDERERS["markdown"](report)):
        assert _PAINT in text
        assert all(char.isprintable() or char == "\n" for char in text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [("plain", "plain"), ("two\nlines\tx", "two\nlines\tx"), ("\r\x00é", "\\r\\x00é"), ("\ud800", "\\ud800")],
)
def test_control_characters_are_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown
