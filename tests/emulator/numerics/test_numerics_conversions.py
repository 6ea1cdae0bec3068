from __future__ import annotations

import math
from fractions import Fraction

import numerics_exact as exact
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernel_lint.emulator.numerics import conversions as cvt
from kernel_lint.emulator.numerics.formats import (
    BF8_E5M2,
    BF16,
    F16,
    FORMATS,
    FP4_E2M1,
    FP8_E4M3,
    FP8_E4M3_FNUZ,
    decode,
)
from kernel_lint.emulator.numerics.packing import (
    extract_field,
    insert_field,
    joint_shape,
    pack_codes,
    unpack_codes,
)

words = st.integers(-(2**31), 2**31 - 1)
floats32 = st.floats(width=32, allow_nan=False, allow_infinity=False)


def word(value: int) -> torch.Tensor:
    return torch.tensor([value], dtype=torch.int32)


def number(value: float) -> torch.Tensor:
    return torch.tensor([value], dtype=torch.float32)


@given(old=words, field=st.integers(0, 255), byte=st.integers(0, 3))
def test_a_field_replaces_its_bits_and_no_others(old: int, field: int, byte: int) -> None:
    result = insert_field(word(old), torch.tensor([field], dtype=torch.uint8), byte * 8, 8)
    expected = (old % 2**32) & ~(0xFF << byte * 8) | field << byte * 8
    assert int(result) % 2**32 == expected
    assert int(extract_field(result, byte * 8, 8)) == field


@pytest.mark.parametrize("width", [4, 6, 8])
def test_items_are_packed_little_endian_across_registers(width: int) -> None:
    codes = (torch.arange(32) * 7 + 3) % (1 << width)
    registers = pack_codes(codes, width)
    assert registers.dtype == torch.int32
    assert registers.shape == (width,)
    whole = sum((int(register) % 2**32) << (32 * i) for i, register in enumerate(registers))
    assert [(whole >> (width * i)) % (1 << width) for i in range(32)] == codes.tolist()
    assert unpack_codes(registers, width, 32).tolist() == codes.tolist()


def test_too_few_registers_are_refused() -> None:
    with pytest.raises(ValueError, match="fewer than 32 items"):
        unpack_codes(torch.zeros(2, 4, dtype=torch.int32), 8, 32)


def test_shapes_broadcast_or_are_refused() -> None:
    assert joint_shape((3, 1), (1, 5), (5,)) == (3, 5)
    with pytest.raises(ValueError, match="broadcast"):
        joint_shape((3,), (2,))


@given(a=floats32, b=floats32, old=words, high=st.booleans())
def test_packing_two_fp8_keeps_the_other_half(a: float, b: float, old: int, high: bool) -> None:
    result = int(cvt.cvt_pk_f8_f32(number(a), number(b), word(old), high, FP8_E4M3_FNUZ)) % 2**32
    half = exact.nearest_even("fp8_e4m3fnuz", a) | exact.nearest_even("fp8_e4m3fnuz", b) << 8
    kept = old % 2**32
    assert result == ((kept & 0xFFFF) | half << 16 if high else (kept & 0xFFFF0000) | half)


def test_unpacking_fp8_takes_the_chosen_bytes() -> None:
    source = word(0x48403830)
    assert cvt.cvt_pk_f32_f8(source, False, FP8_E4M3).tolist() == [[0.5, 1.0]]
    assert cvt.cvt_pk_f32_f8(source, True, FP8_E4M3).tolist() == [[2.0, 4.0]]
    assert [float(cvt.cvt_f32_f8(source, byte, FP8_E4M3)) for byte in range(4)] == [0.5, 1.0, 2.0, 4.0]


@pytest.mark.parametrize("byte", range(4))
def test_stochastic_fp8_writes_one_byte(byte: int) -> None:
    result = cvt.cvt_sr_f8_f32(number(1.0), word(0), word(-1), byte, BF8_E5M2)
    assert int(result) % 2**32 == 0xFFFFFFFF & ~(0xFF << 8 * byte) | 0x3C << 8 * byte


