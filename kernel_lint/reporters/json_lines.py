"""``--output-format json-lines``: one JSON object on a line for each finding, as they are in ``json``."""

from __future__ import annotations

import json

from kernel_lint.engine import CheckResult
from kernel_lint.reporters import ReportOptions


def render(result: CheckResult, options: ReportOptions) -> str:
    """Write one line for each finding; nothing when there are none."""
    return "".join(json.dumps(d.to_json(), ensure_ascii=False) + "\n" for d in result.diagnostics)
