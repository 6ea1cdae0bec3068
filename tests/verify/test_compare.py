"""compare(): what must fail fails, what is right passes, and the report says where and what."""

from __future__ import annotations

import math
import tracemalloc
from typing import Any

import pytest
import torch
from compare_cases import CASES, Case, layernorm, sequential_sum, softmax, softmax_exp2, tf32, through
from comparing import DTYPES, NARROW, against_itself, judged, leaf, noise

from kernel_lint.diagnostics import Reason
from kernel_lint.verify.compare import compare
from kernel_lint.verify.compare_calibrate import Sources, calibrate
from kernel_lint.verify.compare_flat import Flat
from kernel_lint.verify.compare_policy import FORMATS, Contract
from kernel_lint.verify.inputs import perturbed

pytestmark = pytest.mark.usefixtures("one_thread")


# simulations --------------------------------------------------------------------

HONEST = [
    pytest.param(case, kernel, dtype, id=f"{case.name}-{name}-{dtype}".replace("torch.", ""))
    for case in CASES
    for dtype in DTYPES
    for name, kernel in {
        **case.honest,
        "the reference itself": case.reference,
        **({"fp16 inside": through(torch.float16, case.reference)} if dtype == torch.bfloat16 else {}),
    }.items()
]


@pytest.mark.parametrize(("case", "kernel", "dtype"), HONEST)
def test_other_orders_and_arithmetic_pass(case: Case, kernel: Any, dtype: torch.dtype) -> None:
    result = judged(case, kernel, case.inputs(0, dtype))
    assert result.passed, result.summary


@pytest.mark.slow
@pytest.mark.parametrize(("case", "kernel", "dtype"), HONEST)
def test_other_orders_pass_a_hundred_times(case: Case, kernel: Any, dtype: torch.dtype) -> None:
    for seed in range(100, 200):
        result = judged(case, kernel, case.inputs(seed, dtype))
        assert result.passed, f"seed {seed}: {result.summary}"


@pytest.mark.parametrize("name", ["gemm 64x96x256", "gemm 48x64x4096", "attention", "layernorm"])
def test_bf16_tensor_cores_inside_an_fp16_task_pass(name: str) -> None:
    case = next(case for case in CASES if case.name == name)
    for seed in range(3):
        result = judged(case, through(torch.bfloat16, case.reference), case.inputs(seed, torch.float16))
        assert result.passed, result.summary


CHEATS = [
    pytest.param(case, kernel, dtype, id=f"{case.name}-{name}-{dtype}".replace("torch.", ""))
    for case in CASES
    for dtype in DTYPES
    for name, kernel in case.cheats.items()
]


@pytest.mark.parametrize(("case", "kernel", "dtype"), CHEATS)
def test_defects_fail(case: Case, kernel: Any, dtype: torch.dtype) -> None:
    result = judged(case, kernel, case.inputs(0, dtype))
    assert (result.passed, result.reason) == (False, Reason.VALUE)


@pytest.mark.parametrize(
    "case", [c for c in CASES if not c.name.startswith("sum of positive")], ids=lambda c: c.name
)
@pytest.mark.parametrize("inside", ["fp16", "tf32"])
def test_narrow_arithmetic_inside_a_float32_task_fails_and_is_named(case: Case, inside: str) -> None:
    xs = case.inputs(0, torch.float32)
    narrow = (
        through(torch.float16, case.reference)
        if inside == "fp16"
        else lambda *a: case.reference(*map(tf32, a))
    )
    result = judged(case, narrow, xs)
    assert result.reason is Reason.VALUE
    precision = leaf(result).precision
    assert precision is not None
    # exp magnifies the rounding of a logit of 8 by 8, which costs three bits more.
    assert precision.looks_like == ("bf16" if case.name == "softmax" else "fp16 or tf32")
    assert 8 < (precision.bits or 0) < 13.5 < (precision.reference_bits or 0)
    assert f"it looks like {precision.looks_like} arithmetic inside" in result.summary


def test_tf32_passes_where_the_reference_itself_uses_it() -> None:
    a, b = noise(64, 512, seed=1), noise(512, 64, seed=2)
    reference, exact = tf32(a) @ tf32(b), a.double() @ b.double()
    assert compare((a.half() @ b.half()).float(), reference, exact).passed
    assert not compare(a @ b * 1.03, reference, exact).passed


