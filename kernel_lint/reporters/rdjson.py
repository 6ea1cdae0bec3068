"""``--output-format rdjson``: reviewdog's diagnostic format.

Columns count UTF-8 bytes from 1 and the end is exclusive (github.com/reviewdog/reviewdog,
``proto/rdf/reviewdog.proto``).
"""

from __future__ import annotations

import json
from typing import Any

from kernel_lint.diagnostics import Diagnostic, Span
from kernel_lint.engine import CheckResult
from kernel_lint.reporters import ReportOptions
from kernel_lint.reporters._shared import HOME_PAGE, TOOL, SourceLines, relative


def render(result: CheckResult, options: ReportOptions) -> str:
    """Write one JSON object with all findings; a fix becomes suggestions."""
    lines = SourceLines(options)
    report = {
        "source": {"name": TOOL, "url": HOME_PAGE},
        "severity": "ERROR",
        "diagnostics": [_diagnostic(d, lines) for d in result.diagnostics],
    }
    return json.dumps(report, indent=2, ensure_ascii=False) + "\n"


def _diagnostic(d: Diagnostic, lines: SourceLines) -> dict[str, Any]:
    out: dict[str, Any] = {
        "message": f"{d.name}: {d.message}",
        "severity": d.severity.value.upper(),
        "code": {"value": d.code, "url": d.url},
        "location": {"path": relative(d.path), "range": _range(d.path, d.span, lines)},
    }
    if d.fix is not None:
        out["suggestions"] = [
            {"range": _range(d.path, edit.span, lines), "text": edit.replacement} for edit in d.fix.edits
        ]
    return out


def _range(path: str, span: Span, lines: SourceLines) -> dict[str, dict[str, int]]:
    start, end = lines.byte_columns(path, span)
    return {"start": {"line": span.line, "column": start}, "end": {"line": span.end_line, "column": end}}
