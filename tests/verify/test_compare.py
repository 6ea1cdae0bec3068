"""compare(): what must fail fails, what is right passes, and the report says where and what."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from compare_cases import CASES, Case, layernorm, sequential_sum, softmax, softmax_exp2, tf32, through
from hypothesis import given, settings

from kernel_lint.diagnostics import Reason
from kernel_lint.errors import KernelLintError
from kernel_lint.verify.compare import compare
from kernel_lint.verify.compare_policy import FORMATS, AllClose, Calibrated, Contract, parse_policy
from kernel_lint.verify.compare_result import Comparison, LeafComparison
from kernel_lint.verify.inputs import perturbed
from kernel_lint.verify.trees import Tree, load_tree, save_tree

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
NARROW = [torch.bfloat16, torch.float16]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def judged(case: Case, kernel: Any, xs: Any, **options: Any) -> Comparison:
    exact = case.reference(*(x.double() for x in xs))
    return compare(kernel(*xs), case.reference(*xs), exact, accumulation=case.accumulation, **options)


def leaf(result: Comparison) -> LeafComparison:
    return result.leaves[0]


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def against_itself(candidate: torch.Tensor, value: torch.Tensor, **options: Any) -> Comparison:
    """Compare with a reference that is exact: only the floors count."""
    return compare(candidate, value, value.double(), **options)


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


# non-finite values ---------------------------------------------------------------


def special(**changes: float) -> torch.Tensor:
    value = noise(4, 128)
    value[1, 5], value[2, 6], value[3, 7] = math.nan, math.inf, -math.inf
    for place, number in changes.items():
        value.view(-1)[int(place[1:])] = number
    return value


@pytest.mark.parametrize("dtype", DTYPES)
def test_nan_and_infinity_must_match(dtype: torch.dtype) -> None:
    value = special().to(dtype)
    assert against_itself(special().to(dtype), value).passed
    for changes in (
        {"_0": math.nan}, {"_0": math.inf}, {"_133": 0.0}, {"_133": math.inf}, {"_262": 1e4},
        {"_262": -math.inf}, {"_391": math.inf}, {"_391": math.nan},
    ):  # fmt: skip
        result = against_itself(special(**changes).to(dtype), value)
        assert result.reason is Reason.NONFINITE
        assert leaf(result).wrong == leaf(result).nonfinite_wrong == 1
        assert leaf(result).rel_err == math.inf
        for policy in (Contract(), AllClose(1.0, 1.0)):
            assert (
                against_itself(special(**changes).to(dtype), value, policy=policy).reason is Reason.NONFINITE
            )


def test_a_candidate_may_avoid_the_references_overflow() -> None:
    """The square overflows fp16 on the way; the true root is representable."""
    x = torch.full((4, 64), 300.0, dtype=torch.float16)
    reference, exact = (x * x).sqrt(), (x.double() * x.double()).sqrt()
    assert torch.isinf(reference).all()
    result = compare(x, reference, exact)
    assert result.passed
    assert "the reference overflows in 256 elements" in leaf(result).notes[0]
    assert compare(reference, reference, exact).passed
    assert compare(x * 1.1, reference, exact).reason is Reason.VALUE
    assert compare(torch.full_like(x, math.nan), reference, exact).reason is Reason.NONFINITE


def test_values_that_round_to_infinity_may_be_either() -> None:
    exact = torch.full((1, 64), 65_519.0, dtype=torch.float64)
    finite, infinite = torch.full((1, 64), 65_504.0).half(), torch.full((1, 64), math.inf).half()
    assert compare(infinite, finite, exact).passed
    assert compare(finite, infinite, exact + 2).passed
    assert compare(-infinite, finite, exact).reason is Reason.NONFINITE
    assert compare(infinite, finite / 2, exact / 2).reason is Reason.NONFINITE


def test_overflow_of_the_true_value_must_be_kept() -> None:
    infinite = torch.full((1, 64), math.inf).half()
    assert compare(
        torch.full_like(infinite, 65_504.0), infinite, torch.full((1, 64), 9e4).double()
    ).reason is (Reason.NONFINITE)


# structure, dtype, shape, device ---------------------------------------------------

T = torch.ones(2, 3)


@pytest.mark.parametrize(
    ("candidate", "reference", "reason", "text"),
    [
        (T, {"y": T}, Reason.STRUCTURE, "output is a tensor; the reference returns a dict"),
        ((T,), [T], Reason.STRUCTURE, "output is a tuple; the reference returns a list"),
        ((T,), (T, T), Reason.STRUCTURE, "output has 1 items; the reference's has 2"),
        ({"a": T}, {"b": T}, Reason.STRUCTURE, "output lacks 'b' and has an unexpected 'a'"),
        ({"a": {"b": None}}, {"a": {"b": T}}, Reason.STRUCTURE, "output['a']['b'] is a None; the reference"),
        (1, True, Reason.STRUCTURE, "output is a int; the reference returns a bool"),
        (T.to_sparse(), T, Reason.STRUCTURE, "output is a Tensor (torch.sparse_coo)"),
        (T.double(), T, Reason.DTYPE, "output is float64; the reference returns float32"),
        ([T, T.half()], [T, T], Reason.DTYPE, "output[1] is float16; the reference returns float32"),
        (T.t(), T, Reason.SHAPE, "output has shape (3, 2); the reference's has (2, 3)"),
        (T[:0], T, Reason.SHAPE, "output has shape (0, 3)"),
        (T.to("meta"), T, Reason.DEVICE, "output is on meta; the reference's is on cpu"),
        ("a", "b", Reason.VALUE, "output is 'a'; the reference returns 'b'"),
        ([1, 2], [1, 3], Reason.VALUE, "output[1] is 2; the reference returns 3"),
        (1.03, 1.0, Reason.VALUE, "output is wrong"),
        (math.nan, 1.0, Reason.NONFINITE, "it is NaN"),
    ],
    ids=lambda value: None if not isinstance(value, str) else value[:40],
)  # fmt: skip
def test_what_differs_is_said(candidate: Any, reference: Any, reason: Reason, text: str) -> None:
    result = compare(candidate, reference)
    assert (result.passed, result.reason) == (False, reason)
    assert text in result.summary


def test_lazy_tensors_are_no_tensors() -> None:
    class Lazy(torch.Tensor):
        pass

    assert compare(T.as_subclass(Lazy), T).reason is Reason.STRUCTURE


def test_equal_structures_pass() -> None:
    value = {
        "a": (T, None, 3, "x", True, math.nan),
        "b": [T.int(), 1.5, 2 - 1j, torch.zeros(0, 4), torch.tensor(2.0)],
    }
    other = {"b": list(value["b"]), "a": tuple(value["a"])}
    result = compare(other, value, value)
    assert result.passed, result.summary
    assert len(result.leaves) == 11


def test_floats_beyond_float32_are_told_apart() -> None:
    for right in (1e300, 1e-300):
        assert compare(right, right).passed
        assert not compare(right * 1.03, right).passed
    assert compare(0.1, 0.1 * (1 + 1e-7)).passed
    assert not compare(1e39, 1.0).passed
    assert compare(math.inf, math.inf).passed


def test_parameters_are_tensors() -> None:
    assert compare(torch.nn.Parameter(T), T).passed


def test_trees_bring_the_devices_that_their_tensors_had(tmp_path: Any) -> None:
    save_tree(T, tmp_path / "t")
    tree = load_tree(tmp_path / "t")
    assert compare(tree, T).passed
    from dataclasses import replace

    moved = Tree(tree.value, tuple(replace(info, device="cuda:0") for info in tree.tensors))
    assert compare(moved, T).reason is Reason.DEVICE
    assert compare(moved, T, check_device=False).passed


def test_several_wrong_outputs_are_counted() -> None:
    result = compare([T, T + 1, T + 1], [T, T, T])
    assert result.summary.endswith("(and 1 more output is wrong)")
    assert [leaf.passed for leaf in result.leaves] == [True, False, False]


# exact dtypes ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype", [torch.int8, torch.int32, torch.int64, torch.uint8, torch.uint64, torch.bool], ids=str
)
def test_integers_and_bools_are_exact(dtype: torch.dtype) -> None:
    value = (torch.arange(200) % 2).to(dtype).view(10, 20)
    candidate = value.clone()
    assert compare(candidate, value).passed
    candidate[3, 4] = 1 - int(value[3, 4])
    result = compare(candidate, value)
    assert result.reason is Reason.VALUE
    assert leaf(result).worst.index == (3, 4)  # type: ignore[union-attr]
    assert leaf(result).wrong == 1


def test_large_integers_are_told_apart() -> None:
    value = torch.tensor([2**62, 2**53 + 1])
    result = compare(value + torch.tensor([0, -1]), value)
    assert result.summary.endswith(
        "the one wrong element is in position 1: the tail; "
        "worst at [1]: 9007199254740992 where the reference has 9007199254740993"
    )


def test_an_integer_that_rounding_decides_may_be_any_right_one() -> None:
    reference, exact = torch.tensor([3, 4, 5], dtype=torch.int8), torch.tensor([3, 5, 5], dtype=torch.int8)
    assert compare(torch.tensor([3, 5, 5], dtype=torch.int8), reference, exact).passed
    assert compare(
        torch.tensor([3, 4, 6], dtype=torch.int8), reference, exact, sensitivity=[reference + 1]
    ).passed
    assert not compare(torch.tensor([3, 6, 5], dtype=torch.int8), reference, exact).passed


@pytest.mark.parametrize("dtype", [dtype for dtype in FORMATS if dtype.itemsize == 1], ids=str)
def test_fp8_may_round_either_way_and_no_further(dtype: torch.dtype) -> None:
    if "float4" in str(dtype):
        codes = torch.arange(64, dtype=torch.uint8).view(1, 64).repeat(2, 1) & 0x77
        value = codes.view(dtype)
        assert compare(value, value).passed
        far = (codes ^ 0x44).view(dtype)
        assert not compare(far, value).passed
        return
    exact = torch.linspace(1.0, 1.99, 256).double().view(2, 128)
    value = exact.to(dtype)
    step = 2.0 ** (1 - FORMATS[dtype].digits)
    down, up = ((rounding(exact / step) * step).to(dtype) for rounding in (torch.floor, torch.ceil))
    assert compare(down, value, exact).passed
    assert compare(up, value, exact).passed
    beyond = value.clone()
    beyond[0, 3] = (value[0, 3].float() + 2 * step).to(dtype)
    assert leaf(compare(beyond, value, exact)).wrong == 1


def test_exponent_only_and_sub_byte_formats_are_exact() -> None:
    value = torch.arange(1, 65, dtype=torch.uint8)
    for dtype in (torch.float8_e8m0fnu, torch.uint4, torch.bits8):
        candidate = value.clone()
        candidate[7] += 1
        assert compare(value.view(dtype), value.view(dtype)).passed
        assert leaf(compare(candidate.view(dtype), value.view(dtype))).wrong == 1


def test_complex_numbers_are_judged_by_their_parts() -> None:
    value = torch.complex(noise(8, 64), noise(8, 64, seed=1))
    exact = value.to(torch.complex128)
    assert compare(value * (1 + 1e-7), value, exact).passed
    assert compare(value.clone().conj().resolve_conj(), value, exact).reason is Reason.VALUE
    candidate = value.clone()
    candidate[2, 3] += 1j
    result = compare(candidate, value, exact)
    assert leaf(result).worst.index == (2, 3)  # type: ignore[union-attr]
    assert leaf(result).wrong == 1


# policies ------------------------------------------------------------------------------


def test_policies_are_read_from_text() -> None:
    assert parse_policy("calibrated") == Calibrated()
    assert parse_policy("contract") == Contract()
    assert parse_policy("contract:0.02") == Contract(0.02)
    assert parse_policy("allclose") == AllClose(1e-5, 1e-8)
    assert parse_policy("allclose:rtol=1e-3, atol=0") == AllClose(1e-3, 0.0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "close",
        "contract:x",
        "contract:nan",
        "contract:-1",
        "allclose:tol=1",
        "allclose:1",
        "calibrated:1",
    ],
)
def test_unreadable_policies_are_refused(text: str) -> None:
    with pytest.raises(KernelLintError, match="tolerance"):
        parse_policy(text)


def test_the_contract_is_a_norm() -> None:
    value = noise(100, 100).bfloat16()
    result = compare((value.float() * 1.009).bfloat16(), value, policy=Contract())
    assert result.passed
    assert leaf(result).rel_err == pytest.approx(0.009, rel=0.15)
    failed = compare((value.float() * 1.02).bfloat16(), value, policy=Contract())
    assert failed.reason is Reason.VALUE
    assert "is not below 0.01" in failed.summary
    assert compare((value.float() * 1.02).bfloat16(), value, policy=Contract(0.05)).passed


def test_the_norm_survives_extreme_magnitudes() -> None:
    for scale in (1e-300, 1e300):
        value = noise(4, 64).double() * scale
        assert leaf(compare(value * 1.5, value)).rel_err == pytest.approx(0.5)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 999), rtol=st.sampled_from([0, 1e-3, 0.1]), atol=st.sampled_from([0, 1e-3, 0.1]))
def test_allclose_is_torchs(seed: int, rtol: float, atol: float) -> None:
    value = noise(3, 5, seed=seed).double()
    candidate = value + noise(3, 5, seed=seed + 1).double() * 0.05 * (seed % 4)
    expected = torch.allclose(candidate, value, rtol=rtol, atol=atol)
    assert compare(candidate, value, policy=AllClose(rtol, atol)).passed is expected


# the report ------------------------------------------------------------------------------


def wrong_at(shape: tuple[int, ...], *places: Any, add: float = 5.0) -> LeafComparison:
    value = noise(*shape)
    candidate = value.clone()
    for place in places:
        candidate[place] += add * (1 + noise(*candidate[place].shape, seed=3).abs())
    return leaf(against_itself(candidate, value))


s_ = np.s_
TILE_64 = "in rows 64-127: block 1 of 64 and in columns 128-191: block 2 of 64: one whole 64x64 tile"
TILE_16 = "in rows 16-31: block 1 of 16 and in columns 32-63: block 1 of 32: one whole 16x32 tile"


@pytest.mark.parametrize(
    ("shape", "place", "pattern"),
    [
        ((9, 1024), s_[:, 1020:], "in columns 1020-1023: the tail of each row"),
        ((9, 1024), s_[:, :4], "in columns 0-3: the head of each row"),
        ((64, 64), s_[60:], "in rows 60-63: the last rows"),
        ((64, 64), s_[63], "in row 63: the last row"),
        ((64, 64), s_[5], "in row 5"),
        ((64, 64), s_[:, ::4], "in every 4th column (starting at 0)"),
        ((64, 64), s_[1::2], "in every 2nd row (starting at 1)"),
        ((256, 256), s_[64:128, 128:192], TILE_64),
        ((256, 256), s_[16:32, 32:64], TILE_16),
        ((4, 64, 64), s_[2], "in index of dimension 0 2"),
        ((1000,), s_[996:], "in positions 996-999: the tail"),
        ((16, 128), s_[:], "everywhere: no element is right"),
    ],
    ids=str,
)  # fmt: skip
def test_places_are_described(shape: tuple[int, ...], place: Any, pattern: str) -> None:
    assert wrong_at(shape, place).pattern == pattern


def test_scattered_places_have_no_pattern() -> None:
    assert wrong_at((64, 64), s_[3, 5], s_[20, 61], s_[63, 1], s_[0, 30], s_[41, 17]).pattern == ""


def test_the_summary_is_for_tired_people() -> None:
    value = noise(9, 1024)
    candidate = value.clone()
    candidate[:, 1020:] = 0
    summary = against_itself(candidate, value).summary
    assert summary.startswith(
        "output: all 36 wrong elements are in columns 1020-1023: the tail of each row; "
        "all of them are zero; worst at ["
    )


def test_the_worst_element_is_named_with_its_values() -> None:
    value = noise(50, 70)
    candidate = value.clone()
    candidate[17, 3] += 1
    candidate[31, 5] += 40
    found = leaf(against_itself(candidate, value))
    assert found.worst is not None
    assert found.worst.index == (31, 5)
    assert found.worst.candidate == pytest.approx(float(value[31, 5]) + 40)
    assert found.worst.reference == found.worst.exact == float(value[31, 5])
    assert found.worst.error == pytest.approx(40, rel=1e-5)
    assert 0 < found.worst.tolerance < 1e-3
    assert [mismatch.index for mismatch in found.mismatches] == [(17, 3), (31, 5)]


@pytest.mark.parametrize(
    ("change", "likely"),
    [
        (lambda v: v.roll(1, 0), "they are the right values of the row before"),
        (lambda v: v.roll(-1, 0), "they are the right values of the row after"),
        (lambda v: v.roll(1, 1), "they are the right values of the column before"),
        (lambda v: v.t().contiguous(), "they are the transposed matrix's values"),
        (lambda v: -v, "they have the wrong sign"),
        (lambda v: v * 2, "they are 2 times the right values"),
        (lambda v: v * 1.0005, "they are 1.0005 times the right values"),
        (lambda v: v * math.nan, "all of them are NaN"),
        (lambda v: torch.full_like(v, 7.0), "all of them are 7"),
        (lambda v: v.flip(0), ""),
    ],
)
def test_likely_causes(change: Any, likely: str) -> None:
    value = noise(64, 64)
    assert leaf(against_itself(change(value), value)).likely == likely


def test_the_report_is_json() -> None:
    value = special()
    text = json.dumps(compare({"y": -value, "z": 1j}, {"y": value, "z": 1j}).to_json(), allow_nan=False)
    assert json.loads(text)["reason"] == "NONFINITE"


# invariants -----------------------------------------------------------------------------


def same(a: Comparison, b: Comparison) -> bool:
    return json.dumps(a.to_json()) == json.dumps(b.to_json())


layouts = st.sampled_from(["plain", "transposed", "strided", "expanded"])


def laid_out(value: torch.Tensor, layout: str) -> torch.Tensor:
    if layout == "transposed":
        return value.t().contiguous().t()
    if layout == "strided":
        return value.repeat_interleave(2, -1)[:, ::2]
    return value


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(1, 60), columns=st.integers(1, 200), seed=st.integers(0, 99), chunk=st.integers(1, 3000),
    dtype=st.sampled_from([*DTYPES, torch.float64, torch.complex64, torch.float8_e4m3fn, torch.int32]),
    wrong=st.integers(0, 20), layout=layouts, run=st.booleans(),
)  # fmt: skip
def test_chunk_size_and_layout_change_nothing(
    rows: int, columns: int, seed: int, chunk: int, dtype: torch.dtype, wrong: int, layout: str, run: bool
) -> None:
    exact = noise(rows, columns, seed=seed).double() * 3
    reference = exact.to(dtype)
    candidate = (exact * (1 + 1e-7)).to(dtype)
    places = torch.randint(rows * columns, (wrong,), generator=torch.Generator().manual_seed(seed))
    candidate.view(-1)[places] = torch.tensor(9.0).to(dtype)
    exact = exact.to(torch.complex128) if dtype.is_complex else exact
    options = {"reference64": exact if run and dtype != torch.int32 else None}
    whole = compare(candidate, reference, **options)
    parts = compare(laid_out(candidate, layout), laid_out(reference, layout), **options, chunk_elements=chunk)
    assert same(whole, parts)


@settings(max_examples=20, deadline=None)
@given(size=st.integers(5000, 40_000), chunk=st.integers(100, 9000), dtype=st.sampled_from(DTYPES))
def test_chunk_size_changes_nothing_in_long_rows(size: int, chunk: int, dtype: torch.dtype) -> None:
    exact = noise(2, size).double()
    reference = exact.to(dtype)
    candidate = reference.clone()
    candidate[1, size // 2 :: 7] = 0
    assert same(
        compare(candidate, reference, exact), compare(candidate, reference, exact, chunk_elements=chunk)
    )


@settings(max_examples=40, deadline=None)
@given(
    shape=st.lists(st.integers(0, 9), max_size=4), seed=st.integers(0, 99), scale=st.floats(-300, 300),
    dtype=st.sampled_from([dtype for dtype in FORMATS if "float4" not in str(dtype)]), bad=st.booleans(),
)  # fmt: skip
def test_the_reference_itself_always_passes(
    shape: list[int], seed: int, scale: float, dtype: torch.dtype, bad: bool
) -> None:
    value = noise(*shape, seed=seed).double() * 10.0**scale
    exact = noise(*shape, seed=seed + 1).double() if bad else value
    reference = value.to(dtype)
    result = compare(reference, reference.clone(), exact)
    assert result.passed, result.summary


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 99), rows=st.integers(2, 12))
def test_permuting_rows_permutes_the_report(seed: int, rows: int) -> None:
    exact = noise(rows, 80, seed=seed).double()
    reference = exact.float()
    candidate = reference.clone()
    candidate[0, 3] += 1
    candidate[rows - 1, 7] += 100
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(seed))
    before = leaf(compare(candidate, reference, exact))
    after = leaf(compare(candidate[order], reference[order], exact[order]))
    assert before.worst is not None
    assert after.worst is not None
    assert int(order[after.worst.index[0]]) == before.worst.index[0]
    assert after.worst.tolerance == before.worst.tolerance
    assert {int(order[m.index[0]]) for m in after.mismatches} == {m.index[0] for m in before.mismatches}


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 99), at=st.integers(0, 599), first=st.floats(0, 1), more=st.floats(0, 3),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
)  # fmt: skip
def test_more_error_never_mends(seed: int, at: int, first: float, more: float, dtype: torch.dtype) -> None:
    exact = noise(3, 200, seed=seed).double()
    reference = (exact + noise(3, 200, seed=seed + 1) * 1e-3).to(dtype)
    results = []
    for extra in (first, first + more):
        candidate = exact.clone()
        candidate.view(-1)[at] += extra * torch.sign(exact.view(-1)[at]) * 0.1
        results.append(compare(candidate.to(dtype), reference, exact).passed)
    assert results != [False, True]
