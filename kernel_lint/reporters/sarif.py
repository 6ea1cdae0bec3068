"""``--output-format sarif``: SARIF 2.1.0, for code scanning.

The format: docs.oasis-open.org/sarif/sarif/v2.1.0. All rules are listed whether they found something
or not, so that a rule keeps its index from run to run.
"""

from __future__ import annotations

import json
import os
from typing import Any
from urllib.parse import quote

from kernel_lint import __version__, registry
from kernel_lint.diagnostics import Diagnostic, Fix, Severity, Span
from kernel_lint.engine import CheckResult, FileError
from kernel_lint.reporters import ReportOptions
from kernel_lint.reporters._shared import HOME_PAGE, TOOL, fingerprints, relative
from kernel_lint.rule import Rule

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_ROOT = "SRCROOT"


def render(result: CheckResult, options: ReportOptions) -> str:
    """Write one run. Paths are relative to the working directory, columns count code points."""
    rules = registry.all_rules()
    index = {rule.code: number for number, rule in enumerate(rules)}
    marks = fingerprints(result.diagnostics)
    run = {
        "tool": {
            "driver": {
                "name": TOOL,
                "version": __version__,
                "semanticVersion": __version__,
                "informationUri": HOME_PAGE,
                "rules": [_rule(rule) for rule in rules],
            }
        },
        "invocations": [_invocation(result.errors)],
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {_ROOT: {"description": {"text": "The directory that kernel-lint ran in."}}},
        "results": [_result(d, index, mark) for d, mark in zip(result.diagnostics, marks, strict=True)],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(rule: type[Rule]) -> dict[str, Any]:
    url = f"{HOME_PAGE}rules/{rule.name}/"
    return {
        "id": rule.code,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": f"{rule.code} {rule.name}."},
        "fullDescription": {"text": rule.summary()},
        "helpUri": url,
        "help": {"text": f"{rule.summary()} See {url}", "markdown": rule.documentation()},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {"tags": [f"contract/{clause}" for clause in rule.clauses]},
    }


def _result(d: Diagnostic, index: dict[str, int], mark: str) -> dict[str, Any]:
    text = d.message if d.message.endswith((".", "!", "?")) else d.message + "."
    out: dict[str, Any] = {
        "ruleId": d.code,
        "ruleIndex": index[d.code],
        "level": _LEVELS[d.severity],
        "message": {"text": f"{text} {d.help}." if d.help else text},
        "locations": [{"physicalLocation": {**_artifact(d.path), "region": _region(d.span)}}],
        "partialFingerprints": {"kernelLintFinding/v1": mark},
    }
    if d.fix is not None:
        out["fixes"] = [_fix(d.path, d.fix)]
    return out


def _fix(path: str, fix: Fix) -> dict[str, Any]:
    replacements = [
        {"deletedRegion": _region(edit.span), "insertedContent": {"text": edit.replacement}}
        for edit in fix.edits
    ]
    change = {**_artifact(path), "replacements": replacements}
    return {"description": {"text": fix.message}, "artifactChanges": [change]}


def _region(span: Span) -> dict[str, int]:
    return {
        "startLine": span.line,
        "startColumn": span.column,
        "endLine": span.end_line,
        "endColumn": span.end_column,
    }


def _artifact(path: str) -> dict[str, Any]:
    shown = relative(path)
    if os.path.isabs(path) and shown == path:
        return {"artifactLocation": {"uri": "file://" + quote(shown)}}
    return {"artifactLocation": {"uri": quote(shown), "uriBaseId": _ROOT}}


def _invocation(errors: tuple[FileError, ...]) -> dict[str, Any]:
    out: dict[str, Any] = {"executionSuccessful": not errors}
    if errors:
        out["toolExecutionNotifications"] = [
            {
                "level": "error",
                "message": {"text": f"{relative(error.path)} {error.message}. {error.remedy}."},
                "locations": [{"physicalLocation": _artifact(error.path)}],
            }
            for error in errors
        ]
    return out
