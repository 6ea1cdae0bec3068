"""Policies, the report of a comparison, and what must hold for all of them."""

from __future__ import annotations

import json
import math
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from comparing import DTYPES, against_itself, leaf, noise, special
from hypothesis import given, settings

from kernel_lint.diagnostics import Reason
from kernel_lint.errors import KernelLintError
from kernel_lint.verify.compare import compare
from kernel_lint.verify.compare_policy import FORMATS, AllClose, Calibrated, Contract, parse_policy
from kernel_lint.verify.compare_result import Comparison, LeafComparison

pytestmark = pytest.mark.usefixtures("one_thread")


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
