"""What every part of kernel-lint says: spans, diagnostics, fixes and stage results.

All of them are frozen dataclasses of plain data, so that they can be hashed, cached,
sent between processes and written as JSON without knowing who made them.
"""

from __future__ import annotations

import enum

from kernel_lint import TYPE_CHECKING
from kernel_lint.records import dataclass

if TYPE_CHECKING:
    from typing import Any

    from kernel_lint.stage_results import Reason, StageResult, StageStatus


__all__ = [
    "Applicability",
    "Diagnostic",
    "Edit",
    "Fix",
    "Reason",
    "Severity",
    "Span",
    "StageResult",
    "StageStatus",
]


class Severity(str, enum.Enum):
    """How bad a finding is. ``error`` and ``warning`` fail a run, ``info`` does not."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Applicability(str, enum.Enum):
    """When a fix may be applied: ``safe`` by ``--fix``, ``unsafe`` by ``--unsafe-fixes`` too."""

    SAFE = "safe"
    UNSAFE = "unsafe"


@dataclass(frozen=True, order=True, slots=True)
class Span:
    """A stretch of source text; lines and columns count from 1, columns in characters.

    The end is exclusive: ``end_column`` is the column after the last character.
    """

    line: int
    column: int
    end_line: int
    end_column: int

    def to_json(self) -> dict[str, dict[str, int]]:
        """Return ``{"location": {row, column}, "end_location": {row, column}}``."""
        return {
            "location": {"row": self.line, "column": self.column},
            "end_location": {"row": self.end_line, "column": self.end_column},
        }


@dataclass(frozen=True, order=True, slots=True)
class Edit:
    """Replace the text under ``span`` with ``replacement`` (empty: delete it)."""

    span: Span
    replacement: str

    def to_json(self) -> dict[str, Any]:
        """Return the edit as its JSON object."""
        return {**self.span.to_json(), "content": self.replacement}


@dataclass(frozen=True, slots=True)
class Fix:
    """Edits that, applied together, resolve a diagnostic."""

    message: str
    edits: tuple[Edit, ...]
    applicability: Applicability = Applicability.SAFE

    def to_json(self) -> dict[str, Any]:
        """Return the fix as its JSON object."""
        return {
            "applicability": self.applicability.value,
            "message": self.message,
            "edits": [edit.to_json() for edit in self.edits],
        }


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding: which rule, where, what is wrong and how to put it right.

    ``clauses`` are ids of the output contract (``X1``, ``P4``...); ``help`` is the
    one-sentence remedy that text output prints under the excerpt.
    """

    code: str
    name: str
    severity: Severity
    message: str
    path: str
    span: Span
    clauses: tuple[str, ...] = ()
    help: str | None = None
    fix: Fix | None = None

    @property
    def sort_key(self) -> tuple[str, int, int, int, int, str, str]:
        """Order by file, place, code and message, so that output never depends on timing."""
        span = self.span
        return (self.path, span.line, span.column, span.end_line, span.end_column, self.code, self.message)

    @property
    def url(self) -> str:
        """The address of the rule's page."""
        return f"https://kernel-lint.readthedocs.io/rules/{self.name}/"

    def to_json(self) -> dict[str, Any]:
        """Return the diagnostic as the JSON object that ``--output-format json`` prints."""
        return {
            "code": self.code,
            "name": self.name,
            "severity": self.severity.value,
            "url": self.url,
            "message": self.message,
            "filename": self.path,
            **self.span.to_json(),
            "help": self.help,
            "fix": self.fix.to_json() if self.fix else None,
            "clauses": list(self.clauses),
        }


_STAGES = ("Reason", "StageResult", "StageStatus")


def __getattr__(name: str) -> object:
    if name not in _STAGES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from kernel_lint import stage_results

    return getattr(stage_results, name)