@pytest.mark.parametrize(("fmt", "bit"), [(FP8_E4M3, 12), (BF8_E5M2, 11)])
def test_stochastic_fp8_adds_the_random_bits_that_the_isa_names(fmt: object, bit: int) -> None:
    """One bit short of a carry: the lowest named random bit carries, the one below does not."""
    assert fmt in (FP8_E4M3, BF8_E5M2)
    dropped = 32 - bit
    value = 1.0 + ((1 << dropped) - 1) * 2.0**-23
    low = cvt.cvt_sr_f8_f32(number(value), word(1 << (bit - 1)), word(0), 0, fmt)  # type: ignore[arg-type]
    up = cvt.cvt_sr_f8_f32(number(value), word(1 << bit), word(0), 0, fmt)  # type: ignore[arg-type]
    assert int(up) == int(low) + 1


def test_pkrtz_truncates_and_never_overflows_to_infinity() -> None:
    first, second = torch.tensor([2049.9, -70000.0, math.inf]), torch.tensor([-0.1, 6.1e-8, math.nan])
    result = cvt.cvt_pkrtz(first, second)
    assert result.dtype == torch.float16
    assert result[:, 0].tolist() == [2048.0, -65504.0, math.inf]
    assert float(result[0, 1]) == -0.0999755859375
    assert float(result[1, 1]) == 2.0**-24
    assert result[2, 1].isnan()


@given(a=floats32, b=floats32)
def test_packing_two_bf16_puts_the_first_in_the_low_half(a: float, b: float) -> None:
    result = int(cvt.cvt_pk_16_f32(number(a), number(b), BF16)) % 2**32
    assert result == exact.nearest_even("bf16", a) | exact.nearest_even("bf16", b) << 16


def test_stochastic_bf16_keeps_the_other_half() -> None:
    value = number(1.0 + 2.0**-8)
    down = cvt.cvt_sr_16_f32(value, word(0), word(0x12345678), False, BF16)
    up = cvt.cvt_sr_16_f32(value, word(-1), word(0x12345678), True, BF16)
    assert [int(down), int(up)] == [0x12343F80, 0x3F815678]


def test_cvt_off_is_the_signed_nibble_over_sixteen() -> None:
    table = [float(cvt.cvt_off_f32_i4(word(nibble << 8), 1)) for nibble in range(16)]
    assert table == [n / 16 for n in range(8)] + [n / 16 for n in range(-8, 0)]


@given(state=words)
def test_the_random_generator_is_a_shift_register_with_taps_c5(state: int) -> None:
    unsigned = state % 2**32
    expected = (unsigned << 1) % 2**32 ^ (0xC5 if unsigned >> 31 else 0)
    assert int(cvt.prng(word(state))) % 2**32 == expected


NARROW = sorted(name for name, spec in cvt.SCALED_CONVERSIONS.items() if spec.narrows and not spec.stochastic)
WIDEN = sorted(name for name, spec in cvt.SCALED_CONVERSIONS.items() if not spec.narrows)
STOCHASTIC = sorted(name for name, spec in cvt.SCALED_CONVERSIONS.items() if spec.stochastic)


@pytest.mark.parametrize("name", NARROW)
def test_narrowing_divides_by_the_exponent_of_the_scale_and_rounds_once(name: str) -> None:
    spec = cvt.SCALED_CONVERSIONS[name]
    dtype = {None: torch.float32, F16: torch.float16, BF16: torch.bfloat16}[spec.source]
    generator = torch.Generator().manual_seed(5)
    values = (torch.randn(16, spec.count, generator=generator) * 8).to(dtype)
    scale = torch.tensor([1.0, 3.0, 0.25, 0.0] * 4)
    codes = cvt.narrow_scaled(spec, values, scale)
    for row in range(16):
        power = {1.0: 0, 3.0: 1, 0.25: -2, 0.0: -127}[float(scale[row])]
        for value, code in zip(values[row].tolist(), codes[row].tolist(), strict=True):
            scaled = Fraction(value) / Fraction(2) ** power
            assert code == exact.nearest_even(spec.small.name, float(scaled)), (value, power)


