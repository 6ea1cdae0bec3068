"""SARIF: against a schema of the part that we write, and Microsoft's validator where it is installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from kernel_lint import registry, reporters
from kernel_lint.engine import CheckResult
from kernel_lint.reporters import ReportOptions

SCHEMA = Path(__file__).parent / "data" / "sarif-subset.schema.json"
# `npm install @microsoft/sarif-multitool`, then its node_modules/.bin on PATH or the file in SARIF_MULTITOOL.
MULTITOOL = os.environ.get("SARIF_MULTITOOL") or shutil.which("sarif-multitool")


def _sarif(result: CheckResult) -> Any:
    return json.loads(reporters.render("sarif", result, ReportOptions()))


@pytest.fixture(scope="module")
def validator() -> jsonschema.protocols.Validator:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    return jsonschema.Draft202012Validator(schema)


def test_follows_the_standard(result: CheckResult, validator: jsonschema.protocols.Validator) -> None:
    validator.validate(_sarif(result))
    validator.validate(_sarif(CheckResult((), (), 0)))
    broken = _sarif(result)
    broken["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]["startLine"] = 0
    assert not validator.is_valid(broken)


def test_results(result: CheckResult) -> None:
    run = _sarif(result)["runs"][0]
    first, second, third, note = run["results"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [rule.code for rule in registry.all_rules()]
    for found in run["results"]:
        assert rules[found["ruleIndex"]]["id"] == found["ruleId"]
    assert [r["level"] for r in (first, second, third, note)] == ["error", "warning", "error", "note"]
    place = first["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "ops/a%2Cb%3A%20%C3%A9%25.py", "uriBaseId": "SRCROOT"}
    assert place["region"] == {"startLine": 2, "startColumn": 7, "endLine": 2, "endColumn": 10}
    marks = [r["partialFingerprints"]["kernelLintFinding/v1"] for r in run["results"]]
    assert len(set(marks)) == 4
    replacement = first["fixes"][0]["artifactChanges"][0]["replacements"][0]
    assert replacement["insertedContent"] == {"text": "pass"}
    assert note["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": "file:///elsewhere/b.py"}


def test_a_file_that_could_not_be_read_is_a_notification(result: CheckResult) -> None:
    invocation = _sarif(result)["runs"][0]["invocations"][0]
    assert invocation["executionSuccessful"] is False
    text = invocation["toolExecutionNotifications"][0]["message"]["text"]
    assert text == "ops/gone.py does not exist. check the spelling."


@pytest.mark.skipif(MULTITOOL is None, reason="npm's @microsoft/sarif-multitool is not on PATH")
def test_microsofts_validator_accepts_it(result: CheckResult, tmp_path: Path) -> None:
    assert MULTITOOL is not None
    file, verdict = tmp_path / "in.sarif", tmp_path / "out.sarif"
    file.write_text(reporters.render("sarif", result, ReportOptions()), encoding="utf-8")
    words = [
        MULTITOOL,
        "validate",
        file,
        "--rule-kind",
        "Sarif",
        "--output",
        verdict,
        "--log",
        "ForceOverwrite",
    ]
    subprocess.run(words, check=True, capture_output=True, timeout=120)
    found = json.loads(verdict.read_text(encoding="utf-8-sig"))["runs"][0]["results"]
    assert [(r["ruleId"], r.get("level")) for r in found] == []
