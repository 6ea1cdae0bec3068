"""``--output-format pylint``: ``path:line: [CODE] message``, which many tools parse."""

from __future__ import annotations

from kernel_lint.engine import CheckResult
from kernel_lint.reporters import ReportOptions
from kernel_lint.reporters._shared import relative


def render(result: CheckResult, options: ReportOptions) -> str:
    """Write one line for each finding; this format has no columns."""
    return "".join(
        f"{relative(d.path)}:{d.span.line}: [{d.code}] {d.name}: {d.message}\n" for d in result.diagnostics
    )
