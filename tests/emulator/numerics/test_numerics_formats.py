from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numerics_exact as exact
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernel_lint.emulator.numerics.formats import (
    FORMATS,
    FloatFormat,
    Rounding,
    decode,
    decode_e8m0,
    encode,
    fp8_formats,
    pack_int4,
    unpack_int4,
)

NAMES = sorted(FORMATS)
TORCH = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "fp8_e4m3": torch.float8_e4m3fn,
    "fp8_e4m3fnuz": torch.float8_e4m3fnuz,
    "bf8_e5m2": torch.float8_e5m2,
    "bf8_e5m2fnuz": torch.float8_e5m2fnuz,
}
formats = st.sampled_from(NAMES).map(FORMATS.__getitem__)
floats32 = st.floats(width=32, allow_nan=False, allow_infinity=False)


def all_codes(fmt: FloatFormat) -> torch.Tensor:
    return torch.arange(1 << fmt.bits).to(fmt.storage)


def code_of(bits: torch.Tensor, fmt: FloatFormat) -> int:
    return int(bits) & ((1 << fmt.bits) - 1)


def encode_one(value: float, fmt: FloatFormat, **options: object) -> int:
    return code_of(encode(torch.tensor([value], dtype=torch.float32), fmt, **options), fmt)  # type: ignore[arg-type]


def finite_codes(fmt: FloatFormat) -> list[int]:
    last = exact.FIELDS[fmt.name][3]
    codes = [code | sign for sign in (0, fmt.sign_bit) for code in range(last + 1)]
    return [code for code in codes if not (fmt.name in exact.FNUZ and code == fmt.sign_bit)]


@pytest.mark.parametrize("name", NAMES)
def test_every_finite_code_decodes_to_the_value_in_the_table(name: str) -> None:
    fmt = FORMATS[name]
    values = decode(all_codes(fmt), fmt).tolist()
    for code in finite_codes(fmt):
        expected = float(exact.LADDERS[name][code & (fmt.sign_bit - 1)])
        assert values[code] == (-expected if code & fmt.sign_bit else expected)


@pytest.mark.parametrize("name", NAMES)
def test_all_other_codes_are_infinite_or_not_a_number(name: str) -> None:
    fmt = FORMATS[name]
    values = decode(all_codes(fmt), fmt)
    special = set(range(1 << fmt.bits)) - set(finite_codes(fmt))
    infinite = {code for code in special if math.isinf(values[code])}
    has_infinity = name in ("f16", "bf16", "bf8_e5m2")
    assert infinite == (
        {exact.OVERFLOW[name], exact.OVERFLOW[name] | fmt.sign_bit} if has_infinity else set()
    )
    assert all(math.isnan(values[code]) for code in special - infinite)


@pytest.mark.parametrize("name", sorted(TORCH))
def test_decoding_agrees_with_torch_over_every_code(name: str) -> None:
    codes = all_codes(FORMATS[name])
    assert torch.equal(
        decode(codes, FORMATS[name]).nan_to_num(nan=12345.0),
        codes.view(TORCH[name]).to(torch.float32).nan_to_num(nan=12345.0),
    )


@pytest.mark.parametrize("name", NAMES)
def test_finite_codes_survive_a_round_trip(name: str) -> None:
    fmt = FORMATS[name]
    codes = torch.tensor(finite_codes(fmt)).to(fmt.storage)
    assert torch.equal(encode(decode(codes, fmt), fmt), codes)


@pytest.mark.parametrize("name", [name for name in NAMES if exact.width(name) <= 8])
def test_small_formats_round_every_midpoint_and_its_neighbours_to_nearest_even(name: str) -> None:
    steps = [*exact.LADDERS[name], exact.step_above_last(name)]
    values: list[float] = []
    for low, high in pairwise(steps):
        middle = torch.tensor(float((low + high) / 2))
        for target in (math.inf, -math.inf):
            values.append(float(torch.nextafter(middle, torch.tensor(target))))
        values += [float(middle), float(low), float(high)]
    values += [-value for value in values]
    codes = encode(torch.tensor(values), FORMATS[name])
    assert [code_of(code, FORMATS[name]) for code in codes] == [exact.nearest_even(name, v) for v in values]


@given(fmt=formats, value=floats32, saturate=st.booleans())
def test_rounding_is_nearest_even_in_rational_arithmetic(
    fmt: FloatFormat, value: float, saturate: bool
) -> None:
    assert encode_one(value, fmt, saturate=saturate) == exact.nearest_even(fmt.name, value, saturate=saturate)


@given(fmt=formats, value=st.floats(allow_nan=False, allow_infinity=False))
def test_float64_is_rounded_once(fmt: FloatFormat, value: float) -> None:
    code = encode(torch.tensor([value], dtype=torch.float64), fmt)
    assert code_of(code, fmt) == exact.nearest_even(fmt.name, value)


@given(fmt=formats, first=floats32, second=floats32, saturate=st.booleans())
def test_encoding_keeps_the_order(fmt: FloatFormat, first: float, second: float, saturate: bool) -> None:
    low, high = sorted((first, second))
    pair = decode(encode(torch.tensor([low, high]), fmt, saturate=saturate), fmt)
    assert pair[0] <= pair[1] or pair.isnan().any()


@given(fmt=formats, value=floats32)
def test_truncation_takes_the_magnitude_below(fmt: FloatFormat, value: float) -> None:
    below, _ = exact.neighbours(fmt.name, Fraction(value))
    expected = exact.sign_code(fmt.name, below, math.copysign(1.0, value) < 0)
    assert encode_one(value, fmt, rounding=Rounding.TOWARD_ZERO) == expected


