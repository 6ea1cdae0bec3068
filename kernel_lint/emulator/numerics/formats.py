"""Small floating-point formats: bit patterns to numbers and back, as the AMD matrix and conversion units
read them.

Every function works on tensors of any shape and device. Bit patterns are integer tensors whose low bits
hold the code (torch.uint8 for formats of up to 8 bits, torch.int16 for f16 and bf16).

Sources, by the short names used in this package: [CDNA3] AMD Instinct MI300 Instruction Set Architecture,
section 7.2 (FNUZ formats, conversions, FP16_OVFL table). [CDNA4] AMD Instinct CDNA4 Instruction Set
Architecture, section 7.3, tables 30 to 32 and the FP16_OVFL table. [OFP8] OCP 8-bit Floating Point
Specification 1.0. [MX] OCP Microscaling Formats Specification 1.0, sections 5.3, 5.4.
"""

from __future__ import annotations

import enum
import functools
import math
from dataclasses import dataclass

import torch
from torch import Tensor


class NanRule(enum.Enum):
    """Which codes are not a number."""

    IEEE = "top exponent with a non-zero mantissa; top exponent with zero mantissa is infinity"
    ALL_ONES = "only S.1111.111, and there is no infinity"
    NEGATIVE_ZERO = "only the code of -0, so there is neither infinity nor -0"
    NONE = "every code is a finite number"


class Rounding(enum.Enum):
    """How a conversion discards bits."""

    NEAREST_EVEN = "nearest, ties to even"
    TOWARD_ZERO = "truncate"
    STOCHASTIC = "add random bits below the last place, then truncate"


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """One floating-point format.

    name: as used in this package. exponent_bits, mantissa_bits, bias: the fields. nan: see NanRule.
    source: the documents that define it.
    """

    name: str
    exponent_bits: int
    mantissa_bits: int
    bias: int
    nan: NanRule
    source: str

    @property
    def bits(self) -> int:
        """Width of a code in bits, sign included."""
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def sign_bit(self) -> int:
        """The code of -0 in formats that have one."""
        return 1 << (self.bits - 1)

    @property
    def max_code(self) -> int:
        """Code of the largest finite number."""
        top = self.sign_bit - 1
        if self.nan is NanRule.IEEE:
            return top - (1 << self.mantissa_bits)
        return top - 1 if self.nan is NanRule.ALL_ONES else top

    @property
    def overflow_code(self) -> int:
        """Code without sign that a non-saturating conversion gives past the largest finite number.

        Infinity where there is one, else NaN, else (FP6, FP4: [CDNA4] 7.3) the largest finite number.
        """
        if self.nan is NanRule.NEGATIVE_ZERO:
            return self.sign_bit
        return self.max_code + (0 if self.nan is NanRule.NONE else 1)

    @property
    def nan_code(self) -> int:
        """Code, without sign, that stands for NaN; formats without one give the largest finite number.

        The documents leave NaN to FP6 and FP4 open ([MX] 5.3: implementation-defined); AMD's own
        emulator (rocm-systems, rocjitsu util/data_types.h) gives the largest magnitude with the sign kept.
        """
        if self.nan is NanRule.IEEE:
            return self.max_code + 1 + (1 << (self.mantissa_bits - 1))
        return self.overflow_code

    @property
    def max(self) -> float:
        """The largest finite number."""
        mantissa = self.max_code & ((1 << self.mantissa_bits) - 1)
        exponent = (self.max_code >> self.mantissa_bits) - self.bias
        return (1 + mantissa / (1 << self.mantissa_bits)) * 2.0**exponent

    @property
    def storage(self) -> torch.dtype:
        """Integer dtype that this package keeps codes in."""
        return torch.int16 if self.bits == 16 else torch.uint8


