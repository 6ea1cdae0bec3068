"""Findings as plain lists, texts and numbers: what the cache keeps and processes send each other."""

from __future__ import annotations

from kernel_lint import TYPE_CHECKING
from kernel_lint.diagnostics import Applicability, Diagnostic, Edit, Fix, Severity, Span

if TYPE_CHECKING:
    from typing import Any


def encode(d: Diagnostic) -> list[Any]:
    """Return a finding as lists, texts and numbers."""
    fix = None
    if d.fix is not None:
        edits = [[*_numbers(edit.span), edit.replacement] for edit in d.fix.edits]
        fix = [d.fix.message, edits, d.fix.applicability.value]
    return [
        d.code,
        d.name,
        d.severity.value,
        d.message,
        d.path,
        _numbers(d.span),
        list(d.clauses),
        d.help,
        fix,
    ]


def _numbers(span: Span) -> list[int]:
    return [span.line, span.column, span.end_line, span.end_column]


def decode(item: list[Any]) -> Diagnostic:
    """Return the finding that :func:`encode` was given; wrong data raises ValueError, TypeError..."""
    code, name, severity, message, path, span, clauses, help_text, fix = item
    made = None
    if fix is not None:
        edits = tuple(Edit(Span(*edit[:4]), edit[4]) for edit in fix[1])
        made = Fix(fix[0], edits, Applicability(fix[2]))
    return Diagnostic(
        code, name, Severity(severity), message, path, Span(*span), tuple(clauses), help_text, made
    )
