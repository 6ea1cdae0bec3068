"""Operations against Python's own integers and floats, and the pieces around them."""

from __future__ import annotations

import struct
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernel_lint.emulator.decode import parse_place, parse_type
from kernel_lint.emulator.ir import MType, Op, Place
from kernel_lint.emulator.registry import Env, UnknownOperationError, lookup
from kernel_lint.emulator.values import bitcast, dtype_of, wrap

ENV = Env("cpu", "gfx942", 64, frozenset(), "kernel")


def build(name: str, operands: list[str], result: str, **attrs: Any) -> Any:
    """The function of an operation."""
    types = tuple(parse_type(t) for t in operands)
    op = Op(name, tuple(range(len(types))), (9,), types, (parse_type(result),), attrs, (), Place("k.py", 3))
    return lookup(op, ENV).build(op, ENV)


def as_lanes(values: list[Any], mtype: str) -> torch.Tensor:
    """Values as one workgroup of lanes."""
    return torch.tensor([values], dtype=dtype_of(parse_type(mtype)))


def trunc_div(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


INTEGERS: dict[str, Any] = {
    "arith.addi": lambda a, b, n: a + b,
    "arith.subi": lambda a, b, n: a - b,
    "arith.muli": lambda a, b, n: a * b,
    "arith.andi": lambda a, b, n: a & b,
    "arith.ori": lambda a, b, n: a | b,
    "arith.xori": lambda a, b, n: a ^ b,
    "arith.maxsi": lambda a, b, n: max(a, b),
    "arith.minsi": lambda a, b, n: min(a, b),
    "arith.maxui": lambda a, b, n: max(a % 2**n, b % 2**n),
    "arith.minui": lambda a, b, n: min(a % 2**n, b % 2**n),
    "arith.floordivsi": lambda a, b, n: a // b,
    "arith.divsi": lambda a, b, n: trunc_div(a, b),
    "arith.remsi": lambda a, b, n: a - trunc_div(a, b) * b,
    "arith.ceildivsi": lambda a, b, n: -(-a // b),
    "arith.divui": lambda a, b, n: (a % 2**n) // (b % 2**n),
    "arith.remui": lambda a, b, n: (a % 2**n) % (b % 2**n),
}


@pytest.mark.parametrize("name", INTEGERS)
@given(data=st.data())
def test_integer_operation_wraps_as_mlir_does(name: str, data: st.DataObject) -> None:
    bits = data.draw(st.sampled_from([8, 16, 32, 64]))
    numbers = st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    a, b = data.draw(numbers), data.draw(numbers.filter(lambda x: x != 0))
    mtype = f"i{bits}"
    run = build(name, [mtype, mtype], mtype)
    expected = wrap(INTEGERS[name](a, b, bits), bits)

    assert run(a, b) == expected
    # The most negative number by -1 is undefined in MLIR and traps some processors.
    if not ((a == -(2 ** (bits - 1)) and "div" in name) or "rem" in name):
        assert int(run(as_lanes([a], mtype), as_lanes([b], mtype))) == expected
        assert int(run(as_lanes([a], mtype), b)) == expected
        assert int(run(a, as_lanes([b], mtype))) == expected


@pytest.mark.parametrize("name", ["arith.shli", "arith.shrui", "arith.shrsi"])
@given(data=st.data())
def test_shift_agrees_with_python(name: str, data: st.DataObject) -> None:
    bits = data.draw(st.sampled_from([8, 16, 32, 64]))
    a = data.draw(st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1))
    by = data.draw(st.integers(0, bits - 1))
    shifted = {"arith.shli": a << by, "arith.shrui": (a % 2**bits) >> by, "arith.shrsi": a >> by}[name]
    run = build(name, [f"i{bits}", f"i{bits}"], f"i{bits}")

    for left, right in (
        (a, by),
        (as_lanes([a], f"i{bits}"), by),
        (as_lanes([a], f"i{bits}"), as_lanes([by], f"i{bits}")),
    ):
        assert int(run(left, right)) == wrap(shifted, bits)


@pytest.mark.parametrize("predicate", range(10))
@given(a=st.integers(-128, 127), b=st.integers(-128, 127))
def test_integer_comparison(predicate: int, a: int, b: int) -> None:
    ua, ub = a % 256, b % 256
    expected = [a == b, a != b, a < b, a <= b, a > b, a >= b, ua < ub, ua <= ub, ua > ub, ua >= ub][predicate]
    run = build("arith.cmpi", ["i8", "i8"], "i1", predicate=predicate)

    assert bool(run(a, b)) == expected
    assert bool(run(as_lanes([a], "i8"), as_lanes([b], "i8"))) == expected


@given(st.integers(-(2**31), 2**31 - 1), st.sampled_from([8, 16, 64]))
def test_casts_keep_low_bits_and_sign(value: int, bits: int) -> None:
    name = "arith.extsi" if bits > 32 else "arith.trunci"
    run = build(name, ["i32"], f"i{bits}")

    assert run(value) == wrap(value, bits)
    assert int(run(as_lanes([value], "i32"))) == wrap(value, bits)
    zero = build("arith.extui", ["i32"], "i64")
    assert zero(value) == value % 2**32
    assert int(zero(as_lanes([value], "i32"))) == value % 2**32


@given(
    st.binary(min_size=16, max_size=16),
    st.sampled_from(
        [
            "vector<16xi8>",
            "vector<8xi16>",
            "vector<4xi32>",
            "vector<2xi64>",
            "vector<8xbf16>",
            "vector<32xi4>",
            "i128",
        ]
    ),
)
def test_bitcasts_go_round(data: bytes, middle: str) -> None:
    source, target = parse_type("vector<4xi32>"), parse_type(middle)
    value = torch.tensor(struct.unpack("<4i", data), dtype=torch.int32).reshape(1, 1, 4)

    there = bitcast(value, source, target, "cpu")

    assert torch.equal(bitcast(there, target, source, "cpu"), value)


@given(
    st.floats(width=32, allow_nan=False),
    st.floats(width=32, allow_nan=False),
    st.floats(width=32, allow_nan=False),
)
def test_fma_rounds_once_where_the_product_is_exact(a: float, b: float, c: float) -> None:
    run = build("math.fma", ["f32"] * 3, "f32")

    got = run(*(as_lanes([x], "f32") for x in (a, b, c)))

    exact = torch.tensor(a, dtype=torch.float64) * b + c
    assert torch.equal(got, exact.to(torch.float32).reshape(1, 1)) or bool(torch.isnan(exact))


@pytest.mark.parametrize(
    ("value", "expected"), [(3e9, 2**31 - 1), (-3e9, -(2**31)), (float("nan"), 0), (-1.9, -1)]
)
def test_float_to_int_saturates_as_the_hardware_does(value: float, expected: int) -> None:
    run = build("arith.fptosi", ["f32"], "i32")

    assert run(value) == expected
    assert int(run(as_lanes([value], "f32"))) == expected


def test_unknown_operation_names_itself_its_line_and_where_to_report() -> None:
    with pytest.raises(UnknownOperationError, match=r"rocdl\.nonsense .*k\.py:3 .*") as caught:
        build("rocdl.nonsense", ["i32"], "i32")

    assert "issues" in caught.value.remedy


def test_arithmetic_of_wide_integers_is_refused() -> None:
    with pytest.raises(UnknownOperationError, match="more than 64 bits"):
        build("arith.addi", ["i128", "i128"], "i128")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("vector<4xf32>", 16),
        ("!llvm.ptr<1>", 8),
        ("!llvm.ptr<3>", 4),
        ("!llvm.struct<packed (struct<packed (i32, i32)>, struct<packed (i64)>)>", 16),
        ("!llvm.struct<(i8, i32)>", 8),
        ("!llvm.array<8 x f16>", 16),
        ("f8E4M3FNUZ", 1),
        ("vector<2x3xbf16>", 12),
    ],
)
def test_sizes_of_types(text: str, size: int) -> None:
    assert parse_type(text).size == size


