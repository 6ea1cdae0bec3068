"""From spans (lines and characters from 1) to positions (from 0, in UTF-16 or other units)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from lsprotocol import types

from kernel_lint.diagnostics import Diagnostic, Edit, Severity, Span

SOURCE = "kernel-lint"
_SEVERITIES = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
    Severity.INFO: types.DiagnosticSeverity.Information,
}
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


class Lines:
    """The lines of a text, and positions in them in the units that the client counts in."""

    def __init__(self, lines: Sequence[str], encoding: str | None) -> None:
        self._lines = lines
        self._encoding = encoding or "utf-16"

    def units(self, text: str) -> int:
        """Return the length of a text in the client's units."""
        if self._encoding == "utf-32" or text.isascii():
            return len(text)
        if self._encoding == "utf-8":
            return len(text.encode("utf-8", "surrogatepass"))
        return len(text.encode("utf-16-le", "surrogatepass")) // 2

    def position(self, line: int, column: int) -> types.Position:
        """Return the position of a line and column; what lies behind the end is the end."""
        if line > len(self._lines):
            last = len(self._lines) - 1
            return types.Position(max(last, 0), self.units(self._lines[last]) if self._lines else 0)
        return types.Position(line - 1, self.units(self._lines[line - 1][: column - 1]))

    def range(self, span: Span) -> types.Range:
        """Return the range of a span."""
        return types.Range(
            self.position(span.line, span.column), self.position(span.end_line, span.end_column)
        )

    def line_range(self, line: int) -> types.Range:
        """Return the range of a whole line without its indentation."""
        line = min(max(line, 1), max(len(self._lines), 1))
        text = self._lines[line - 1] if self._lines else ""
        return self.range(Span(line, len(text) - len(text.lstrip()) + 1, line, len(text) + 1))

    def edit(self, edit: Edit) -> types.TextEdit:
        """Return an edit."""
        return types.TextEdit(self.range(edit.span), edit.replacement)

    def diagnostic(self, d: Diagnostic) -> types.Diagnostic:
        """Return a finding."""
        return types.Diagnostic(
            range=self.range(d.span),
            message=f"{d.message}\n{d.help}" if d.help else d.message,
            severity=_SEVERITIES[d.severity],
            code=d.code,
            code_description=types.CodeDescription(d.url),
            source=SOURCE,
        )


def line_edits(before: str, after: str) -> list[types.TextEdit]:
    """Return edits of whole lines that turn one text into the other."""
    old, new = _LINE.findall(before), _LINE.findall(after)
    edits = []
    for tag, start, end, new_start, new_end in difflib.SequenceMatcher(
        None, old, new, autojunk=False
    ).get_opcodes():
        if tag != "equal":
            place = types.Range(types.Position(start, 0), types.Position(end, 0))
            edits.append(types.TextEdit(place, "".join(new[new_start:new_end])))
    return edits


def overlaps(a: types.Range, b: types.Range) -> bool:
    """Tell whether two ranges touch; by lines, since editors ask for the cursor's line or a point in it."""
    return a.start.line <= b.end.line and b.start.line <= a.end.line