F16 = FloatFormat("f16", 5, 10, 15, NanRule.IEEE, "IEEE 754 binary16; [CDNA4] table 30")
BF16 = FloatFormat("bf16", 8, 7, 127, NanRule.IEEE, "upper half of binary32; [CDNA4] 7.3")
FP8_E4M3 = FloatFormat("fp8_e4m3", 4, 3, 7, NanRule.ALL_ONES, "[OFP8] table 1; [CDNA4] table 30 (gfx950)")
FP8_E4M3_FNUZ = FloatFormat("fp8_e4m3fnuz", 4, 3, 8, NanRule.NEGATIVE_ZERO, "[CDNA3] 7.2 (gfx942)")
BF8_E5M2 = FloatFormat("bf8_e5m2", 5, 2, 15, NanRule.IEEE, "[OFP8] table 1; [CDNA4] table 30 (gfx950)")
BF8_E5M2_FNUZ = FloatFormat("bf8_e5m2fnuz", 5, 2, 16, NanRule.NEGATIVE_ZERO, "[CDNA3] 7.2 (gfx942)")
FP6_E2M3 = FloatFormat("fp6_e2m3", 2, 3, 1, NanRule.NONE, "[MX] 5.3.2; [CDNA4] table 30")
BF6_E3M2 = FloatFormat("fp6_e3m2", 3, 2, 3, NanRule.NONE, "[MX] 5.3.2; [CDNA4] table 30")
FP4_E2M1 = FloatFormat("fp4_e2m1", 2, 1, 1, NanRule.NONE, "[MX] 5.3.3; [CDNA4] table 30")

FORMATS: dict[str, FloatFormat] = {
    f.name: f
    for f in (
        F16,
        BF16,
        FP8_E4M3,
        FP8_E4M3_FNUZ,
        BF8_E5M2,
        BF8_E5M2_FNUZ,
        FP6_E2M3,
        BF6_E3M2,
        FP4_E2M1,
    )
}

_TORCH_DTYPES: dict[FloatFormat, torch.dtype] = {
    F16: torch.float16,
    BF16: torch.bfloat16,
    FP8_E4M3: torch.float8_e4m3fn,
    FP8_E4M3_FNUZ: torch.float8_e4m3fnuz,
    BF8_E5M2: torch.float8_e5m2,
    BF8_E5M2_FNUZ: torch.float8_e5m2fnuz,
}
"""torch's dtypes decode these formats exactly (tested over every code); NaN payloads aside they also encode
them to nearest even as the hardware does, but for overflow of e4m3fn (see _encode_fast).
"""


def fp8_formats(gfx: str) -> tuple[FloatFormat, FloatFormat]:
    """The (FP8, BF8) pair that a GPU's fp8 instructions mean: FNUZ on gfx940 to gfx942, OCP from gfx950 on.

    Source: [CDNA3] 7.2 against [CDNA4] table 30; LLVM AMDGPU's feature fp8-conversion-insts.
    """
    fnuz = gfx in ("gfx940", "gfx941", "gfx942")
    return (FP8_E4M3_FNUZ, BF8_E5M2_FNUZ) if fnuz else (FP8_E4M3, BF8_E5M2)


def _value(code: int, fmt: FloatFormat) -> float:
    sign = -1.0 if code & fmt.sign_bit else 1.0
    magnitude = code & (fmt.sign_bit - 1)
    if fmt.nan is NanRule.NEGATIVE_ZERO and code == fmt.sign_bit:
        return math.nan
    if magnitude > fmt.max_code:
        infinite = fmt.nan is NanRule.IEEE and magnitude == fmt.overflow_code
        return sign * math.inf if infinite else math.nan
    exponent, mantissa = divmod(magnitude, 1 << fmt.mantissa_bits)
    implicit = 0 if exponent == 0 else 1 << fmt.mantissa_bits
    return sign * (implicit + mantissa) * 2.0 ** (max(exponent, 1) - fmt.bias - fmt.mantissa_bits)


@functools.lru_cache(maxsize=64)
def _table(fmt: FloatFormat, device: torch.device) -> Tensor:
    values = [_value(code, fmt) for code in range(1 << fmt.bits)]
    return torch.tensor(values, dtype=torch.float32, device=device)


def decode(bits: Tensor, fmt: FloatFormat) -> Tensor:
    """Numbers (float32, same shape) that the low fmt.bits bits of an integer tensor stand for.

    Exact: every value of every format here is a float32. NaN becomes a quiet NaN of unspecified payload.
    """
    dtype = _TORCH_DTYPES.get(fmt)
    if dtype is not None and fmt.bits == 16:
        return bits.to(torch.int16).view(dtype).to(torch.float32)
    # A table beats torch's own float8 cast threefold on a CPU.
    index = bits.reshape(-1).to(torch.int32) & ((1 << fmt.bits) - 1)
    return _table(fmt, bits.device).index_select(0, index).view(bits.shape)