def test_place_is_the_authors_innermost_line() -> None:
    text = (
        'loc(callsite("/usr/lib/python3.11/functools.py":388:19 at '
        'callsite("/home/a/site-packages/flydsl/expr/typing.py":5:1 at "/home/a/kernel.py":64:17)))'
    )

    place = parse_place(text)

    assert (place.file, place.line) == ("/home/a/kernel.py", 64)
    assert place.chain == ("/home/a/kernel.py:64",)


def test_vector_reads_at_a_position_of_each_lane() -> None:
    run = build("vector.extract", ["vector<4xi32>", "index"], "i32", static_position=(-(2**63),))
    values = torch.arange(8, dtype=torch.int32).reshape(1, 2, 4)

    assert run(values, torch.tensor([[1, 3]])).tolist() == [[1, 7]]


def test_constant_of_a_narrow_float_is_its_code() -> None:
    mtype = "f8E4M3FNUZ"

    assert build("arith.constant", [], mtype, value=1.0)() == 0x40
    assert MType("float", mtype, 8) == parse_type(mtype)


@pytest.mark.parametrize("name", ["math.clampf", "rocdl.fmed3"])
def test_clamped_nan_becomes_the_lower_bound(name: str) -> None:
    values = as_lanes([float("nan"), -3.0, 0.25, float("inf"), float("-inf")], "f32")
    got = build(name, ["f32", "f32", "f32"], "f32")(values, -1.0, 1.0)
    assert got[0].tolist() == [-1.0, -1.0, 0.25, 1.0, -1.0]


def test_rounding_takes_halves_away_from_zero_and_nothing_below_them() -> None:
    below = struct.unpack("f", struct.pack("f", 0.49999997))[0]
    values = as_lanes([0.5, -0.5, below, -below, 2.5, -2.5, 8388609.0, float("inf")], "f32")
    got = build("math.round", ["f32"], "f32")(values)
    assert got[0].tolist() == [1.0, -1.0, 0.0, 0.0, 3.0, -3.0, 8388609.0, float("inf")]
    zeros = build("math.round", ["f32"], "f32")(as_lanes([-0.0, -below], "f32"))
    assert torch.signbit(zeros).all()
