"""The command line: which form a report has, what it says, and how it ends."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from fleet_cases import ADD, QUICK, FakeExecutor, right, write_candidate, write_task, wrong
from referencing import Registry, Resource

from kernel_lint.cli import main
from kernel_lint.diagnostics import StageResult
from kernel_lint.gate_record import load
from kernel_lint.verify.fleet import driver
from kernel_lint.verify.fleet.plan import FleetTask
from kernel_lint.verify.fleet.render import RENDERERS
from kernel_lint.verify.fleet.report import FleetReport

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
QUIET = [*QUICK, "-q"]


def check_schema(value: object) -> None:
    schemas = [json.loads((SCHEMAS / f"{name}.schema.json").read_text()) for name in ("fleet", "verify")]
    registry: Registry[object] = Registry().with_resources(
        (schema["$id"], Resource.from_contents(schema)) for schema in schemas
    )
    jsonschema.Draft202012Validator(schemas[0], registry=registry).validate(value)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give workspaces c0 and c1, in which every task passes but the second shape of c1."""
    for number in range(2):
        write_candidate(write_task(tmp_path / f"c{number}"), ADD + f"# {number}\n")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)

    def judge(task: FleetTask) -> tuple[StageResult, ...]:
        return wrong(task) if (task.path.parent.name, task.shape) == ("c1", "second") else right(task)

    monkeypatch.setattr(driver, "make_executor", lambda fleet, options: FakeExecutor(judge))
    return tmp_path


Output = Callable[[], tuple[str, str]]


@pytest.fixture
def output(capsys: pytest.CaptureFixture[str]) -> Output:
    return lambda: tuple(capsys.readouterr())  # type: ignore[return-value]


def test_the_table_names_each_candidate_and_explains_the_bad_ones(folder: Path, output: Output) -> None:
    assert main(["verify", *QUIET, "c0", "c1"]) == 1
    out, err = output()
    lines = out.splitlines()
    assert lines[0].split() == ["candidate", "verdict", "shapes", "seconds", "reason"]
    assert lines[1].split() == ["c0/generated_kernel.py", "PASS", "2/2", "1.5"]
    assert lines[2].split() == ["c1/generated_kernel.py", "FAIL", "1/2", "1.5", "VALUE"]
    assert lines[5] == "  FAIL: correctness (shape second): VALUE: all elements are wrong"
    assert lines[6].startswith("  replay: kernel-lint verify c1/generated_kernel.py --task c1 ")
    assert lines[-2].startswith("judged by local: ")
    assert lines[-1].startswith("1 FAIL, 1 PASS; 6 tasks judged, in ")
    assert err == ""


def test_progress_is_a_line_for_each_task_on_stderr(folder: Path, output: Output) -> None:
    assert main(["verify", *QUICK, "c0", "c1", "c0"]) == 1
    _, err = output()
    lines = err.splitlines()
    assert lines[0] == "kernel-lint: 1 names stand for a candidate that was named before; each is judged once"
    assert lines[1].startswith("kernel-lint: 2 candidates, at most 6 tasks; ")
    assert lines[2] == "  [1/6] c0/generated_kernel.py file  passed  0.50 s"
    assert lines[7].startswith("  [6/6] ")
    assert any(line.endswith("] c1/generated_kernel.py second  failed VALUE  0.50 s") for line in lines)
    assert len(lines) == 8


def test_json_follows_its_schema(folder: Path, output: Output) -> None:
    assert main(["verify", *QUIET, "c*", "--output-format", "json"]) == 1
    value = json.loads(output()[0])
    check_schema(value)
    assert value["counts"] == {"FAIL": 1, "PASS": 1}
    assert value["executor"] == "local: nobody"
    assert [each["candidate"] for each in value["candidates"]] == [
        "c0/generated_kernel.py",
        "c1/generated_kernel.py",
    ]


def test_junit_has_a_suite_for_each(folder: Path) -> None:
    assert main(["verify", *QUIET, "c0", "c1", "--output-format", "junit", "--output-file", "r.xml"]) == 1
    suites = list(ElementTree.parse("r.xml").getroot())
    assert [(s.get("name"), s.get("failures")) for s in suites] == [
        ("c0/generated_kernel.py", "0"),
        ("c1/generated_kernel.py", "1"),
    ]


