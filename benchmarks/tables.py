"""Tables: printed, written as Markdown, kept as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Table:
    """A table to print, to write as Markdown and as JSON; cells are text or numbers."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    note: str = ""

    def text(self) -> str:
        """Return the table for a terminal."""
        cells = [self.columns, *(tuple(map(_shown, row)) for row in self.rows)]
        widths = [max(len(row[index]) for row in cells) for index in range(len(self.columns))]
        lines = [f"{self.title}" + (f" ({self.note})" if self.note else "")]
        for row in cells:
            rest = (f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))
            lines.append("  ".join([f"{row[0]:{widths[0]}}", *rest]).rstrip())
        return "\n".join(lines)

    def markdown(self) -> str:
        """Return the table for a page."""
        rule = "|".join(["---", *("--:" for _ in self.columns[1:])])
        rows = [" | ".join(map(_shown, row)) for row in self.rows]
        head = [f"**{self.title}**" + (f": {self.note}" if self.note else ""), ""]
        return "\n".join([*head, f"| {' | '.join(self.columns)} |", f"|{rule}|", *(f"| {r} |" for r in rows)])

    def cell(self, row: str, column: str) -> Any:
        """Return the cell of the row that begins so; raises KeyError where there is none."""
        index = self.columns.index(column) if column in self.columns else None
        for cells in self.rows:
            if cells[0] == row and index is not None:
                return cells[index]
        raise KeyError(f"{self.title}: no {column!r} of {row!r}")

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Table:
        """Undo :func:`dataclasses.asdict`."""
        rows = tuple(tuple(row) for row in data["rows"])
        return cls(data["title"], tuple(data["columns"]), rows, data["note"])


def _shown(cell: Any) -> str:
    if isinstance(cell, float):
        if 0 < abs(cell) < 0.095:
            return f"{cell:.2g}"
        return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:.1f}" if abs(cell) >= 10 else f"{cell:.2f}"
    return f"{cell:,}" if isinstance(cell, int) else "" if cell is None else str(cell)


def write_tables(path: Path | None, tables: Sequence[Table]) -> None:
    """Write tables as JSON when a path was given: how a script hands them to ``python -m benchmarks``."""
    if path is not None:
        path.write_text(json.dumps([asdict(table) for table in tables], indent=1) + "\n", encoding="utf-8")