@given(fmt=formats, value=floats32, random=st.integers(-(2**31), 2**31 - 1))
def test_stochastic_rounding_goes_up_when_the_random_bits_exceed_the_gap(
    fmt: FloatFormat, value: float, random: int
) -> None:
    below, above = exact.neighbours(fmt.name, Fraction(value))
    last = exact.FIELDS[fmt.name][3]
    low = exact.LADDERS[fmt.name][below]
    high = exact.LADDERS[fmt.name][above] if above <= last else exact.step_above_last(fmt.name)
    if abs(Fraction(value)) >= exact.step_above_last(fmt.name):
        return  # past the last step every result is the overflow code, which another test covers
    # The dropped bits as a fraction of the gap, plus the random fraction: a whole gap carries.
    gap = (abs(Fraction(value)) - low) / (high - low) if above != below else Fraction(0)
    code = above if gap + Fraction(random % 2**32, 2**32) >= 1 else below
    code = code if code <= last else exact.OVERFLOW[fmt.name]
    bits = torch.tensor([random], dtype=torch.int32)
    got = encode_one(value, fmt, rounding=Rounding.STOCHASTIC, random=bits)
    assert got == exact.sign_code(fmt.name, code, math.copysign(1.0, value) < 0)


def test_stochastic_rounding_is_right_on_average() -> None:
    fmt = FORMATS["fp8_e4m3"]
    randoms = (torch.arange(4096, dtype=torch.int64) << 20).to(torch.int32)
    values = torch.full((4096,), 1.0 + 0.3 * 0.125)
    mean = decode(encode(values, fmt, Rounding.STOCHASTIC, random=randoms), fmt).double().mean()
    assert abs(mean - (1.0 + 0.3 * 0.125)) < 0.125 / 4096


@pytest.mark.parametrize(
    ("name", "plain", "clamped"),
    [
        ("fp8_e4m3", (0x7F, 0xFF, 0x7F, 0x7E), (0x7E, 0xFE, 0x7E, 0x7E)),
        ("fp8_e4m3fnuz", (0x80, 0x80, 0x80, 0x80), (0x7F, 0xFF, 0x7F, 0x7F)),
        ("bf8_e5m2", (0x7C, 0xFC, 0x7C, 0x5F), (0x7B, 0xFB, 0x7B, 0x5F)),
        ("bf8_e5m2fnuz", (0x80, 0x80, 0x80, 0x63), (0x7F, 0xFF, 0x7F, 0x63)),
        ("fp6_e2m3", (0x1F, 0x3F, 0x1F, 0x1F), (0x1F, 0x3F, 0x1F, 0x1F)),
        ("fp4_e2m1", (0x7, 0xF, 0x7, 0x7), (0x7, 0xF, 0x7, 0x7)),
        ("f16", (0x7C00, 0xFC00, 0x7C00, 0x5F00), (0x7C00, 0xFC00, 0x7BFF, 0x5F00)),
    ],
)
def test_overflow_follows_the_fp16_ovfl_table(
    name: str, plain: tuple[int, ...], clamped: tuple[int, ...]
) -> None:
    values = (math.inf, -math.inf, 1e9, 448.0)
    assert tuple(encode_one(v, FORMATS[name]) for v in values) == plain
    assert tuple(encode_one(v, FORMATS[name], saturate=True) for v in values) == clamped


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("saturate", [False, True])
def test_nan_stays_nan_where_the_format_has_one(name: str, saturate: bool) -> None:
    fmt = FORMATS[name]
    back = decode(encode(torch.tensor([math.nan, -math.nan]), fmt, saturate=saturate), fmt)
    if name.startswith(("fp6", "fp4")):
        assert back.abs().tolist() == [fmt.max, fmt.max]
    else:
        assert back.isnan().all()


def test_shape_and_uniform_values_are_kept() -> None:
    codes = encode(torch.zeros(3, 1, 5), FORMATS["fp4_e2m1"])
    assert codes.shape == (3, 1, 5)
    assert decode(codes, FORMATS["fp4_e2m1"]).shape == (3, 1, 5)


def test_stochastic_rounding_without_random_bits_is_refused() -> None:
    with pytest.raises(ValueError, match="random"):
        encode(torch.zeros(1), FORMATS["bf16"], Rounding.STOCHASTIC)


def test_integers_are_not_encoded() -> None:
    with pytest.raises(ValueError, match="int32"):
        encode(torch.zeros(1, dtype=torch.int32), FORMATS["bf16"])


def test_block_scales_are_powers_of_two_around_127() -> None:
    scales = decode_e8m0(torch.arange(256))
    assert all(Fraction(float(scales[code])) == Fraction(2) ** (code - 127) for code in range(255))
    assert scales[255].isnan()


def test_the_target_decides_between_fnuz_and_ocp() -> None:
    assert [f.name for f in fp8_formats("gfx942")] == ["fp8_e4m3fnuz", "bf8_e5m2fnuz"]
    assert [f.name for f in fp8_formats("gfx950")] == ["fp8_e4m3", "bf8_e5m2"]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64])
def test_int4_unpacks_low_nibble_first(dtype: torch.dtype) -> None:
    word = torch.tensor([0x7F1], dtype=torch.int64).to(dtype)
    count = word.element_size() * 2
    assert unpack_int4(word, signed=True)[0, :3].tolist() == [1, -1, 7][: min(count, 3)]
    assert unpack_int4(word, signed=False)[0, :2].tolist() == [1, 15]


@given(nibbles=st.lists(st.integers(-8, 7), min_size=8, max_size=8))
def test_int4_survives_a_round_trip(nibbles: list[int]) -> None:
    packed = pack_int4(torch.tensor([nibbles]))
    assert packed.dtype == torch.int32
    assert unpack_int4(packed, signed=True).tolist() == [nibbles]
