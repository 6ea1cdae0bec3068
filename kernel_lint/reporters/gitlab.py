"""``--output-format gitlab``: GitLab's code quality report.

Fields and severities: docs.gitlab.com/ci/testing/code_quality, "Code Quality report format".
"""

from __future__ import annotations

import json

from kernel_lint.diagnostics import Severity
from kernel_lint.engine import CheckResult
from kernel_lint.reporters import ReportOptions
from kernel_lint.reporters._shared import fingerprints, relative

_SEVERITIES = {Severity.ERROR: "major", Severity.WARNING: "minor", Severity.INFO: "info"}


def render(result: CheckResult, options: ReportOptions) -> str:
    """Write one JSON array; a finding keeps its fingerprint when it only moves."""
    issues = [
        {
            "description": f"{d.code} {d.name}: {d.message}",
            "check_name": d.code,
            "fingerprint": fingerprint,
            "severity": _SEVERITIES[d.severity],
            "location": {
                "path": relative(d.path),
                "lines": {"begin": d.span.line, "end": d.span.end_line},
            },
        }
        for d, fingerprint in zip(result.diagnostics, fingerprints(result.diagnostics), strict=True)
    ]
    return json.dumps(issues, indent=2, ensure_ascii=False) + "\n"
