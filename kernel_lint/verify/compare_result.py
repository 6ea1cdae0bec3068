"""What a comparison found: plain frozen data, with the sentences a person reads first."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from kernel_lint.diagnostics import Reason
from kernel_lint.verify.compare_map import ErrorMap

Zeros = Literal["wrong", "tolerance", "right"]


def json_number(value: complex | float | int | bool | None) -> Any:
    """Return a number as JSON can hold it: NaN and infinities as text, complex as a pair."""
    if isinstance(value, complex):
        return [json_number(value.real), json_number(value.imag)]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One wrong element: its index, the candidate's and the reference's value, the float64 value.

    ``error`` is ``|candidate - exact|`` and ``tolerance`` what was allowed, both in the output's
    unit. ``exact`` is the reference's value where there is no float64 run. Of a complex or packed
    element the values are those of its wrong part.
    """

    index: tuple[int, ...]
    candidate: complex | float | int | bool
    reference: complex | float | int | bool
    exact: complex | float | int | bool
    error: float
    tolerance: float

    def to_json(self) -> dict[str, Any]:
        """Return the mismatch as its JSON object."""
        return {
            "index": list(self.index),
            "candidate": json_number(self.candidate),
            "reference": json_number(self.reference),
            "exact": json_number(self.exact),
            "error": json_number(self.error),
            "tolerance": json_number(self.tolerance),
        }


@dataclass(frozen=True, slots=True)
class Precision:
    """How many leading bits agree with the float64 run, and what arithmetic that looks like.

    ``bits`` is ``-log2`` of the median over rows of ``||out - exact|| / ||exact||``; it is None
    where nothing can be said (no float64 run, all zero, not a float).
    """

    bits: float | None
    reference_bits: float | None
    looks_like: str

    def to_json(self) -> dict[str, Any]:
        """Return the estimate as its JSON object."""
        return {
            "bits": json_number(self.bits),
            "reference_bits": json_number(self.reference_bits),
            "looks_like": self.looks_like,
        }


@dataclass(frozen=True, slots=True)
class LeafComparison:
    """What became of one output.

    ``wrong`` of ``numel`` elements are out of tolerance; ``max_ratio`` is the largest error in
    units of its tolerance (reported when the leaf passes too: how close it came). ``rel_err`` is
    the contract's norm criterion with its threshold, whatever the policy. ``tolerance_source``
    says in words where the tolerance came from. ``zeros`` says what zeros in its place would be: ``wrong``;
    within ``tolerance``, so that this output is no evidence; ``right``, since the reference gives zeros.
    """

    path: str
    passed: bool
    reason: Reason | None
    summary: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    numel: int = 0
    wrong: int = 0
    nonfinite_wrong: int = 0
    max_error: float = 0.0
    max_ratio: float = 0.0
    rel_err: float | None = None
    rel_err_threshold: float | None = None
    worst: Mismatch | None = None
    mismatches: tuple[Mismatch, ...] = ()
    pattern: str = ""
    likely: str = ""
    precision: Precision | None = None
    tolerance_source: str = ""
    notes: tuple[str, ...] = ()
    error_map: ErrorMap | None = None
    zeros: Zeros = "wrong"

    @property
    def contract_passed(self) -> bool | None:
        """Whether the contract's norm criterion holds; None where it does not apply."""
        if self.rel_err is None or self.rel_err_threshold is None:
            return None
        return self.rel_err < self.rel_err_threshold

    def to_json(self) -> dict[str, Any]:
        """Return the leaf's result as its JSON object."""
        return {
            "path": self.path,
            "passed": self.passed,
            "reason": self.reason.value if self.reason else None,
            "summary": self.summary,
            "dtype": self.dtype,
            "shape": list(self.shape),
            "numel": self.numel,
            "wrong": self.wrong,
            "nonfinite_wrong": self.nonfinite_wrong,
            "max_error": json_number(self.max_error),
            "max_ratio": json_number(self.max_ratio),
            "rel_err": json_number(self.rel_err),
            "rel_err_threshold": self.rel_err_threshold,
            "contract_passed": self.contract_passed,
            "worst": self.worst.to_json() if self.worst else None,
            "mismatches": [mismatch.to_json() for mismatch in self.mismatches],
            "pattern": self.pattern,
            "likely": self.likely,
            "precision": self.precision.to_json() if self.precision else None,
            "tolerance_source": self.tolerance_source,
            "notes": list(self.notes),
            "error_map": self.error_map.to_json() if self.error_map else None,
            "zeros": self.zeros,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """The verdict on all outputs of one run: the first failing leaf decides reason and summary."""

    passed: bool
    reason: Reason | None
    summary: str
    policy: str
    leaves: tuple[LeafComparison, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as its JSON object."""
        return {
            "passed": self.passed,
            "reason": self.reason.value if self.reason else None,
            "summary": self.summary,
            "policy": self.policy,
            "leaves": [leaf.to_json() for leaf in self.leaves],
        }
