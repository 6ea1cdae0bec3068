"""``--output-format azure``: logging commands of Azure Pipelines.

The escapes are those of its agent: ``%``, CR, LF in the message; ``;`` and ``]`` too in a property
(github.com/microsoft/azure-pipelines-agent, ``docs/design/percentEncoding.md`` and ``Command.cs``).
"""

from __future__ import annotations

from kernel_lint.diagnostics import Diagnostic, Severity
from kernel_lint.engine import CheckResult
from kernel_lint.reporters import ReportOptions
from kernel_lint.reporters._shared import relative

_MESSAGE = str.maketrans({"%": "%AZP25", "\r": "%0D", "\n": "%0A"})
_PROPERTY = str.maketrans({"%": "%AZP25", "\r": "%0D", "\n": "%0A", ";": "%3B", "]": "%5D"})


def render(result: CheckResult, options: ReportOptions) -> str:
    """Write one ``task.logissue`` for each finding; the format knows errors and warnings only."""
    return "".join(_issue(d) + "\n" for d in result.diagnostics)


def _issue(d: Diagnostic) -> str:
    properties = {
        "type": "error" if d.severity is Severity.ERROR else "warning",
        "sourcepath": relative(d.path),
        "linenumber": str(d.span.line),
        "columnnumber": str(d.span.column),
        "code": d.code,
    }
    text = "".join(f"{key}={value.translate(_PROPERTY)};" for key, value in properties.items())
    return f"##vso[task.logissue {text}]{f'{d.name}: {d.message}'.translate(_MESSAGE)}"
