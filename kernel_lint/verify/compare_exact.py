"""Compare outputs that have no rounding: integers, bools, bit patterns, Python scalars."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from kernel_lint.verify.compare_flat import Flat
from kernel_lint.verify.compare_result import Zeros
from kernel_lint.verify.compare_values import Point, WrongSet


@dataclass(frozen=True, slots=True)
class ExactOutcome:
    """Wrong elements of an exactly compared output; ``excused`` equal only the float64 run.

    ``zeros`` says what zeros in its place would be.
    """

    wrong: WrongSet
    worst: Point | None
    max_error: float
    excused: int
    zeros: Zeros


def compare_exact(
    candidate: torch.Tensor, reference: torch.Tensor, others: tuple[torch.Tensor, ...], chunk: int, first: int
) -> ExactOutcome:
    """Compare bit patterns; an element may also equal what one of ``others`` has there.

    ``others`` are the reference's float64 and perturbed runs: where rounding decides an integer
    (an index among equals, a quantized value on a boundary), each of their answers is right.
    """
    sides = [Flat(tensor) for tensor in (candidate, reference, *others)]
    # Raw bytes have one number each, whatever the dtype packs into them.
    size = candidate.numel()
    wrong = WrongSet(first)
    worst: Point | None = None
    excused = 0
    zeros: Zeros = "right"
    for start in range(0, size, chunk):
        stop = min(start + chunk, size)
        ours, right, *rest = (side.bits(start, stop) for side in sides)
        if zeros != "wrong":
            zeros = _zeros(right, rest, zeros)
        different = ours != right
        if not different.any():
            continue
        bad = different.any(axis=1)
        for alternative in rest:
            allowed = bad & (ours == alternative).all(axis=1)
            excused += int(allowed.sum())
            bad &= ~allowed
        places = np.flatnonzero(bad)
        if not places.size:
            continue
        wrong.add(places.astype(np.int64) + start)
        room = max(first - len(wrong.first), 0)
        wrong.first.extend(_point(start + int(at), sides[0], sides[1]) for at in places[:room])
        a, b = (_numbers(side, start, stop) for side in sides[:2])
        at = int(places[np.argmax(np.abs(a - b)[places])])
        point = _point(start + at, sides[0], sides[1])
        if worst is None or point.error > worst.error:
            worst = point
    return ExactOutcome(wrong, worst, worst.error if worst else 0.0, excused, zeros)


def _zeros(right: Any, others: list[Any], before: Zeros) -> Zeros:
    """What zeros would be, given a step's bytes and what they would be in the steps before."""
    if not right.any():
        return before
    nonzero = right.any(axis=1)
    for other in others:
        nonzero &= other.any(axis=1)
    return "wrong" if nonzero.any() else "tolerance"


def _point(position: int, candidate: Flat, reference: Flat) -> Point:
    ours, right = _value(candidate, position), _value(reference, position)
    return Point(position, ours, right, right, float(abs(ours - right)), 0.0)


def _value(side: Flat, position: int) -> int | float:
    """One element as Python has it: exact, however large."""
    try:
        value: int | float = side.raw(position, position + 1).item()
    except (RuntimeError, NotImplementedError):
        # Sub-byte and bit formats have no numbers; their bytes do.
        return int.from_bytes(side.bits(position, position + 1).tobytes(), "little")
    return value


def _numbers(side: Flat, start: int, stop: int) -> Any:
    """The elements as float64, to find the largest difference; bytes where torch cannot convert."""
    try:
        return side.raw(start, stop).to(torch.float64).numpy()
    except (RuntimeError, NotImplementedError):
        pattern = side.bits(start, stop).astype(np.float64)
        return pattern @ (256.0 ** np.arange(pattern.shape[1]))


def scalars_equal(candidate: Any, reference: Any) -> bool:
    """Whether two Python scalars are the same, NaN equal to NaN."""
    return bool(candidate == reference or (candidate != candidate and reference != reference))
