"""Turn what was measured on one output into its result, with a sentence and a likely cause."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from kernel_lint.diagnostics import Reason
from kernel_lint.verify.compare_calibrate import Sources
from kernel_lint.verify.compare_exact import ExactOutcome
from kernel_lint.verify.compare_flat import Flat, Ints
from kernel_lint.verify.compare_likely import likely_cause
from kernel_lint.verify.compare_map import error_map
from kernel_lint.verify.compare_pattern import describe
from kernel_lint.verify.compare_policy import AllClose, Contract, FloatFormat, Policy
from kernel_lint.verify.compare_result import LeafComparison, Mismatch, Precision
from kernel_lint.verify.compare_values import FloatOutcome, Point, WrongSet

# Agreement in bits up to which arithmetic of that kind is the likely explanation: rounding
# inputs to p significand bits leaves about p + 0.3 bits (docs/comparison.md).
PRECISIONS = (
    (1.0, "nothing in common with the reference"),
    (3.0, "fp8 e5m2 or fp4"),
    (6.5, "fp8"),
    (10.0, "bf16"),
    (13.5, "fp16 or tf32"),
    (18.0, "between tf32 and fp32 (bf16x2, fast approximations)"),
    (28.0, "fp32"),
)


def failed_leaf(path: str, right: torch.Tensor, reason: Reason, summary: str) -> LeafComparison:
    """The result for an output whose values cannot be compared at all."""
    return LeafComparison(
        path,
        False,
        reason,
        summary,
        _short(right.dtype),
        tuple(right.shape),
        right.numel(),
        wrong=right.numel(),
    )


def exact_leaf(path: str, right: torch.Tensor, found: ExactOutcome) -> LeafComparison:
    """The result for an output compared bit by bit."""
    shape, wrong = tuple(right.shape), found.wrong
    notes = []
    if found.excused:
        notes.append(
            f"{found.excused} elements equal the float64 run and not the reference: rounding decides them"
        )
    pattern = describe(wrong.positions(), wrong.total, shape)
    worst = _mismatch(found.worst, shape, 1) if found.worst else None
    mismatches = tuple(_mismatch(point, shape, 1) for point in wrong.first)
    return LeafComparison(
        path=path,
        passed=not wrong.total,
        reason=Reason.VALUE if wrong.total else None,
        summary=_sentence(path, right.numel(), wrong.total, pattern, "", worst)
        if wrong.total
        else f"{path} matches",
        dtype=_short(right.dtype),
        shape=shape,
        numel=right.numel(),
        wrong=wrong.total,
        max_error=found.max_error,
        max_ratio=float("inf") if wrong.total else 0.0,
        worst=worst,
        mismatches=mismatches,
        pattern=pattern,
        tolerance_source="integers, bools and bit patterns must be equal",
        notes=tuple(notes),
        error_map=error_map(wrong.positions(), wrong.total, shape),
        zeros=found.zeros,
    )


def empty_leaf(path: str, right: torch.Tensor, form: FloatFormat, policy: Policy) -> LeafComparison:
    """The result for a floating-point output without elements."""
    return LeafComparison(
        path=path,
        passed=True,
        reason=None,
        summary=f"{path} is empty, as the reference's",
        dtype=_short(right.dtype),
        shape=tuple(right.shape),
        rel_err=0.0,
        rel_err_threshold=_threshold(policy, form),
        zeros="right",
    )


def float_leaf(
    path: str,
    right: torch.Tensor,
    candidate: Flat,
    sources: Sources,
    found: FloatOutcome,
    form: FloatFormat,
    policy: Policy,
) -> LeafComparison:
    """The result for a floating-point or complex output."""
    result = _measured(path, right, candidate.per_element, found, _threshold(policy, form))
    failed = _fails(result, policy)
    pattern = likely = ""
    where = None
    if result.wrong:
        positions, total = _elements(found.wrong, candidate.per_element)
        pattern = describe(positions, total, result.shape)
        where = error_map(positions, total, result.shape)
        likely = likely_cause(candidate, sources, found.wrong.positions())
    precision = _precision(found, form.digits, sources, likely)
    # Where most are NaN on one side only, how far the others agree tells nothing.
    if failed and not likely and result.wrong > max(0.05 * result.numel, 2 * found.nonfinite):
        likely = _coarser(precision)
    result = replace(
        result,
        passed=not failed,
        reason=(Reason.NONFINITE if found.nonfinite else Reason.VALUE) if failed else None,
        pattern=pattern,
        likely=likely,
        precision=precision,
        tolerance_source=_source(sources, policy, result.rel_err_threshold),
        notes=_notes(found, policy),
        error_map=where,
        zeros=found.zeros,
    )
    return replace(result, summary=_verdict(result, policy))


def _threshold(policy: Policy, form: FloatFormat) -> float:
    chosen = policy.threshold if isinstance(policy, Contract) else None
    return form.contract if chosen is None else chosen


def _measured(
    path: str, right: torch.Tensor, per: int, found: FloatOutcome, threshold: float
) -> LeafComparison:
    """The numbers of the result; the words come after."""
    shape = tuple(right.shape)
    return LeafComparison(
        path=path,
        passed=True,
        reason=None,
        summary="",
        dtype=_short(right.dtype),
        shape=shape,
        numel=right.numel(),
        wrong=_elements(found.wrong, per)[1],
        nonfinite_wrong=found.nonfinite,
        max_error=found.max_error,
        max_ratio=found.max_ratio,
        rel_err=found.rel_err,
        rel_err_threshold=threshold,
        worst=_mismatch(found.worst, shape, per) if found.worst else None,
        mismatches=tuple(_mismatch(point, shape, per) for point in found.wrong.first),
    )


def _fails(result: LeafComparison, policy: Policy) -> bool:
    if isinstance(policy, Contract):
        return bool(result.nonfinite_wrong) or not result.contract_passed
    return result.wrong > 0


def _elements(wrong: WrongSet, per: int) -> tuple[Ints, int]:
    """Positions and number of wrong tensor elements, from those of their parts."""
    positions = wrong.positions()
    if per == 1:
        return positions, wrong.total
    unique = np.unique(positions // per)
    # With a sample only, the number of elements is known to lie between a part and all of the count.
    return unique, len(unique) if len(positions) == wrong.total else wrong.total


def _mismatch(point: Point, shape: tuple[int, ...], per: int) -> Mismatch:
    index = tuple(int(i) for i in np.unravel_index(point.position // per, shape)) if shape else ()
    return Mismatch(index, point.candidate, point.reference, point.exact, point.error, point.tolerance)


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _sentence(path: str, numel: int, wrong: int, pattern: str, likely: str, worst: Mismatch | None) -> str:
    if wrong == numel:
        text = f"{path}: all {numel} elements are wrong" if numel > 1 else f"{path} is wrong"
    else:
        subject = f"all {wrong} wrong elements are" if wrong > 1 else "the one wrong element is"
        text = f"{path}: {subject} {pattern}" if pattern else f"{path}: {wrong} of {numel} elements are wrong"
    if likely:
        text += f"; {likely}"
    if worst is not None:
        place = f" at {list(worst.index)}" if worst.index else ""
        text += (
            f"; worst{place}: {_number(worst.candidate)} where the reference has {_number(worst.reference)}"
        )
    return text


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _verdict(result: LeafComparison, policy: Policy) -> str:
    path = result.path
    if result.passed:
        return f"{path} matches (largest error {result.max_ratio:.2g} of its tolerance)"
    if isinstance(policy, Contract):
        text = f"{path}: rel_err {result.rel_err:.3g} is not below {result.rel_err_threshold:.3g}"
        also = f"; {result.nonfinite_wrong} elements differ in NaN or infinity"
        return text + also if result.nonfinite_wrong else text
    text = _sentence(path, result.numel, result.wrong, result.pattern, result.likely, result.worst)
    if result.nonfinite_wrong:
        text += f"; {result.nonfinite_wrong} of them differ in NaN or infinity"
    return text


def _coarser(precision: Precision) -> str:
    """Say that the arithmetic inside looks coarser than the reference's, where it does."""
    ours, theirs = precision.bits, precision.reference_bits
    if ours is None or theirs is None or ours < PRECISIONS[1][0] or theirs - ours < 2.0:
        return ""
    return (
        f"about {ours:.1f} bits agree with the float64 run, {theirs:.1f} of the reference's: "
        f"it looks like {precision.looks_like} arithmetic inside, or a small error in a constant"
    )


