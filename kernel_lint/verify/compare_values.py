"""Judge the numbers of one floating-point output, a step at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from kernel_lint.verify.compare_calibrate import (
    SYSTEMATIC,
    SYSTEMATIC_DIGITS,
    SYSTEMATIC_MIN,
    Calibration,
    Sources,
    all_finite,
    calibrate,
)
from kernel_lint.verify.compare_flat import Blocks, Flat, Floats, Ints
from kernel_lint.verify.compare_policy import AllClose, Contract, FloatFormat, Policy
from kernel_lint.verify.compare_result import Zeros
from kernel_lint.verify.compare_steps import in_order

Bools = npt.NDArray[np.bool_]

# Wrong positions kept for the pattern; beyond it an even sample is kept (8 MiB).
KEPT = 2**20


@dataclass(frozen=True, slots=True)
class Point:
    """A wrong number: its position in row-major order and what was compared there."""

    position: int
    candidate: float | int
    reference: float | int
    exact: float | int
    error: float
    tolerance: float


@dataclass(slots=True)
class WrongSet:
    """Positions of wrong numbers: how many, the first few, and a sample that no step size changes."""

    first_limit: int
    total: int = 0
    first: list[Point] = field(default_factory=list)
    mask: int = 0
    _kept: list[Ints] = field(default_factory=list)
    _count: int = 0

    def add(self, positions: Ints) -> None:
        """Count positions (ascending) and keep those whose hash the present thinning keeps."""
        self.total += len(positions)
        self._keep(positions)
        while self._count > KEPT:
            self.mask = self.mask * 2 + 1
            kept, self._kept, self._count = self._kept, [], 0
            for part in kept:
                self._keep(part)

    def positions(self) -> Ints:
        """All wrong positions, or the sample when there are more than are kept."""
        return np.concatenate(self._kept) if self._kept else np.zeros(0, dtype=np.int64)

    def _keep(self, positions: Ints) -> None:
        if self.mask:
            # Fibonacci hashing (Knuth, TAOCP 3, 6.4): its high bits are even over any stride.
            hashed = positions.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
            positions = positions[(hashed >> np.uint64(40)) & np.uint64(self.mask) == 0]
        if len(positions):
            self._kept.append(positions)
            self._count += len(positions)


@dataclass(frozen=True, slots=True)
class FloatOutcome:
    """What became of one output's numbers; see :class:`..compare_result.LeafComparison`."""

    wrong: WrongSet
    nonfinite: int
    worst: Point | None
    max_error: float
    max_ratio: float
    rel_err: float
    bits: float | None
    reference_bits: float | None
    uninformative: float
    overflow_only: int
    systematic: int
    zeros: Zeros


@dataclass(slots=True)
class _Step:
    """One step's numbers and the verdict on them."""

    start: int
    candidate: Floats
    reference: Floats
    exact: Floats
    tolerance: Floats
    error: Floats
    wrong: Bools
    nonfinite: Bools
    overflow_only: Bools
    zeros_wrong: bool = False

    def ratio(self) -> Floats:
        """The error in units of the tolerance; 0 where both are 0."""
        if self.tolerance.min() > 0:
            return self.error / self.tolerance
        ratio = np.divide(self.error, self.tolerance, out=np.zeros_like(self.error), where=self.tolerance > 0)
        ratio[(self.tolerance == 0) & (self.error > 0)] = np.inf
        result: Floats = ratio
        return result

    def point(self, at: int) -> Point:
        values = (self.candidate, self.reference, self.exact, self.error, self.tolerance)
        return Point(self.start + at, *(float(array[at]) for array in values))


def _judge(step: _Step, form: FloatFormat, target: Floats) -> None:
    """Fill in error and verdict, given what the candidate is measured against."""
    candidate, reference = step.candidate, step.reference
    step.error = np.abs(candidate - target)
    # Equal values pass whatever the policy: the reference itself is always right.
    step.wrong = (step.error > step.tolerance) & (candidate != reference)
    if all_finite(candidate) and all_finite(reference):
        return
    both = np.isfinite(candidate) & np.isfinite(reference)
    step.error[~both] = 0.0
    step.wrong &= both
    same = (np.isnan(candidate) & np.isnan(reference)) | (candidate == reference)
    odd = ~both & ~same
    finite_exact = np.isfinite(step.exact)
    magnitude = np.abs(np.where(finite_exact, step.exact, 0.0))
    # The reference overflowed on the way, the true value is representable: the candidate must
    # be near the true value.
    rescued = odd & ~np.isfinite(reference) & finite_exact & np.isfinite(candidate)
    rescued &= magnitude - step.tolerance <= form.largest
    distance = np.abs(np.where(rescued, candidate - np.where(finite_exact, step.exact, 0.0), 0.0))
    near = rescued & (distance <= step.tolerance)
    # The true value rounds to infinity or to the largest number, within tolerance.
    edge = odd & np.isinf(candidate) & finite_exact & (magnitude + step.tolerance >= form.largest)
    edge &= np.signbit(candidate) == np.signbit(step.exact)
    step.overflow_only = near
    missed = rescued & ~near
    step.error = np.where(odd, np.where(edge | rescued, distance, np.inf), step.error)
    step.nonfinite = odd & ~rescued & ~edge
    step.wrong |= missed | step.nonfinite


