"""What a comparison says of values that are no numbers, other structures, and exact types."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from comparing import DTYPES, against_itself, leaf, noise, special

from kernel_lint.diagnostics import Reason
from kernel_lint.verify.compare import compare
from kernel_lint.verify.compare_policy import FORMATS, AllClose, Contract
from kernel_lint.verify.trees import Tree, load_tree, save_tree

pytestmark = pytest.mark.usefixtures("one_thread")


# non-finite values ---------------------------------------------------------------


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
