"""``--output-format github``: workflow commands that become annotations on a pull request.

The escapes are those that the runner undoes: ``%``, CR and LF in the message; ``:`` and ``,`` too in a
property (github.com/actions/toolkit, ``packages/core/src/command.ts``). Anything else, ``;`` too, would be
shown escaped.
"""

from __future__ import annotations

from kernel_lint.diagnostics import Diagnostic, Severity
from kernel_lint.engine import CheckResult
from kernel_lint.reporters import ReportOptions
from kernel_lint.reporters._shared import TOOL, relative

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}
_MESSAGE = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"})


def render(result: CheckResult, options: ReportOptions) -> str:
    """Write one command for each finding, and one for each file that could not be checked."""
    lines = [_annotation(d) for d in result.diagnostics]
    for error in result.errors:
        properties = _properties({"title": TOOL, "file": relative(error.path)})
        lines.append(f"::error {properties}::{_escaped(f'{error.path} {error.message}; {error.remedy}')}")
    return "".join(line + "\n" for line in lines)


def _annotation(d: Diagnostic) -> str:
    span = d.span
    properties: dict[str, object] = {
        "title": f"{TOOL} ({d.code})",
        "file": relative(d.path),
        "line": span.line,
    }
    if span.line == span.end_line:
        # GitHub rejects columns on a range of several lines.
        properties |= {"col": span.column, "endLine": span.end_line, "endColumn": span.end_column}
    else:
        properties["endLine"] = span.end_line
    text = f"{d.code} {d.name}: {d.message}" + (f"\n{d.help}" if d.help else "")
    return f"::{_COMMANDS[d.severity]} {_properties(properties)}::{_escaped(text)}"


def _properties(values: dict[str, object]) -> str:
    return ",".join(f"{key}={str(value).translate(_PROPERTY)}" for key, value in values.items())


def _escaped(text: str) -> str:
    return text.translate(_MESSAGE)