def _precision(found: FloatOutcome, digits: int, sources: Sources, likely: str) -> Precision:
    if found.bits is None:
        return Precision(None, found.reference_bits, "unknown: there is nothing but zeros to measure")
    if likely:
        return Precision(found.bits, found.reference_bits, "unknown: the errors are not those of rounding")
    if sources.exact is None:
        return Precision(found.bits, None, "unknown: no float64 run to measure against")
    # Rounding to the output's own format hides any better arithmetic behind it.
    if found.bits >= digits - 0.5:
        return Precision(found.bits, found.reference_bits, "at least the output's own precision")
    label = next((text for limit, text in PRECISIONS if found.bits < limit), "fp64")
    return Precision(found.bits, found.reference_bits, label)


def _source(sources: Sources, policy: Policy, threshold: float | None) -> str:
    if isinstance(policy, Contract):
        return f"the contract's norm criterion, rel_err < {threshold:.3g}; element counts are by calibration"
    if isinstance(policy, AllClose):
        return f"allclose: |out - ref| <= {policy.atol:g} + {policy.rtol:g} * |ref|"
    if sources.exact is None:
        return (
            "no float64 run that is finer than the output: measured against the reference itself, "
            "with twice the floors that the dtype sets"
        )
    text = "calibrated per row: the reference's own error against its float64 run, and the dtype's floors"
    return text + (f", and {len(sources.perturbed)} perturbed runs" if sources.perturbed else "")


def _notes(found: FloatOutcome, policy: Policy) -> tuple[str, ...]:
    notes = []
    if found.overflow_only:
        notes.append(
            f"the reference overflows in {found.overflow_only} elements whose true value is representable; "
            "the candidate was measured against the true value there"
        )
    if found.systematic and not isinstance(policy, AllClose):
        notes.append(
            f"{found.systematic} rows (or groups of short rows) err too much on average for rounding: "
            "half the tolerance applies there"
        )
    if found.uninformative:
        notes.append(
            f"in {100 * found.uninformative:.2g}% of the rows the tolerance is at least half the values: "
            "these inputs say little about the candidate there"
        )
    return tuple(notes)