@pytest.mark.parametrize(("dtype", "spread", "found"), [
    (torch.float32, 1.0, True), (torch.float32, 2**-8, True), (torch.bfloat16, 2**-8, True),
    # A part in two thousand is less than half a unit in the last place of bf16.
    (torch.bfloat16, 1.0, False),
])  # fmt: skip
def test_a_wrong_epsilon_shows_where_the_format_can_show_it(
    dtype: torch.dtype, spread: float, found: bool
) -> None:
    x, w, b = (noise(32, 768) * spread).to(dtype), noise(768, seed=1).to(dtype), noise(768, seed=2).to(dtype)
    candidate = layernorm(x.float(), w.float(), b.float(), 1e-3).to(dtype)
    exact = layernorm(x.double(), w.double(), b.double())
    assert compare(candidate, layernorm(x, w, b), exact).passed is not found


# the public reports of shared knowledge ------------------------------------------


def test_an_all_zero_softmax_fails() -> None:
    x = noise(2, 32_000)
    for dtype in DTYPES:
        probabilities = softmax(x.to(dtype))
        result = compare(torch.zeros_like(probabilities), probabilities, softmax(x.to(dtype).double()))
        assert result.reason is Reason.VALUE
        assert "all of them are zero" in result.summary


def test_peaked_probabilities_count_too() -> None:
    """Rows of one 1 and many tiny values: the tiny ones may not be dropped."""
    x = noise(16, 512)
    x[:, 3] = 16.0
    probabilities, exact = softmax(x), softmax(x.double())
    candidate = probabilities.clone()
    candidate[candidate < 0.5] = 0
    assert not compare(candidate, probabilities, exact).passed
    assert not compare(candidate.bfloat16(), probabilities.bfloat16(), exact).passed


def test_one_hot_columns_do_not_excuse_zeros() -> None:
    x = noise(48, 1000) * 256
    for dtype in DTYPES:
        y = x.to(dtype)
        assert not compare(torch.zeros_like(y), softmax(y), softmax(y.double())).passed


def test_an_exact_zero_reference_is_compared_exactly() -> None:
    zero = torch.zeros(8, 128)
    assert against_itself(zero, zero).passed
    assert against_itself(-zero, zero).passed
    assert against_itself(zero + 1e-39, zero).passed  # a subnormal: hardware flushes them
    result = against_itself(zero + 1e-30, zero)
    assert result.reason is Reason.VALUE
    assert leaf(result).rel_err == math.inf
    assert leaf(against_itself(zero, zero)).rel_err == 0.0
    assert against_itself(zero, zero, policy=Contract()).passed
    assert not against_itself(zero + 1e-30, zero, policy=Contract()).passed


def test_one_ulp_of_bf16_at_thirty_passes() -> None:
    value = torch.full((4, 256), 30.0, dtype=torch.bfloat16)
    candidate = value.clone()
    candidate[1, 17] += 0.125
    assert candidate[1, 17] == 30.125
    assert against_itself(candidate, value).passed


def test_three_percent_in_float32_fails() -> None:
    value = noise(64, 256)
    result = against_itself(value * 1.03, value)
    assert result.reason is Reason.VALUE
    assert "they are 1.03 times the right values" in result.summary


def test_two_zeroed_rows_of_24752_fail_although_the_norm_passes() -> None:
    value = noise(24_752, 16).bfloat16()
    candidate = value.clone()
    candidate[[100, 24_751]] = 0
    result = against_itself(candidate, value)
    assert result.reason is Reason.VALUE
    assert leaf(result).contract_passed
    assert against_itself(candidate, value, policy=Contract()).passed


def test_huge_values_in_under_one_percent_fail() -> None:
    value = noise(64, 1000)
    candidate = value.clone()
    candidate.view(-1)[::200] = 1e30
    result = against_itself(candidate, value)
    assert result.reason is Reason.VALUE
    assert leaf(result).wrong == 320
    assert "all of them are 1e+30" in result.summary


def test_a_scale_error_below_every_elements_tolerance_is_systematic() -> None:
    """2.5% in bf16: each element is within 4 eps of its row's scale, the row as a whole is not."""
    for dtype in NARROW:
        value = noise(16, 512).to(dtype)
        result = against_itself((value.float() * 1.025).to(dtype), value)
        assert result.reason is Reason.VALUE
        assert leaf(result).notes[0].startswith("16 rows (or groups of short rows) err too much on average")
        few = against_itself((value[:1, :32].float() * 1.025).to(dtype), value[:1, :32])
        assert "err too much" not in "".join(leaf(few).notes)


