"""Where the wrong elements are, in words: a tail, a tile, a stride, everything.

The place of an error is what one needs to mend it: a missing bounds check leaves a tail, a
wrong block index a tile, a wrong lane a stride.
"""

from __future__ import annotations

import math

import numpy as np

from kernel_lint.verify.compare_flat import Ints

# Block and wave sizes that kernels are built of.
STRIDES = (2, 4, 8, 16, 32, 64, 128)
TILES = (16, 32, 64, 128, 256)


def describe(positions: Ints, total: int, shape: tuple[int, ...]) -> str:
    """Say where the ``total`` wrong elements (``positions``: all, or an even sample) of ``shape`` are.

    Returns a phrase that follows "all N wrong elements are"; empty when there is no pattern.
    """
    numel = math.prod(shape)
    if not shape or not total:
        return ""
    if total == numel:
        return "everywhere: no element is right"
    sampled = len(positions) < total
    phrases = []
    for dim, indices in enumerate(np.unravel_index(positions, shape)):
        phrase = _along(np.unique(indices), shape[dim], _name(dim, len(shape)), sampled)
        if phrase:
            phrases.append(phrase)
    text = " and ".join(phrases)
    density = total / _box(positions, shape)
    if len(phrases) > 1 and density == 1.0 and (side := _tile_sides(positions, shape)):
        text += f": one whole {side} tile"
    return text


def _name(dim: int, ndim: int) -> str:
    if dim == ndim - 1:
        return "column" if ndim > 1 else "position"
    return "row" if dim == ndim - 2 else f"index of dimension {dim}"


def _along(used: Ints, size: int, name: str, sampled: bool) -> str:
    """Describe which of ``size`` indices are used, where that is fewer than all."""
    low, high, count = int(used[0]), int(used[-1]), len(used)
    if size == 1 or count == size or (sampled and count > 0.9 * size):
        return ""
    plural = _plural(name)
    if count == 1:
        where = _edge(low, high, size, name)
        return f"in {name} {low}{where}"
    if high - low + 1 == count or (sampled and count > 0.9 * (high - low + 1)):
        return f"in {plural} {low}-{high}{_edge(low, high, size, name)}"
    strides = {stride: np.unique(used % stride) for stride in STRIDES if 2 * stride <= high - low + 1}
    fits = [(len(found) / stride, stride) for stride, found in strides.items() if count >= 3 * len(found)]
    # The stride that leaves the smallest share of residues; of equals, the shortest.
    share, stride = min(fits, default=(1.0, 1))
    if share <= 0.5:
        return _residues(strides[stride], stride, name)
    if high - low + 1 <= size // 2:
        return f"within {plural} {low}-{high}{_edge(low, high, size, name)}"
    return ""


def _residues(residues: Ints, stride: int, name: str) -> str:
    if len(residues) == 1:
        return f"in every {_ordinal(stride)} {name} (starting at {int(residues[0])})"
    if int(residues[-1] - residues[0]) + 1 == len(residues):
        return f"in {_plural(name)} {int(residues[0])}-{int(residues[-1])} of every {stride}"
    listed = ", ".join(str(int(r)) for r in residues[:8]) + (", ..." if len(residues) > 8 else "")
    return f"in {_plural(name)} {listed} of every {stride}"


def _plural(name: str) -> str:
    return name.replace("index", "indices") if name.startswith("index") else f"{name}s"


def _ordinal(number: int) -> str:
    suffix = {1: "st", 2: "nd", 3: "rd"}.get(number % 10 if number % 100 // 10 != 1 else 0, "th")
    return f"{number}{suffix}"


def _edge(low: int, high: int, size: int, name: str) -> str:
    if high == size - 1 and low > 0:
        kind = {"column": "tail of each row", "row": "last rows", "position": "tail"}.get(name, "end")
        return f": the {kind}" if low < high or name != "row" else ": the last row"
    length = high - low + 1
    if low == 0:
        kind = {"column": "head of each row", "row": "first rows", "position": "head"}.get(name, "start")
        return f": the {kind}" if low < high or name != "row" else ": the first row"
    if length in TILES and low % length == 0:
        return f": block {low // length} of {length}"
    return ""


def _box(positions: Ints, shape: tuple[int, ...]) -> int:
    return math.prod(int(i.max() - i.min()) + 1 for i in np.unravel_index(positions, shape))


def _tile_sides(positions: Ints, shape: tuple[int, ...]) -> str:
    spans = [(int(i.min()), int(i.max()) + 1) for i in np.unravel_index(positions, shape)][-2:]
    sides = [high - low for low, high in spans]
    aligned = all(side > 1 and low % side == 0 for side, (low, _) in zip(sides, spans, strict=True))
    return "x".join(str(side) for side in sides) if aligned else ""