def test_markdown_is_a_table(folder: Path, output: Output) -> None:
    assert main(["verify", *QUIET, "c0", "c1", "--output-format", "markdown"]) == 1
    lines = output()[0].splitlines()
    assert lines[0].startswith("# 1 FAIL, 1 PASS;")
    assert lines[-1] == "| c1/generated_kernel.py | FAIL | 1/2 | VALUE | all elements are wrong |"


def test_verdicts_are_remembered_for_the_gate(folder: Path) -> None:
    main(["verify", *QUIET, "c0", "c1"])
    assert [v.verdict for n in ("c0", "c1") for v in load(folder / n).verified] == ["PASS", "FAIL"]


@pytest.mark.parametrize("style", sorted(RENDERERS))
def test_an_unfinished_report_says_so_in_every_form(style: str) -> None:
    text = RENDERERS[style](FleetReport((), finished=False))
    assert "INCOMPLETE" in text
    if style == "json":
        check_schema(json.loads(text))


def test_a_run_that_is_stopped_leaves_an_unfinished_report(
    folder: Path, monkeypatch: pytest.MonkeyPatch, output: Output
) -> None:
    def judge(task: FleetTask) -> tuple[StageResult, ...]:
        raise KeyboardInterrupt

    monkeypatch.setattr(driver, "make_executor", lambda fleet, options: FakeExecutor(judge))
    (folder / "r.json").write_text("an older verdict")
    arguments = ["verify", *QUICK, "c0", "c1", "--output-format", "json", "--output-file", "r.json"]
    assert main(arguments) == 2
    assert json.loads((folder / "r.json").read_text())["finished"] is False
    err = output()[1].splitlines()
    assert err[1].startswith("kernel-lint: stopped: 0 of 6 tasks are finished, and kept in ")
    assert err[1].endswith("the same command with --resume goes on there")
    assert err[-1] == "kernel-lint: interrupted"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["c0", "nowhere"], "no such candidate: nowhere"),
        (["nowhere/*"], "nowhere/* (a pattern that matches nothing)"),
        (["c0", "c1", "--executor", "slurm"], "slurm"),
        (["c0", "c1", "--jobs", "0"], "0"),
        (["c0", "c1", "--shape", "nine"], "c0/shapes.json has no shape 'nine'"),
        (["c0", "c1", "--backend", "magic"], "there is no verify backend 'magic'"),
        (["c0", "c1", "--target", "mi300"], "'mi300' is not the name of a target"),
        (["c0", "c1", "--tolerance", "vague"], "unknown tolerance 'vague'"),
        (["c0", "c1", "--output-file", "nowhere/r.txt"], "nowhere/r.txt cannot be written"),
    ],
)
def test_errors_of_use_exit_with_two_before_anything_starts(
    folder: Path, monkeypatch: pytest.MonkeyPatch, output: Output, arguments: list[str], words: str
) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    monkeypatch.chdir(folder)
    assert main(["verify", *QUIET, *arguments]) == 2
    assert words in output()[1]


def test_ray_that_is_not_installed_is_one_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch, output: Output
) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    monkeypatch.chdir(folder)
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["verify", *QUIET, "c0", "c1", "--executor", "ray"]) == 2
    err = output()[1]
    assert "--executor ray needs Ray, which is not installed" in err
    assert "pip install 'kernel-lint[fleet]'" in err


def test_one_folder_alone_is_verified_as_ever(
    folder: Path, monkeypatch: pytest.MonkeyPatch, output: Output
) -> None:
    """No executor, no pattern, one name: the report of one candidate."""
    (folder / "c0" / "shapes.json").write_text("{}")
    assert main(["verify", *QUIET, "c0", "--output-format", "json"]) == 2
    value = json.loads(output()[0])
    assert (value["verdict"], value["candidate"]) == ("INVALID_TASK", "c0/generated_kernel.py")
    assert main(["verify", *QUIET, "c0", "--output-format", "json", "--executor", "local"]) == 2
    assert json.loads(output()[0])["counts"] == {"INVALID_TASK": 1}
