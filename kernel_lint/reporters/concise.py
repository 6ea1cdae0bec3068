"""``--output-format concise``: one line for each finding."""

from __future__ import annotations

from kernel_lint.engine import CheckResult
from kernel_lint.reporters import ReportOptions


def render(result: CheckResult, options: ReportOptions) -> str:
    """Write ``path:line:column: CODE name: message`` lines."""
    lines = [
        f"{d.path}:{d.span.line}:{d.span.column}: {d.code} {d.name}: {d.message}" for d in result.diagnostics
    ]
    return "\n".join(lines) + "\n" if lines else ""