def encode(
    values: Tensor,
    fmt: FloatFormat,
    rounding: Rounding = Rounding.NEAREST_EVEN,
    *,
    saturate: bool = False,
    random: Tensor | None = None,
) -> Tensor:
    """Codes (fmt.storage, same shape) of float32 or float64 values, rounded once.

    Denormal results are kept ([CDNA4] 7.3: F4, F6, F8 allow denormals whatever MODE says). Past the largest
    finite number, after rounding: the largest finite number when saturate (MODE.FP16_OVFL = 1; infinity
    goes there too for FP8 and BF8 by the FP16_OVFL table of [CDNA4] 7.3, but stays infinite for f16 and
    bf16), else infinity or NaN; FP6 and FP4 always saturate; truncation never leaves the finite range. NaN
    stays NaN with its sign where the format has one; its payload is unspecified for 16-bit formats.
    Stochastic rounding takes the value as float32, adds the top bits of `random` (int32) below the last
    place and truncates ([CDNA4] 7.3 prose; S1[31:12] for FP8, S1[31:11] for BF8 in V_CVT_SR_*). Raises
    ValueError when the source dtype is neither float32 nor float64, or random bits are missing.
    """
    if values.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"encode takes float32 or float64, not {values.dtype}")
    if rounding is Rounding.STOCHASTIC and random is None:
        raise ValueError("stochastic rounding needs the random operand")
    if rounding is Rounding.STOCHASTIC:
        # Random bits reach 32 places down: float32 leaves room for them below the last place, float64 does
        # not.
        values = values.to(torch.float32)
    if rounding is Rounding.NEAREST_EVEN and values.dtype is torch.float32:
        fast = _encode_fast(values, fmt, saturate)
        if fast is not None:
            return fast
    source, sign, magnitude = _split(values)
    code = _round(magnitude, source, fmt, rounding, random)
    return _finish(code, values, sign, fmt, saturate, rounding)


def _encode_fast(values: Tensor, fmt: FloatFormat, saturate: bool) -> Tensor | None:
    """Round float32 to nearest even by torch's own cast or by a table; None where neither applies."""
    dtype = _TORCH_DTYPES.get(fmt)
    if fmt.bits == 16:
        return None if saturate or dtype is None else values.to(dtype).view(fmt.storage)
    if dtype is not None and saturate:
        return values.clamp(-fmt.max, fmt.max).to(dtype).view(fmt.storage)
    # torch 2.13 saturates e4m3fn and older releases do not: the table does not depend on the release.
    if dtype is not None and fmt is not FP8_E4M3:
        return values.to(dtype).view(fmt.storage)
    bits = values.contiguous().view(torch.int32)
    key = ((bits >> 16) & 0xFFFF) | ((bits & 0xFFFF) != 0)
    return _encoding_table(fmt, values.device).index_select(0, key.view(-1)).view(values.shape)


@functools.lru_cache(maxsize=32)
def _encoding_table(fmt: FloatFormat, device: torch.device) -> Tensor:
    """Codes by the upper half of a float32 whose last bit also stands for the lower half not being zero.

    Enough for at most 4 bits of mantissa: every tie between two codes has its last one well above that bit.
    """
    keys = torch.arange(1 << 16, dtype=torch.int64, device=device)
    values = (keys << 16).to(torch.int32).view(torch.float32)
    source, sign, magnitude = _split(values)
    code = _round(magnitude, source, fmt, Rounding.NEAREST_EVEN, None)
    return _finish(code, values, sign, fmt, False, Rounding.NEAREST_EVEN)


def _split(values: Tensor) -> tuple[FloatFormat, Tensor, Tensor]:
    """The source format, and per value the sign (0 or 1) and the remaining bits, as int64."""
    if values.dtype is torch.float64:
        bits = values.contiguous().view(torch.int64)
        return _F64, (bits < 0).to(torch.int64), bits & 0x7FFFFFFFFFFFFFFF
    bits = values.contiguous().view(torch.int32).to(torch.int64)
    return _F32, (bits < 0).to(torch.int64), bits & 0x7FFFFFFF


_F32 = FloatFormat("f32", 8, 23, 127, NanRule.IEEE, "IEEE 754 binary32")
_F64 = FloatFormat("f64", 11, 52, 1023, NanRule.IEEE, "IEEE 754 binary64")


