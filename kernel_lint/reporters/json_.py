"""``--output-format json``: one array with an object for each finding.

The schema is published as ``docs/schemas/check.schema.json``.
"""

from __future__ import annotations

import json

from kernel_lint.engine import CheckResult
from kernel_lint.reporters import ReportOptions


def render(result: CheckResult, options: ReportOptions) -> str:
    """Write the findings as a JSON array."""
    return (
        json.dumps([diagnostic.to_json() for diagnostic in result.diagnostics], indent=2, ensure_ascii=False)
        + "\n"
    )
