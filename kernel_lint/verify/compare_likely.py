"""A guess at what went wrong, from how wrong values relate to right ones nearby.

Each guess is a fact about the values (every wrong element is zero, is 1.03 times the reference,
is the neighbouring row's value): the person who reads it draws the conclusion.
"""

from __future__ import annotations

import numpy as np

from kernel_lint.verify.compare_calibrate import Sources
from kernel_lint.verify.compare_flat import Flat, Floats, Ints

LOOKED_AT = 256


def likely_cause(candidate: Flat, sources: Sources, positions: Ints) -> str:
    """Describe how the wrong numbers at ``positions`` relate to the right ones; empty if in no simple way."""
    picks = _spread(positions)
    right = sources.reference
    ours, expected = _at(candidate, picks), _at(right, picks)
    with np.errstate(all="ignore"):
        if np.isnan(ours).all():
            return "all of them are NaN" if len(picks) > 1 else "it is NaN"
        if (ours == 0).all():
            return "all of them are zero" if len(picks) > 1 else "it is zero"
        if len(picks) < 4 or not np.isfinite(ours).all() or not np.isfinite(expected).all():
            return ""
        if (ours == ours[0]).all():
            return f"all of them are {ours[0]:.6g}"
        return (
            _shifted(right, picks, ours, expected)
            or _transposed(right, picks, ours, expected)
            or _scaled(ours, expected)
        )


def _spread(positions: Ints) -> Ints:
    """Some of the positions, in no step with rows (multiples of the golden ratio are even: Weyl)."""
    count = len(positions)
    if count <= LOOKED_AT:
        return positions
    places = (np.arange(1, LOOKED_AT + 1) * 0.6180339887498949 % 1.0 * count).astype(np.int64)
    return positions[np.unique(places)]


def _at(flat: Flat, positions: Ints) -> Floats:
    k = flat.per_element
    starts = positions // k * k
    parts = [flat.floats(int(s), int(s) + k)[int(p - s)] for s, p in zip(starts, positions, strict=True)]
    return np.array(parts, dtype=np.float64)


def _close(ours: Floats, other: Floats) -> bool:
    """Whether nearly all of the numbers agree to half a percent of their common scale."""
    scale = np.sqrt(np.mean(other * other))
    return bool(scale > 0 and np.mean(np.abs(ours - other) <= 0.005 * scale) > 0.95)


def _shifted(right: Flat, picks: Ints, ours: Floats, expected: Floats) -> str:
    row = right.row
    shifts = {"the row before": -row, "the row after": row, "the column before": -1, "the column after": 1}
    for name, shift in shifts.items():
        moved = picks + shift
        inside = (moved >= 0) & (moved < right.size)
        enough = inside.sum() >= max(4, len(picks) // 2)
        if not enough:
            continue
        other = _at(right, moved[inside])
        # Rows that are all alike would explain anything.
        if _close(ours[inside], other) and not _close(expected[inside], other):
            return f"they are the right values of {name}"
    return ""


def _transposed(right: Flat, picks: Ints, ours: Floats, expected: Floats) -> str:
    side = right.row
    if side < 2 or right.size % (side * side):
        return ""
    matrix, inner = picks // (side * side), picks % (side * side)
    moved = matrix * side * side + inner % side * side + inner // side
    other = _at(right, moved)
    found = _close(ours, other) and not _close(expected, other)
    return "they are the transposed matrix's values" if found else ""


def _scaled(ours: Floats, expected: Floats) -> str:
    power = float(np.dot(expected, expected))
    if power == 0:
        return ""
    factor = float(np.dot(ours, expected)) / power
    if abs(factor + 1) < 1e-3 and _close(-ours, expected):
        return "they have the wrong sign"
    rest = ours - factor * expected
    # A common factor explains the error when what it leaves is small beside what it accounts for.
    explained = float(np.dot(rest, rest)) < 0.04 * (factor - 1) ** 2 * power
    return f"they are {factor:.6g} times the right values" if explained and abs(factor) > 1e-3 else ""