def _round(
    magnitude: Tensor, source: FloatFormat, fmt: FloatFormat, rounding: Rounding, random: Tensor | None
) -> Tensor:
    """Code without sign, unbounded above: a carry out of the mantissa walks into the exponent by itself."""
    field = magnitude >> source.mantissa_bits
    mantissa = magnitude & ((1 << source.mantissa_bits) - 1)
    significand = torch.where(field == 0, mantissa, mantissa | (1 << source.mantissa_bits))
    exponent = field.clamp(min=1) - source.bias + fmt.bias
    target = exponent.clamp(min=1)
    wanted = source.mantissa_bits - fmt.mantissa_bits + target - exponent
    # A significand has at most 53 bits: past 60 it is 0 either way, and the shift stays defined.
    significand = torch.where(wanted > 60, 0, significand)
    shift = wanted.clamp(max=60)
    if rounding is Rounding.NEAREST_EVEN:
        half = (torch.ones_like(shift) << shift) >> 1
        odd = (significand >> shift) & 1
        significand = significand + half - 1 + odd
    elif rounding is Rounding.STOCHASTIC:
        assert random is not None
        entropy = random.to(torch.int64) & 0xFFFFFFFF
        significand = significand + torch.where(shift <= 32, entropy >> (32 - shift).clamp(min=0), 0)
        far = torch.where(shift > 32, entropy << (shift - 32).clamp(min=0, max=28), 0)
        significand = significand + far
    return ((target - 1) << fmt.mantissa_bits) + (significand >> shift)


def _finish(
    code: Tensor, values: Tensor, sign: Tensor, fmt: FloatFormat, saturate: bool, rounding: Rounding
) -> Tensor:
    """Overflow, infinity, NaN and sign."""
    keeps_infinity = fmt.bits == 16
    clamp = saturate or fmt.nan is NanRule.NONE or rounding is Rounding.TOWARD_ZERO
    beyond = fmt.max_code if clamp else fmt.overflow_code
    code = torch.where(code > fmt.max_code, beyond, code)
    infinite = fmt.overflow_code if keeps_infinity or not saturate else fmt.max_code
    code = torch.where(values.isinf(), infinite, code)
    code = torch.where(values.isnan(), fmt.nan_code, code)
    if fmt.nan is NanRule.NEGATIVE_ZERO:
        signed = torch.where((code == 0) | (code == fmt.sign_bit), code, code | (sign << (fmt.bits - 1)))
    else:
        signed = code | (sign << (fmt.bits - 1))
    # int64 to int16 keeps the low 16 bits, which is what a code above 0x7FFF needs.
    return signed.to(fmt.storage)


def decode_e8m0(bits: Tensor) -> Tensor:
    """Scales (float64, same shape) of E8M0 codes in the low 8 bits: 2^(code - 127), and NaN for 0xFF.

    Source: [MX] 5.4.1; [CDNA4] 7.2 (bias 127, 0xFF is NaN). Code 0 is 2^-127, not zero.
    """
    code = bits.to(torch.int64) & 0xFF
    scale = torch.ldexp(
        torch.ones((), dtype=torch.float64, device=bits.device), (code - 127).to(torch.float64)
    )
    return torch.where(code == 0xFF, math.nan, scale)


def unpack_int4(packed: Tensor, *, signed: bool) -> Tensor:
    """The nibbles of each integer, low nibble first, as int8 in a new last dimension of element_size * 2.

    Source: [CDNA4] 7.1.4 (4-bit items: item 0 in bits 3:0). Signed nibbles are two's complement.
    """
    shifts = torch.arange(0, packed.element_size() * 8, 4, device=packed.device, dtype=torch.int64)
    nibbles = (packed.to(torch.int64).unsqueeze(-1) >> shifts) & 0xF
    return ((nibbles ^ 8) - 8 if signed else nibbles).to(torch.int8)


def pack_int4(values: Tensor, dtype: torch.dtype = torch.int32) -> Tensor:
    """The inverse of unpack_int4: the low nibbles of the last dimension, joined into one integer of
    `dtype`.
    """
    shifts = torch.arange(values.shape[-1], device=values.device, dtype=torch.int64) * 4
    return ((values.to(torch.int64) & 0xF) << shifts).sum(-1).to(dtype)