@dataclass(frozen=True, slots=True)
class _Part:
    """What one step comes to; ``sums`` are per block, ``first`` are its first wrong numbers."""

    nonfinite: int
    overflow_only: int
    places: Ints
    first: list[Point]
    worst: Point | None
    ratio: float
    max_error: float
    zeros_wrong: bool
    sums: dict[str, Floats]


@dataclass(slots=True)
class _Totals:
    """Sums and extremes over the steps; per-block sums keep the result independent of the steps."""

    blocks: Blocks
    wrong: WrongSet
    nonfinite: int = 0
    worst: Point | None = None
    max_error: float = 0.0
    max_ratio: float = 0.0
    overflow_only: int = 0
    zeros_wrong: bool = False
    sums: dict[str, Floats] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = (
            "difference",
            "reference",
            "candidate_error",
            "reference_error",
            "exact",
            "tolerance",
            "nonzero_error",
        )
        self.sums = {name: np.zeros(self.blocks.count) for name in names}

    def add(self, part: _Part, block: int, after: int) -> None:
        """Add what one step came to."""
        self.nonfinite += part.nonfinite
        self.overflow_only += part.overflow_only
        room = self.wrong.first_limit - len(self.wrong.first)
        self.wrong.first.extend(part.first[: max(room, 0)])
        self.wrong.add(part.places)
        if part.worst is not None and part.ratio > self.max_ratio:
            self.max_ratio, self.worst = part.ratio, part.worst
        self.max_error = max(self.max_error, part.max_error)
        self.zeros_wrong |= part.zeros_wrong
        for name, values in part.sums.items():
            self.sums[name][block:after] = values

    def uninformative(self) -> float:
        """The share of rows whose rms tolerance is at least half the rms of the values."""
        exact, allowed = (self.blocks.per_group(self.sums[name]) for name in ("exact", "tolerance"))
        rows = exact > 0
        return float(np.mean(allowed[rows] >= 0.25 * exact[rows])) if rows.any() else 0.0

    def systematic(self, form: FloatFormat) -> Bools:
        """Which groups' errors are too large on average to come from rounding."""
        return self._too_large("nonzero_error", form)

    def zeros(self, form: FloatFormat, policy: Policy) -> Zeros:
        """What zeros in the candidate's place would be."""
        reference = float(self.sums["reference"].sum())
        if isinstance(policy, Contract):
            threshold = form.contract if policy.threshold is None else policy.threshold
            wrong = self.zeros_wrong or (reference > 0 and threshold <= 1)
        else:
            strict = not isinstance(policy, AllClose) and self._too_large("exact", form).any()
            wrong = self.zeros_wrong or bool(strict)
        return "wrong" if wrong else "tolerance" if reference > 0 else "right"

    def _too_large(self, name: str, form: FloatFormat) -> Bools:
        """Which groups' sums of squares are above what rounding leaves."""
        error, allowed = (self.blocks.per_group(self.sums[name]) for name in (name, "tolerance"))
        sizes = np.diff(np.append(self.blocks.starts[self.blocks.first], self.blocks.starts[-1]))
        eligible = (sizes >= SYSTEMATIC_MIN) & (form.digits in SYSTEMATIC_DIGITS)
        result: Bools = eligible & (error > SYSTEMATIC**2 * allowed)
        return result

    def rel_err(self) -> float:
        """``||out - ref|| / ||ref||``; 0 or infinite against an all-zero reference."""
        if self.nonfinite:
            return math.inf
        difference, reference = (float(self.sums[name].sum()) for name in ("difference", "reference"))
        if reference == 0.0:
            return 0.0 if difference == 0.0 else math.inf
        return math.sqrt(difference / reference)

    def bits(self, name: str) -> float | None:
        exact = self.blocks.per_group(self.sums["exact"])
        error = self.blocks.per_group(self.sums[name])
        rows = exact > 0
        if not rows.any():
            return None
        relative = math.sqrt(float(np.median(error[rows] / exact[rows])))
        return 53.0 if relative < 2.0**-53 else -math.log2(relative)


