"""Compare a candidate's outputs with the reference's: structure, dtypes, shapes, values.

``compare`` is the whole interface; ``docs/comparison.md`` explains and derives what it decides.
It works in steps of a fixed number of elements, so that memory beyond the tensors themselves
does not grow with them (but for some bytes per row).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kernel_lint.diagnostics import Reason
from kernel_lint.verify.compare_calibrate import Sources
from kernel_lint.verify.compare_exact import compare_exact, scalars_equal
from kernel_lint.verify.compare_flat import Flat
from kernel_lint.verify.compare_leaf import empty_leaf, exact_leaf, failed_leaf, float_leaf
from kernel_lint.verify.compare_policy import COMPLEX_PARTS, Calibrated, Policy, float_format
from kernel_lint.verify.compare_result import Comparison, LeafComparison, Zeros
from kernel_lint.verify.compare_values import compare_floats
from kernel_lint.verify.trees import Leaf, Tree, flatten

__all__ = ["Comparison", "compare"]

# 16 Ki numbers: some twenty float64 arrays of 128 KiB, which the second-level cache holds, and which
# malloc takes from its heap (larger ones are mapped anew each time, at a page fault for every 4 KiB).
CHUNK = 2**14


@dataclass(frozen=True, slots=True)
class _Settings:
    policy: Policy
    accumulation: int | None
    chunk: int
    first: int
    check_device: bool


def compare(
    candidate: Any,
    reference: Any,
    reference64: Any = None,
    policy: Policy | None = None,
    *,
    sensitivity: Sequence[Any] = (),
    accumulation: int | None = None,
    check_device: bool = True,
    chunk_elements: int = CHUNK,
    max_mismatches: int = 10,
    name: str = "output",
) -> Comparison:
    """Decide whether ``candidate`` is what the reference computes.

    The values are nested tensors and scalars or :class:`~kernel_lint.verify.trees.Tree`; a tree
    brings the devices that its tensors had. ``reference`` ran at the task's dtypes,
    ``reference64`` is the same computation in float64 on the same inputs, and ``sensitivity``
    holds further float64 runs, each on inputs (and parameters) perturbed by
    :func:`kernel_lint.verify.inputs.perturbed`: with them, ill-conditioned outputs get the
    tolerance that they need. ``accumulation`` is the length of the longest sum behind an output
    (K of a GEMM), if known. ``chunk_elements`` bounds the memory of a step and changes no result.

    Never raises for what a candidate returned; a reason other than None says what is wrong.
    """
    settings = _Settings(policy or Calibrated(), accumulation, chunk_elements, max_mismatches, check_device)
    difference = _structure(_value(candidate), _value(reference), name)
    if difference:
        return Comparison(False, Reason.STRUCTURE, difference, settings.policy.name)
    others = [_aligned(run, reference) for run in (reference64, *sensitivity)]
    leaves = []
    for at, (ours, right) in enumerate(
        zip(_sorted_leaves(candidate), _sorted_leaves(reference), strict=True)
    ):
        runs = [leaves64[at].value if leaves64 else None for leaves64 in others]
        leaves.append(_compare_leaf(ours, right, runs, f"{name}{right.path}", settings))
    return _concluded(leaves, settings.policy.name)


def _concluded(leaves: Sequence[LeafComparison], policy: str) -> Comparison:
    failed = [leaf for leaf in leaves if not leaf.passed]
    if not failed:
        return Comparison(True, None, _praise(leaves), policy, tuple(leaves))
    more = len(failed) - 1
    also = f" (and {more} more output{'s are' if more > 1 else ' is'} wrong)" if more else ""
    return Comparison(False, failed[0].reason, failed[0].summary + also, policy, tuple(leaves))


def _praise(leaves: Sequence[LeafComparison]) -> str:
    count = len(leaves)
    closest = max((leaf.max_ratio for leaf in leaves), default=0.0)
    text = f"{count} output{'s match' if count != 1 else ' matches'} the reference"
    return f"{text}; the largest error is {closest:.2g} of its tolerance" if closest else text


def _value(value: Any) -> Any:
    return value.value if isinstance(value, Tree) else value


def _kind(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return "tensor"
    if isinstance(value, Mapping):
        return "dict"
    if isinstance(value, (tuple, list)):
        return "tuple" if isinstance(value, tuple) else "list"
    return "None" if value is None else type(value).__name__


def _structure(candidate: Any, reference: Any, where: str) -> str:
    """The first difference in structure as a sentence; empty when there is none."""
    ours, right = _kind(candidate), _kind(reference)
    if ours != right:
        return f"{where} is a {ours}; the reference returns a {right}"
    if ours == "dict":
        missing = [key for key in reference if key not in candidate]
        extra = [key for key in candidate if key not in reference]
        if missing or extra:
            parts = [f"lacks {_keys(missing)}"] * bool(missing) + [
                f"has an unexpected {_keys(extra)}"
            ] * bool(extra)
            return f"{where} {' and '.join(parts)}; the reference's keys are {_keys(list(reference))}"
        items = ((candidate[key], reference[key], f"{where}[{key!r}]") for key in reference)
    elif ours in ("tuple", "list"):
        if len(candidate) != len(reference):
            return f"{where} has {len(candidate)} items; the reference's has {len(reference)}"
        items = ((a, b, f"{where}[{i}]") for i, (a, b) in enumerate(zip(candidate, reference, strict=True)))
    else:
        return ""
    return next(filter(None, (_structure(a, b, path) for a, b, path in items)), "")


def _keys(keys: Sequence[Any]) -> str:
    shown = ", ".join(repr(key) for key in keys[:6])
    return shown + (f" and {len(keys) - 6} more" if len(keys) > 6 else "")


def _sorted_leaves(value: Any) -> list[Leaf]:
    """Leaves in the order of their paths, since dicts with the same keys may order them differently."""
    return sorted(flatten(value), key=lambda leaf: leaf.path)


def _aligned(run: Any, reference: Any) -> list[Leaf] | None:
    """The leaves of a float64 run; None when it was not made or is built otherwise than the reference."""
    if run is None or _structure(_value(run), _value(reference), ""):
        return None
    return _sorted_leaves(run)


def _compare_leaf(ours: Leaf, right: Leaf, runs: list[Any], path: str, settings: _Settings) -> LeafComparison:
    if not isinstance(right.value, torch.Tensor):
        return _compare_scalar(ours.value, right.value, runs, path, settings)
    fault = _metadata(ours, right, path, settings)
    if fault:
        return failed_leaf(path, right.value, *fault)
    return _compare_tensor(ours.value, right.value, runs, path, settings)


def _metadata(ours: Leaf, right: Leaf, path: str, settings: _Settings) -> tuple[Reason, str] | None:
    a, b = ours.value, right.value
    if type(a) not in (torch.Tensor, torch.nn.Parameter) or a.layout != b.layout or a.is_quantized:
        return (
            Reason.STRUCTURE,
            f"{path} is a {type(a).__name__} ({a.layout}); the reference returns a plain tensor",
        )
    if a.dtype != b.dtype:
        return Reason.DTYPE, f"{path} is {_short(a.dtype)}; the reference returns {_short(b.dtype)}"
    if a.shape != b.shape:
        return Reason.SHAPE, f"{path} has shape {tuple(a.shape)}; the reference's has {tuple(b.shape)}"
    if settings.check_device and ours.device != right.device:
        return Reason.DEVICE, f"{path} is on {ours.device}; the reference's is on {right.device}"
    return None


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _compare_tensor(
    ours: torch.Tensor, right: torch.Tensor, runs: list[Any], path: str, settings: _Settings
) -> LeafComparison:
    form = float_format(right.dtype)
    same_shape = [run if isinstance(run, torch.Tensor) and run.shape == right.shape else None for run in runs]
    if form is None:
        others = tuple(run for run in same_shape if run is not None and run.dtype == right.dtype)
        outcome = compare_exact(ours, right, others, settings.chunk, settings.first)
        return exact_leaf(path, right, outcome)
    exact = same_shape[0] if same_shape else None
    if exact is not None and not _finer(exact.dtype, right.dtype):
        exact = None
    perturbed = tuple(Flat(run) for run in same_shape[1:] if run is not None and exact is not None)
    sources = Sources(Flat(right), Flat(exact) if exact is not None else None, perturbed)
    if not right.numel():
        return empty_leaf(path, right, form, settings.policy)
    candidate = Flat(ours)
    found = compare_floats(
        candidate,
        sources,
        form,
        settings.policy,
        accumulation=settings.accumulation,
        chunk=settings.chunk,
        first=settings.first,
    )
    return float_leaf(path, right, candidate, sources, found, form, settings.policy)


def _finer(exact: torch.dtype, dtype: torch.dtype) -> bool:
    """Whether a run at dtype ``exact`` knows more digits than ``dtype`` holds."""
    fine, coarse = float_format(exact), float_format(dtype)
    alike = (exact in COMPLEX_PARTS) == (dtype in COMPLEX_PARTS)
    return alike and fine is not None and coarse is not None and fine.digits > coarse.digits


def _compare_scalar(ours: Any, right: Any, runs: list[Any], path: str, settings: _Settings) -> LeafComparison:
    kind = type(right).__name__ if right is not None else "None"
    if isinstance(right, (float, complex)):
        # A Python float usually is some float32 tensor's .item(): judged with that precision, as far
        # as float32 can hold it.
        dtype = torch.complex128 if isinstance(right, complex) else torch.float64
        narrow = torch.complex64 if isinstance(right, complex) else torch.float32
        tensors = [torch.tensor(value, dtype=dtype) for value in (ours, right)]
        if not torch.isfinite(tensors[1]) or torch.isclose(
            tensors[1].to(narrow).to(dtype), tensors[1], atol=0.0
        ):
            tensors = [tensor.to(narrow) for tensor in tensors]
        wide = [torch.tensor(run, dtype=dtype) if isinstance(run, (float, complex)) else None for run in runs]
        return _compare_tensor(tensors[0], tensors[1], wide, path, settings)
    if scalars_equal(ours, right):
        zeros: Zeros = "wrong" if isinstance(right, int) and right else "right"
        return LeafComparison(path, True, None, f"{path} matches", dtype=kind, zeros=zeros)
    return LeafComparison(
        path, False, Reason.VALUE, f"{path} is {ours!r}; the reference returns {right!r}", dtype=kind, wrong=1
    )