def test_partial_sums_in_bf16_are_not_systematic() -> None:
    parts = [noise(64, 256, seed=seed) for seed in range(8)]
    ours = sum((part.bfloat16() for part in parts), torch.zeros(64, 256).bfloat16())
    exact = sum(part.double() for part in parts)
    assert isinstance(exact, torch.Tensor)
    assert compare(ours, exact.bfloat16(), exact).passed


def test_wild_relative_errors_of_the_reference_excuse_only_themselves() -> None:
    """float32's erf loses all digits of gelu(x) far below zero, which says nothing of the others."""
    x = 3 * noise(64, 512)
    reference, exact = torch.nn.functional.gelu(x), torch.nn.functional.gelu(x.double())
    assert compare(0.5 * x * (1 + torch.erf(x * 0.5**0.5)), reference, exact).passed
    assert not compare(torch.nn.functional.gelu(x.half()).float(), reference, exact).passed
    assert not compare(reference * 1.001, reference, exact).passed


def test_rows_that_a_threshold_leaves_almost_empty() -> None:
    """What a ReLU leaves of a sum says nothing about the size of the sum's error."""
    a, b = noise(64, 512, seed=1), noise(512, 64, seed=2)
    reference, exact = torch.relu(a @ b - 60), torch.relu(a.double() @ b.double() - 60)
    ours = torch.relu(a.flip(1) @ b.flip(0) - 60)
    assert (reference != 0).sum(1).max() < 16
    assert compare(ours, reference, exact).passed
    assert not compare(torch.zeros_like(ours), reference, exact).passed
    assert not compare(ours + 0.01, reference, exact).passed


def test_a_step_costs_what_it_looks_at_however_many_rows_there_are() -> None:
    rows = 2**16
    value = noise(rows, 64)
    sources = Sources(Flat(value), Flat(value.double()), (Flat(value.double() * (1 + 1e-8)),))
    calibration = calibrate(sources, FORMATS[torch.float32], None, 2**16)
    chunk = sources.chunk(0, 64)
    tracemalloc.start()
    calibration.tolerance(0, 1, chunk)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < rows


# conditioning --------------------------------------------------------------------


def test_sensitivity_runs_admit_what_conditioning_makes_unavoidable() -> None:
    """Logits in the thousands: exp2(x * log2 e) loses bits that no one can keep cheaply."""
    x = noise(48, 1000) * 256
    reference, exact = softmax(x), softmax(x.double())
    moved = [softmax(perturbed(x, seed)) for seed in range(2)]
    assert not compare(softmax_exp2(x), reference, exact).passed
    assert compare(softmax_exp2(x), reference, exact, sensitivity=moved).passed
    assert not compare(reference * 1.03, reference, exact, sensitivity=moved).passed
    assert not compare(torch.zeros_like(reference), reference, exact, sensitivity=moved).passed


def test_scalar_sums_that_cancel_pass() -> None:
    for seed in range(50):
        x = noise(2**14, seed=seed)
        ours = sequential_sum(x.view(128, 128)).sum()
        assert compare(ours, x.sum(), x.double().sum()).passed


def test_outlier_columns_have_their_own_scale() -> None:
    """Values near zero in a column a hundred times larger carry that column's error."""
    value = noise(64, 64)
    value[:, 7] *= 100
    candidate = value.clone()
    candidate[:, 7] += 100 * 2e-5
    assert against_itself(candidate, value).passed
    candidate[:, 8] += 100 * 2e-5
    result = against_itself(candidate, value)
    assert leaf(result).pattern == "in column 8"


def test_longer_sums_may_err_more_when_their_length_is_known() -> None:
    value = noise(64, 64)
    candidate = value + 5e-5
    assert not against_itself(candidate, value).passed
    assert against_itself(candidate, value, accumulation=2**20).passed
    assert not against_itself(candidate.bfloat16() * 1.03, value.bfloat16(), accumulation=2**20).passed


def test_without_a_float64_run_the_report_says_so() -> None:
    value = noise(32, 128)
    result = compare(value * (1 + 2e-7), value)
    assert result.passed
    assert "no float64 run" in leaf(result).tolerance_source
    assert not compare(value * 1.03, value).passed
    # A run that is no finer than the output is none.
    assert "no float64 run" in leaf(compare(value, value, value)).tolerance_source
    assert "calibrated per row" in leaf(compare(value, value, value.double())).tolerance_source