@pytest.mark.parametrize("name", WIDEN)
def test_widening_multiplies_by_the_exponent_of_the_scale(name: str) -> None:
    spec = cvt.SCALED_CONVERSIONS[name]
    codes = torch.arange(1 << spec.small.bits, dtype=torch.int64).reshape(-1, 1).expand(-1, spec.count)
    values = cvt.widen_scaled(spec, codes, torch.full((codes.shape[0],), 0.75))
    assert values.dtype == {None: torch.float32, F16: torch.float16, BF16: torch.bfloat16}[spec.target]
    expected = decode(codes, spec.small) * 0.5
    assert torch.equal(values.float().nan_to_num(nan=1e30), expected.nan_to_num(nan=1e30))


def test_a_widened_product_past_float16_is_infinite() -> None:
    spec = cvt.SCALED_CONVERSIONS["cvt.scalef32.pk.f16.fp4"]
    assert cvt.widen_scaled(spec, torch.tensor([[6, 14]]), torch.tensor([2.0**14])).tolist() == [
        [math.inf, -math.inf]
    ]


@pytest.mark.parametrize("name", STOCHASTIC)
def test_stochastic_narrowing_steps_its_generator_from_item_to_item(name: str) -> None:
    spec = cvt.SCALED_CONVERSIONS[name]
    dtype = {None: torch.float32, F16: torch.float16, BF16: torch.bfloat16}[spec.source]
    values = torch.full((1, spec.count), 2.0 * 1.0390625, dtype=dtype)
    codes = cvt.narrow_scaled(spec, values, torch.tensor([2.0]), random=word(0x12345678))
    state = 0x12345678
    for code in codes[0].tolist():
        below, above = exact.neighbours(spec.small.name, Fraction(float(values[0, 0])) / 2)
        low, high = exact.LADDERS[spec.small.name][below], exact.LADDERS[spec.small.name][above]
        gap = (Fraction(float(values[0, 0])) / 2 - low) / (high - low)
        assert code == (above if gap + Fraction(state, 2**32) >= 1 else below)
        state = (state << 1) % 2**32 ^ (0xC5 if state >> 31 else 0)


def test_stochastic_narrowing_without_random_bits_is_refused() -> None:
    spec = cvt.SCALED_CONVERSIONS["cvt.scalef32.sr.fp8.f32"]
    with pytest.raises(ValueError, match="random"):
        cvt.narrow_scaled(spec, torch.zeros(1, 1), torch.ones(1))


def test_a_scale_that_is_not_a_number_gives_none() -> None:
    spec = cvt.SCALED_CONVERSIONS["cvt.scalef32.pk.fp8.f32"]
    assert cvt.narrow_scaled(spec, torch.ones(1, 2), torch.tensor([math.inf])).tolist() == [[0x7F, 0x7F]]


def test_two_sources_alternate() -> None:
    first, second = torch.arange(16.0), torch.arange(16.0) + 100
    spec = cvt.SCALED_CONVERSIONS["cvt.scalef32.2xpk16.fp6.f32"]
    assert spec.interleaved
    assert cvt.interleave(first, second)[:4].tolist() == [0.0, 100.0, 1.0, 101.0]


def test_four_fp4_pairs_build_one_register() -> None:
    """The chain of calls by which FlyDSL's kernels fill a register."""
    spec = cvt.SCALED_CONVERSIONS["cvt.scalef32.pk.fp4.f32"]
    register = word(0)
    for slot, pair in enumerate([(0.5, 1.0), (1.5, 2.0), (3.0, 4.0), (6.0, -6.0)]):
        codes = cvt.narrow_scaled(spec, torch.tensor([pair]), torch.ones(1))
        register = insert_field(register, codes[..., 0] | (codes[..., 1] << 4), slot * 8, 8)
    assert int(register) % 2**32 == 0xF7654321
    assert FORMATS["fp4_e2m1"] is FP4_E2M1
