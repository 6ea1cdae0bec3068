"""The tolerance of every element, from the reference's own error and from floors that the format sets.

``docs/comparison.md`` derives the terms and their constants.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt

from kernel_lint.verify.compare_flat import Blocks, Flat, Floats, Ints
from kernel_lint.verify.compare_policy import FLOAT32, FloatFormat
from kernel_lint.verify.compare_steps import in_order

Bools = npt.NDArray[np.bool_]

# For Gaussian values, 1.479 * mean(sqrt|x|)**2 is their standard deviation; unlike the rms it is
# hardly moved by a few large values.
GAUSSIAN = 1.479
# The same for 1.648 * mean(|x|**(1/4))**4.
GAUSSIAN_QUARTER = 1.648
# How far the candidate's error may exceed the robust scale of the reference's own error.
REFERENCE_FACTOR = 8.0
# ... of the change that a relative perturbation of 2**-24 of the inputs causes.
SENSITIVITY_FACTOR = 64.0
# ... of the reference's error in the very element: the reference itself always passes.
OWN_ERROR = 3.0
# Errors of rounding are far below their bound on average; where a row's rms error exceeds this
# share of its rms tolerance the error is systematic, and the row's tolerance shrinks to the share.
# Not so in float32: a legitimate error in a row's sum shifts the whole row, and the tolerance is
# a few parts in a hundred thousand anyway. Nor in fp8, whose tolerance is a single unit.
SYSTEMATIC = 0.5
SYSTEMATIC_DIGITS = range(8, 12)
# Shorter groups say nothing about an average.
SYSTEMATIC_MIN = 64
# Rows with fewer values that are not zero say nothing about their scale.
SPARSE = 16
# Outputs of fewer numbers than this say nothing about cancellation (a scalar loss).
FEW = 16
FEW_FACTOR = 8.0
# Column scales are taken from at most this many rows, and not from fewer than the second number.
COLUMN_ROWS = 256
COLUMN_MIN_ROWS = 16
COLUMN_ELEMENTS = 2**20
# Neighbouring rows are read together, this many numbers at a time.
COLUMN_STEP = 2**14
# Outputs of at most this many numbers are read once and kept (three arrays, 6 MiB).
KEPT_ELEMENTS = 2**18
# No column counts as more than this many times the median one: heavy tails are no scale.
COLUMN_RATIO = 1024.0


@dataclass(frozen=True, slots=True)
class Sources:
    """The tensors a tolerance is derived from; ``exact`` and ``perturbed`` are float64 runs."""

    reference: Flat
    exact: Flat | None
    perturbed: tuple[Flat, ...] = ()
    _kept: dict[tuple[int, int], tuple[Floats, Floats, Floats | None]] = field(default_factory=dict)

    def chunk(self, start: int, stop: int) -> tuple[Floats, Floats, Floats | None]:
        """The reference, the exact values (the reference's where not finite), the largest perturbation.

        They are for reading only: small outputs are kept for the next pass.
        """
        found = self._kept.get((start, stop))
        if found is None:
            found = self._chunk(start, stop)
            if self.reference.size <= KEPT_ELEMENTS:
                self._kept[start, stop] = found
        return found

    def _chunk(self, start: int, stop: int) -> tuple[Floats, Floats, Floats | None]:
        reference = self.reference.floats(start, stop)
        if self.exact is None:
            return reference, reference, None
        exact = self.exact.floats(start, stop)
        change: Floats | None = None
        for flat in self.perturbed:
            moved = np.abs(flat.floats(start, stop) - exact)
            if not all_finite(moved):
                moved[~np.isfinite(moved)] = 0.0
            change = moved if change is None else np.maximum(change, moved, out=change)
        if not all_finite(exact):
            exact = np.where(~np.isfinite(exact) & np.isfinite(reference), reference, exact)
        return reference, exact, change


def all_finite(values: Floats) -> bool:
    """Whether no value is infinite or NaN."""
    # A finite sum has finite terms, and is had without an array in between.
    return bool(np.isfinite(values.sum()) or np.isfinite(values).all())


_EXPONENT = np.int64(0x7FF0_0000_0000_0000)


def ulp(values: Floats, form: FloatFormat) -> Floats:
    """The unit in the last place of each (finite) value in the format."""
    # The exponent bits alone are the power of two below a float64 (zero for zero and subnormals).
    power = (np.ascontiguousarray(values).view(np.int64) & _EXPONENT).view(np.float64)
    np.maximum(power, form.smallest_normal, out=power)
    power *= form.eps
    result: Floats = power
    return result


def _mean(sums: Floats, counts: Floats) -> Floats:
    return np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0)


def robust_scale(sums: Floats, counts: Floats) -> Floats:
    """``1.479 * mean(sqrt|x|)**2`` from the sums of ``sqrt|x|``; zero where nothing was counted."""
    result: Floats = GAUSSIAN * _mean(sums, counts) ** 2
    return result


def _sparse_floor(scale: Floats, nonzero: Floats) -> Floats:
    """An absolute floor for rows with hardly a value other than zero, from the scale of the others.

    What is left of a sum behind a threshold (a ReLU) says nothing of the sum's own scale: such
    rows get the float32 floor of all rows together. It is 0 where there are values enough.
    """
    typical = float(robust_scale(np.sqrt(scale / GAUSSIAN) @ nonzero, nonzero.sum()))
    result: Floats = np.where(nonzero < SPARSE, FLOAT32.row_eps * FLOAT32.eps * typical, 0.0)
    return result


@dataclass(frozen=True, slots=True)
class Calibration:
    """Per-group scales and the factors that turn them into tolerances.

    ``scale`` is each group's robust magnitude; ``error`` what the reference's robust absolute error and
    the robust effect of a perturbation allow (at least what a sparse row is allowed), ``ulps`` what its
    error in units in the last place allows, with the format's floor; ``columns`` multiplies the scales
    of columns that are larger than the others. ``largest`` is the largest finite reference value.
    ``share`` shrinks the tolerance of groups whose error is systematic.
    """

    form: FloatFormat
    blocks: Blocks
    scale: Floats
    error: Floats
    ulps: Floats
    columns: Floats | None
    row_eps: float
    largest: float
    share: Floats | None = None

    def tolerance(self, block: int, after: int, sources: tuple[Floats, Floats, Floats | None]) -> Floats:
        """The allowed ``|candidate - exact|`` for the numbers of blocks ``block`` to ``after``."""
        reference, exact, change = sources
        form, spread = self.form, self.blocks.spread
        own = np.abs(reference - exact)
        sound = exact
        if not all_finite(own):
            finite = np.isfinite(exact)
            sound = np.where(finite, exact, 0.0)
            own[~(finite & np.isfinite(reference))] = 0.0
        unit = ulp(sound, form)
        result = spread(self.ulps, block, after) * unit
        np.maximum(result, spread(self.error, block, after), out=result)
        scale = spread(self.scale, block, after)
        if self.columns is not None:
            columns = self.columns[(self.blocks.starts[block] + np.arange(len(scale))) % len(self.columns)]
            scale *= columns
        np.maximum(result, self.row_eps * form.eps * scale, out=result)
        np.maximum(result, own + (OWN_ERROR - 1.0) * np.maximum(own - 0.5 * unit, 0.0), out=result)
        if change is not None:
            np.maximum(result, SENSITIVITY_FACTOR * change, out=result)
        if self.share is not None:
            result *= spread(self.share, block, after)
        if form.flushes:
            np.maximum(result, form.smallest_normal, out=result)
        return result


def _measure(reference: Floats, exact: Floats, finite: Bools | None, form: FloatFormat) -> dict[str, Floats]:
    """What is summed per row: square roots, for :func:`robust_scale`, and counts."""
    unit = ulp(exact, form)
    # Rounding the result to the format is in the floors already; what goes beyond it is error.
    error = np.maximum(np.abs(reference - exact) - 0.5 * unit, 0.0)
    return {
        "scale": np.sqrt(np.abs(exact)),
        "nonzero": (exact != 0).astype(np.float64),
        "error": np.sqrt(error),
        # Fourth roots: relative errors have heavy tails wherever values cancel to near zero.
        "ulps": np.sqrt(np.sqrt(error / unit)),
        "count": np.ones_like(exact) if finite is None else finite.astype(np.float64),
    }


def _step(
    sources: Sources, blocks: Blocks, form: FloatFormat, block: int, after: int
) -> tuple[dict[str, Floats], float]:
    """The sums over some blocks, and the largest finite reference value in them."""
    reference, exact, change = sources.chunk(int(blocks.starts[block]), int(blocks.starts[after]))
    finite = None
    if not (all_finite(reference) and all_finite(exact)):
        finite = np.isfinite(reference) & np.isfinite(exact)
        reference, exact = np.where(finite, reference, 0.0), np.where(finite, exact, 0.0)
    measured = _measure(reference, exact, finite, form)
    if change is not None:
        measured["change"] = np.sqrt(change)
    sums = {name: blocks.sums(values, block, after) for name, values in measured.items()}
    return sums, float(np.abs(reference).max())


def calibrate(sources: Sources, form: FloatFormat, accumulation: int | None, chunk: int) -> Calibration:
    """Measure the reference in one pass; ``accumulation`` is the longest sum behind an output, if known."""
    flat = sources.reference
    blocks = Blocks.of(flat.size, flat.row)
    names = ("scale", "nonzero", "error", "ulps", "count", "change")
    sums = {name: np.zeros(blocks.count) for name in names}
    largest = 0.0
    for block, after, (measured, top) in in_order(partial(_step, sources, blocks, form), blocks, chunk):
        for name, values in measured.items():
            sums[name][block:after] = values
        largest = max(largest, top)
    total = {name: blocks.per_group(values) for name, values in sums.items()}
    few = flat.size < FEW and form.digits >= 24
    accumulated = 2.0 * math.sqrt(accumulation) if accumulation and form.digits >= 24 else 0.0
    doubt = (FEW_FACTOR if few else 1.0) * (2.0 if sources.exact is None else 1.0)
    scale = robust_scale(total["scale"], total["nonzero"])
    sparse = _sparse_floor(scale, total["nonzero"])
    error = np.maximum(robust_scale(total["error"], total["count"]), sparse / REFERENCE_FACTOR)
    allowed = REFERENCE_FACTOR * error
    if sources.perturbed:
        change = robust_scale(total["change"], total["count"])
        allowed = np.maximum(allowed, SENSITIVITY_FACTOR * change)
    ulps = GAUSSIAN_QUARTER * _mean(total["ulps"], total["count"]) ** 4
    return Calibration(
        form=form,
        blocks=blocks,
        scale=scale,
        error=allowed,
        ulps=np.maximum(REFERENCE_FACTOR * ulps, form.ulps * doubt),
        columns=_column_ratios(sources),
        row_eps=max(form.row_eps, accumulated) * doubt,
        largest=largest,
    )


def _runs(picks: Ints, longest: int) -> Iterator[tuple[int, int]]:
    """Yield the first and last of each run of consecutive numbers, at most ``longest`` of them."""
    breaks = np.flatnonzero(np.diff(picks) != 1) + 1
    for run in np.split(picks, breaks):
        for start in range(0, len(run), longest):
            yield int(run[start]), int(run[min(start + longest, len(run)) - 1])


def _column_ratios(sources: Sources) -> Floats | None:
    """How much larger than the median column each column is (at least 1), from a sample of rows."""
    flat = sources.exact or sources.reference
    width = flat.row
    rows = flat.size // width
    sample = min(rows, COLUMN_ROWS, COLUMN_ELEMENTS // width)
    if sample < COLUMN_MIN_ROWS or width < 2:
        return None
    picks: Ints = np.arange(sample, dtype=np.int64) * rows // sample
    sums, counts = np.zeros(width), np.zeros(width)
    for first, last in _runs(picks, max(1, COLUMN_STEP // width)):
        values = np.abs(flat.floats(first * width, (last + 1) * width)).reshape(-1, width)
        values[~np.isfinite(values)] = 0.0
        sums += np.sqrt(values).sum(axis=0)
        counts += np.count_nonzero(values, axis=0)
    scale = robust_scale(sums, counts)
    positive = scale[scale > 0]
    if not positive.size:
        return None
    ratios: Floats = np.clip(scale / np.median(positive), 1.0, COLUMN_RATIO)
    return ratios
