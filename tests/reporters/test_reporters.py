"""Every format: what its consumer requires, and that nothing in a path or message breaks it."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from kernel_lint import reporters
from kernel_lint.diagnostics import Span
from kernel_lint.engine import CheckResult
from kernel_lint.reporters import ReportOptions

EMPTY = CheckResult((), (), 3)
PATH = "ops/a,b: é%.py"
SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"


def _render(name: str, result: CheckResult) -> str:
    return reporters.render(name, result, ReportOptions())


def _moved(result: CheckResult) -> CheckResult:
    """The same findings ten lines further down."""
    down = [
        replace(d, span=Span(d.span.line + 10, d.span.column, d.span.end_line + 10, d.span.end_column))
        for d in result.diagnostics
    ]
    return replace(result, diagnostics=tuple(down))


def test_the_formats_are_those_that_are_promised() -> None:
    assert set(reporters.formats()) == {
        "full", "concise", "grouped", "json", "json-lines", "junit", "github", "gitlab", "pylint",
        "rdjson", "azure", "sarif",
    }  # fmt: skip


@pytest.mark.parametrize("name", reporters.formats())
def test_output_is_the_same_every_time(name: str, result: CheckResult) -> None:
    assert _render(name, result) == _render(name, result)


@pytest.mark.parametrize("name", ["grouped", "json-lines", "pylint", "github", "azure"])
def test_line_formats_say_nothing_of_nothing(name: str) -> None:
    assert _render(name, EMPTY) == ""


@pytest.mark.parametrize("name", ["grouped", "pylint", "github", "azure", "gitlab", "rdjson", "junit"])
def test_paths_are_relative_to_the_working_directory(name: str, result: CheckResult) -> None:
    text = _render(name, result)
    assert str(Path.cwd()) not in text
    assert "/elsewhere/b.py" in text


def test_grouped(result: CheckResult) -> None:
    lines = _render("grouped", result).split("\n")
    assert lines[0] == f"{PATH}:"
    assert lines[1].startswith("  2:7  KL102 debug-output: 100% wrong")
    assert "/elsewhere/b.py:" in lines
    assert lines[-2] == "  1:1  KL203 torch-compute: a note"


def test_json_lines_are_the_objects_of_json(result: CheckResult) -> None:
    lines = _render("json-lines", result).splitlines()
    assert [json.loads(line) for line in lines] == json.loads(_render("json", result))


def test_json_follows_its_schema(result: CheckResult) -> None:
    schema = json.loads((SCHEMAS / "check.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(json.loads(_render("json", result)))
    validator.validate(json.loads(_render("json", EMPTY)))
    assert not validator.is_valid([{"code": "E501"}])


def test_pylint(result: CheckResult) -> None:
    assert f"{PATH}:3: [KL109] placeholder: several lines\n" in _render("pylint", result)


# -- GitHub ----------------------------------------------------------------------------

_COMMAND = re.compile(r"::(error|warning|notice) ([^:]*)::(.*)")
_UNESCAPE = {"%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ",", "%25": "%"}


def _commands(text: str) -> list[tuple[str, dict[str, str], str]]:
    """Parse workflow commands as the runner does: split first, then undo the escapes."""
    out = []
    for line in text.splitlines():
        match = _COMMAND.fullmatch(line)
        assert match is not None, line
        pairs = dict(item.split("=", 1) for item in match[2].split(","))
        out.append((match[1], {k: _unescaped(v) for k, v in pairs.items()}, _unescaped(match[3])))
    return out


def _unescaped(text: str) -> str:
    return re.sub("|".join(_UNESCAPE), lambda match: _UNESCAPE[match[0]], text)


def test_github_survives_the_runner(result: CheckResult) -> None:
    first, several, _, note, gone = _commands(_render("github", result))
    assert first[0] == "error"
    assert first[1] == {
        "title": "kernel-lint (KL102)",
        "file": PATH,
        "line": "2",
        "col": "7",
        "endLine": "2",
        "endColumn": "10",
    }
    assert first[2].startswith("KL102 debug-output: 100% wrong:\r\n`a;b]`, <c> & ")
    assert several[0] == "warning"
    assert several[1] == {"title": "kernel-lint (KL109)", "file": PATH, "line": "3", "endLine": "5"}
    assert note[0] == "notice"
    assert gone[1] == {"title": "kernel-lint", "file": "ops/gone.py"}


def test_azure(result: CheckResult) -> None:
    first, second, *_ = _render("azure", result).splitlines()
    assert first.startswith(
        "##vso[task.logissue type=error;sourcepath=ops/a,b: é%AZP25.py;linenumber=2;columnnumber=7;"
        "code=KL102;]debug-output: 100%AZP25 wrong:%0D%0A`a;b]`"
    )
    assert second.startswith("##vso[task.logissue type=warning;")


# -- GitLab ----------------------------------------------------------------------------


def test_gitlab(result: CheckResult) -> None:
    issues = json.loads(_render("gitlab", result))
    assert [issue["severity"] for issue in issues] == ["major", "minor", "major", "info"]
    assert issues[1]["location"] == {"path": PATH, "lines": {"begin": 3, "end": 5}}
    assert issues[1]["description"] == "KL109 placeholder: several lines"
    assert issues[1]["check_name"] == "KL109"
    assert len({issue["fingerprint"] for issue in issues}) == 4
    assert json.loads(_render("gitlab", EMPTY)) == []


@pytest.mark.parametrize("name", ["gitlab", "sarif"])
def test_fingerprints_survive_lines_added_above(name: str, result: CheckResult) -> None:
    before, after = _render(name, result), _render(name, _moved(result))
    assert before != after
    assert re.findall(r'"[0-9a-f]{32}"', before) == re.findall(r'"[0-9a-f]{32}"', after)


def test_rdjson_counts_bytes(result: CheckResult) -> None:
    report = json.loads(_render("rdjson", result))
    first = report["diagnostics"][0]
    assert report["source"]["name"] == "kernel-lint"
    assert first["severity"] == "ERROR"
    assert first["code"]["value"] == "KL102"
    # The third character of the argument is behind a character of two bytes.
    assert first["location"]["range"] == {"start": {"line": 2, "column": 7}, "end": {"line": 2, "column": 11}}
    assert first["suggestions"] == [
        {"range": {"start": {"line": 2, "column": 1}, "end": {"line": 2, "column": 15}}, "text": "pass"}
    ]


def test_rdjson_of_standard_input(result: CheckResult) -> None:
    found = replace(result.diagnostics[0], path="-")
    options = ReportOptions(source=("-", 'print("é", 1)\n' * 2))
    report = json.loads(reporters.render("rdjson", CheckResult((found,), (), 1), options))
    assert report["diagnostics"][0]["location"]["range"]["end"]["column"] == 11


# -- JUnit -----------------------------------------------------------------------------


def test_junit(result: CheckResult) -> None:
    root = ET.fromstring(_render("junit", result).encode())
    assert root.attrib == {"name": "kernel-lint", "tests": "5", "failures": "3", "errors": "1"}
    suites = root.findall("testsuite")
    assert [suite.get("name") for suite in suites] == [PATH, "/elsewhere/b.py", "ops/gone.py"]
    case = suites[0][0]
    assert case.get("name") == "KL102 debug-output (2:7)"
    assert case[0].tag == "failure"
    # XML cannot hold an escape character or half of a surrogate pair.
    assert case[0].get("message") == "100% wrong:\r\n`a;b]`, <c> & \ufffd\ufffd"
    assert suites[1][0][0].tag == "system-out"
    assert suites[2][0][0].tag == "error"


def test_junit_of_nothing_has_a_passed_case() -> None:
    root = ET.fromstring(_render("junit", EMPTY).encode())
    assert root.attrib["tests"] == "1"
    assert root.attrib["failures"] == "0"
    assert len(root.findall("testsuite/testcase")) == 1


def test_an_unknown_format_names_the_known(result: CheckResult) -> None:
    with pytest.raises(Exception, match="no output format is called 'xml'") as caught:
        _render("xml", result)
    assert "json-lines" in str(caught.value)
