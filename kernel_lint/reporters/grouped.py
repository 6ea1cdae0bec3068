"""``--output-format grouped``: a heading for each file, its findings under it."""

from __future__ import annotations

from kernel_lint.diagnostics import Diagnostic
from kernel_lint.engine import CheckResult
from kernel_lint.reporters import ReportOptions
from kernel_lint.reporters._shared import by_file, relative


def render(result: CheckResult, options: ReportOptions) -> str:
    """Write ``path:`` and, indented, ``line:column CODE name: message`` for each finding."""
    return "\n".join(_group(path, found) for path, found in by_file(result.diagnostics))


def _group(path: str, found: list[Diagnostic]) -> str:
    places = [f"{d.span.line}:{d.span.column}" for d in found]
    width = max(map(len, places))
    rows = [
        f"  {place:<{width}}  {d.code} {d.name}: {d.message}" for place, d in zip(places, found, strict=True)
    ]
    return "\n".join([f"{relative(path)}:", *rows]) + "\n"