def compare_floats(
    candidate: Flat,
    sources: Sources,
    form: FloatFormat,
    policy: Policy,
    *,
    accumulation: int | None,
    chunk: int,
    first: int,
) -> FloatOutcome:
    """Compare all numbers of ``candidate`` with ``sources.reference``; sizes must agree and not be 0."""
    with np.errstate(all="ignore"):
        calibration = calibrate(sources, form, accumulation, chunk)
        totals = _pass(candidate, sources, calibration, policy, chunk, first)
        systematic = totals.systematic(form)
        if systematic.any() and not isinstance(policy, AllClose):
            stricter = replace(calibration, share=np.where(systematic, SYSTEMATIC, 1.0))
            totals = _pass(candidate, sources, stricter, policy, chunk, first)
        known = sources.exact is not None
        return FloatOutcome(
            wrong=totals.wrong,
            nonfinite=totals.nonfinite,
            worst=totals.worst,
            max_error=totals.max_error,
            max_ratio=totals.max_ratio,
            rel_err=totals.rel_err(),
            bits=totals.bits("candidate_error" if known else "difference"),
            reference_bits=totals.bits("reference_error") if known else None,
            uninformative=totals.uninformative(),
            overflow_only=totals.overflow_only,
            systematic=int(systematic.sum()),
            zeros=totals.zeros(form, policy),
        )


def _pass(
    candidate: Flat, sources: Sources, calibration: Calibration, policy: Policy, chunk: int, first: int
) -> _Totals:
    totals = _Totals(calibration.blocks, WrongSet(first))

    def look(block: int, after: int) -> _Part:
        step = _step(candidate, sources, calibration, policy, block, after)
        # One number is enough: from then on no more are looked at.
        step.zeros_wrong = not totals.zeros_wrong and _zeros_wrong(step, policy)
        return _part(step, totals, partial(calibration.blocks.sums, block=block, after=after), calibration)

    for block, after, part in in_order(look, calibration.blocks, chunk):
        totals.add(part, block, after)
    return totals


def _zeros_wrong(step: _Step, policy: Policy) -> bool:
    """Whether there is a number in whose place zero would be wrong by itself."""
    if not all_finite(step.reference):
        return True
    if isinstance(policy, Contract):
        return False
    target = step.reference if isinstance(policy, AllClose) else step.exact
    return bool(((np.abs(target) > step.tolerance) & (step.reference != 0)).any())


def _part(step: _Step, totals: _Totals, sums: Callable[[Floats], Floats], calibration: Calibration) -> _Part:
    places = np.flatnonzero(step.wrong)
    ratio = step.ratio()
    worst = None
    top = float(ratio.max())
    # Only what could be the largest so far is looked at closely; by its turn there may be a larger one.
    if top > totals.max_ratio:
        # A right element is never worse than a wrong one, whatever its ratio.
        ratio[~step.wrong & (step.candidate == step.reference)] = 0.0
        at = int(np.argmax(ratio))
        top, worst = float(ratio[at]), step.point(at)
    return _Part(
        nonfinite=int(step.nonfinite.sum()),
        overflow_only=int(step.overflow_only.sum()),
        places=places.astype(np.int64) + step.start,
        first=[step.point(int(at)) for at in places[: totals.wrong.first_limit]],
        worst=worst,
        ratio=top,
        max_error=float(step.error.max()),
        zeros_wrong=step.zeros_wrong,
        sums={name: sums(array * array) for name, array in _norms(step, calibration.largest).items()},
    )


def _norms(step: _Step, largest: float) -> dict[str, Floats]:
    """The arrays whose squares are summed."""
    # Squares of moderate values can neither overflow nor vanish: no scaling needed.
    scale = 1.0 if largest == 0.0 or 1e-100 < largest < 1e100 else largest
    values = (step.candidate, step.reference, step.exact, step.tolerance)
    if scale != 1.0 or not all(all_finite(array) for array in values[:3]):
        sound = np.isfinite(step.candidate) & np.isfinite(step.reference) & np.isfinite(step.exact)
        values = tuple(np.where(sound, array, 0.0) / scale for array in values)  # type: ignore[assignment]
    candidate, reference, exact, tolerance = values
    nonzero = exact != 0
    error = candidate - exact
    return {
        "difference": candidate - reference,
        "reference": reference,
        "candidate_error": error,
        "reference_error": reference - exact,
        "exact": exact,
        # Where the true value is zero there is no systematic error to speak of.
        "tolerance": np.where(nonzero, tolerance, 0.0),
        "nonzero_error": np.where(nonzero, error, 0.0),
    }


def _step(
    candidate: Flat, sources: Sources, calibration: Calibration, policy: Policy, block: int, after: int
) -> _Step:
    starts = calibration.blocks.starts
    start, stop = int(starts[block]), int(starts[after])
    values = candidate.floats(start, stop)
    chunk = sources.chunk(start, stop)
    reference, exact, _ = chunk
    if isinstance(policy, AllClose):
        tolerance = policy.atol + policy.rtol * np.abs(np.where(np.isfinite(reference), reference, 0.0))
        target = reference
    else:
        tolerance = calibration.tolerance(block, after, chunk)
        target = exact
    no = np.zeros(len(values), dtype=bool)
    step = _Step(start, values, reference, exact, tolerance, np.zeros(len(values)), no, no, no)
    # Where the float64 run is not finite, the chunk already holds the reference instead.
    _judge(step, calibration.form, target)
    return step
