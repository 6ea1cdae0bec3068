"""Where wrong elements lie, counted on a coarse grid of rows and columns that a person can look at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernel_lint.verify.compare_flat import Ints

# Cells along each side: enough to see a tile or a tail, few enough for a report.
CELLS = 48


@dataclass(frozen=True, slots=True)
class ErrorMap:
    """Counts of wrong elements; an output counts as a matrix, its last dimension being the columns.

    ``counts`` holds a list for each band of rows; cell ``[i][j]`` covers rows ``i * rows / len(counts)``
    to the next and columns likewise. Estimated from a sample where there were more than a million.
    """

    rows: int
    columns: int
    counts: tuple[tuple[int, ...], ...]

    def to_json(self) -> dict[str, Any]:
        """Return the map as its JSON object."""
        return {"rows": self.rows, "columns": self.columns, "counts": [list(band) for band in self.counts]}


def error_map(positions: Ints, total: int, shape: tuple[int, ...]) -> ErrorMap | None:
    """Count ``positions`` (row-major, of ``total`` wrong elements) in an output of ``shape``."""
    columns = shape[-1] if shape else 1
    rows = int(np.prod(shape[:-1], dtype=np.int64)) if len(shape) > 1 else 1
    if not len(positions) or rows * columns < 2:
        return None
    bands, strips = min(rows, CELLS), min(columns, CELLS)
    cells = (positions // columns * bands // rows) * strips + positions % columns * strips // columns
    counts = np.bincount(cells, minlength=bands * strips).astype(np.float64) * (total / len(positions))
    grid = np.ceil(counts).astype(np.int64).reshape(bands, strips)
    return ErrorMap(rows, columns, tuple(tuple(map(int, band)) for band in grid))
