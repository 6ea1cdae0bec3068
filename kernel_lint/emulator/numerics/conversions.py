"""The conversion instructions of gfx942 and gfx950 on tensors of registers.

Each function is one instruction family; the short names of its sources are explained in formats.py.
`saturate` is MODE.FP16_OVFL, 0 unless a kernel sets it (LLVM AMDGPUUsage, compute_pgm_rsrc1: FP16_OVFL is
disabled by default).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kernel_lint.emulator.numerics.formats import (
    BF6_E3M2,
    BF8_E5M2,
    BF16,
    F16,
    FP4_E2M1,
    FP6_E2M3,
    FP8_E4M3,
    FloatFormat,
    Rounding,
    decode,
    encode,
)
from kernel_lint.emulator.numerics.packing import extract_field, insert_field


def cvt_pk_f8_f32(
    a: Tensor, b: Tensor, old: Tensor, high: bool, fmt: FloatFormat, *, saturate: bool = False
) -> Tensor:
    """rocdl.cvt.pk.fp8.f32 and .bf8.f32: two float32 to nearest even into one half of the register `old`
    (int32).

    a goes to the lower byte of the half; the other half is kept. fmt: see formats.fp8_formats.
    Source: V_CVT_PK_FP8_F32 in [CDNA4] chapter 13; Op_Sel[3] chooses the half ([CDNA4] table 31).
    """
    low = encode(a, fmt, saturate=saturate).to(torch.int32)
    top = encode(b, fmt, saturate=saturate).to(torch.int32)
    return insert_field(old, low | (top << 8), 16 if high else 0, 16)


def cvt_sr_f8_f32(
    a: Tensor, random: Tensor, old: Tensor, byte: int, fmt: FloatFormat, *, saturate: bool = False
) -> Tensor:
    """rocdl.cvt.sr.fp8.f32 and .bf8.f32: one float32, stochastically, into byte 0 to 3 of `old` (int32).

    Source: V_CVT_SR_FP8_F32 in [CDNA4] chapter 13 adds S1[31:12] (BF8: S1[31:11]) to the mantissa; whether
    it then truncates (7.3, the prose, followed here) or rounds again (the pseudocode's MODE) the document
    leaves open.
    """
    code = encode(a, fmt, Rounding.STOCHASTIC, saturate=saturate, random=random)
    return insert_field(old, code, byte * 8, 8)


def cvt_f32_f8(src: Tensor, byte: int, fmt: FloatFormat) -> Tensor:
    """rocdl.cvt.f32.fp8 and .bf8: byte 0 to 3 of a register (int32) as float32, exactly ([CDNA4]
    V_CVT_F32_FP8).
    """
    return decode(extract_field(src, byte * 8, 8).to(torch.uint8), fmt)


def cvt_pk_f32_f8(src: Tensor, high: bool, fmt: FloatFormat) -> Tensor:
    """rocdl.cvt.pk.f32.fp8 and .bf8: the bytes of one half of a register as float32 [..., 2].

    Source: V_CVT_PK_F32_FP8 in [CDNA4] chapter 13 (SDWA WORD_1 selects the high half).
    """
    first = 2 if high else 0
    return torch.stack((cvt_f32_f8(src, first, fmt), cvt_f32_f8(src, first + 1, fmt)), dim=-1)


def cvt_pkrtz(a: Tensor, b: Tensor) -> Tensor:
    """rocdl.cvt.pkrtz: two float32 truncated to float16 [..., 2] ([CDNA4] V_CVT_PKRTZ_F16_F32).

    Truncation does not reach infinity: a finite overflow gives +-65504; infinity stays.
    """
    pair = torch.stack((a, b), dim=-1)
    return encode(pair, F16, Rounding.TOWARD_ZERO).view(torch.float16)


def cvt_pk_16_f32(a: Tensor, b: Tensor, fmt: FloatFormat) -> Tensor:
    """v_cvt_pk_bf16_f32 and v_cvt_pk_f16_f32 (gfx950): two float32 to nearest even into one int32, a in the
    low half.

    Source: [CDNA4] V_CVT_PK_BF16_F32: the round mode is forced to nearest even.
    """
    pair = torch.stack((encode(a, fmt), encode(b, fmt)), dim=-1)
    return pair.view(torch.int32).squeeze(-1)


def cvt_sr_16_f32(a: Tensor, random: Tensor, old: Tensor, high: bool, fmt: FloatFormat) -> Tensor:
    """llvm.amdgcn.cvt.sr.bf16.f32 and .f16.f32: one float32, stochastically, into a half of `old` (int32).

    The documents do not say which of the 32 random bits enter ([CDNA4] V_CVT_SR_BF16_F32 only names the
    function); the top ones do here, as they do in V_CVT_SR_FP8_F32. A kernel may rely on the distribution,
    not on the choice.
    """
    code = encode(a, fmt, Rounding.STOCHASTIC, random=random)
    return insert_field(old, code, 16 if high else 0, 16)


def cvt_off_f32_i4(src: Tensor, byte: int = 0) -> Tensor:
    """v_cvt_off_f32_i4 (SDWA byte `byte`): the signed low nibble over 16, so 0 to 0.4375 and -0.5 to -0.0625.

    Source: CVT_OFF_TABLE of V_CVT_OFF_F32_I4 in [CDNA3] and [CDNA4].
    """
    nibble = extract_field(src, byte * 8, 4)
    return ((nibble ^ 8) - 8).to(torch.float32) / 16.0


def prng(state: Tensor) -> Tensor:
    """v_prng_b32: the next state (int32) of the generator that multi-pass stochastic conversions step
    through.

    A Galois shift register with the taps 0xC5. Source: V_PRNG_B32 in [CDNA4] chapter 13.
    """
    return (state << 1) ^ torch.where(state < 0, 0xC5, 0).to(torch.int32)


@dataclass(frozen=True, slots=True)
class ScaledConversion:
    """One instruction of gfx950's V_CVT_SCALEF32_* family.

    name: as in MLIR, without "rocdl.". source, target: formats, None for float32. count: values converted.
    stochastic: takes random bits. interleaved: two sources whose values alternate in the result (2xpk16).
    Narrowing instructions divide by the scale, widening ones multiply.
    """

    name: str
    source: FloatFormat | None
    target: FloatFormat | None
    count: int
    stochastic: bool = False
    interleaved: bool = False

    @property
    def narrows(self) -> bool:
        """Whether the target is a small format, packed into registers, and the scale divides."""
        return self.target is not None and self.target.bits < 16

    @property
    def small(self) -> FloatFormat:
        """The format of at most 8 bits."""
        fmt = self.target if self.narrows else self.source
        assert fmt is not None
        return fmt


_SMALL = {"fp8": FP8_E4M3, "bf8": BF8_E5M2, "fp6": FP6_E2M3, "bf6": BF6_E3M2, "fp4": FP4_E2M1}
_LARGE: dict[str, FloatFormat | None] = {"f32": None, "f16": F16, "bf16": BF16}


def _family() -> dict[str, ScaledConversion]:
    """All of [CDNA4] table 32, under the names of MLIR's ROCDL dialect (ROCDLOps.td, "ROCDL_CvtScaleF32")."""
    table: list[ScaledConversion] = []
    prefix = "cvt.scalef32."
    for small_name, small in _SMALL.items():
        for large_name, large in _LARGE.items():
            pack = "pk32" if small.bits == 6 else "pk"
            count = 32 if small.bits == 6 else 2
            if small.bits == 6 and large is None:
                narrow = ScaledConversion(
                    f"{prefix}2xpk16.{small_name}.f32", None, small, 32, interleaved=True
                )
            else:
                narrow = ScaledConversion(f"{prefix}{pack}.{small_name}.{large_name}", large, small, count)
            widen = ScaledConversion(f"{prefix}{pack}.{large_name}.{small_name}", small, large, count)
            sr_pack = "" if small.bits == 8 else f"{pack}."
            sr_count = 1 if small.bits == 8 else count
            sr_name = f"{prefix}sr.{sr_pack}{small_name}.{large_name}"
            table += [narrow, widen, ScaledConversion(sr_name, large, small, sr_count, stochastic=True)]
            if small.bits == 8 and large is not BF16:
                table.append(ScaledConversion(f"{prefix}{large_name}.{small_name}", small, large, 1))
    return {spec.name: spec for spec in table}


SCALED_CONVERSIONS: dict[str, ScaledConversion] = _family()


def _scale_factor(scale: Tensor, *, inverse: bool) -> Tensor:
    """2^(e - 127), or its inverse, as float32 [..., 1], of the exponent field e of float32 scales; NaN for
    255.

    Only the exponent counts: scale = exponent(S2.f32) in every V_CVT_SCALEF32_* of [CDNA4] chapter 13, so a
    scale of 0.0 means 2^-127 and one of 1.5 means 1. Times such a factor a float32 is exact, or beyond every
    small format at either end.
    """
    exponent = (scale.contiguous().view(torch.int32) >> 23) & 0xFF
    field = 254 - exponent if inverse else exponent
    bits = torch.where(field == 0, 0x00400000, field << 23)
    bits = torch.where(exponent == 0xFF, 0x7FC00000, bits)
    return bits.to(torch.int32).view(torch.float32).unsqueeze(-1)


def narrow_scaled(
    spec: ScaledConversion,
    values: Tensor,
    scale: Tensor,
    *,
    random: Tensor | None = None,
    saturate: bool = False,
) -> Tensor:
    """Codes (uint8 [..., count]) of values / 2^exponent(scale), rounded once to the target.

    values: [..., count] float32, float16 or bfloat16, for 2xpk16 the two sources interleaved by the caller
    with interleave(). scale: float32 [...]. random: int32 [...], stepped by prng() from item to item when
    stochastic. FP6 and FP4 saturate always, FP8 and BF8 by `saturate` ([CDNA4] 7.3). Put codes into
    registers with packing.pack_codes (whole registers) or packing.insert_field (a byte or half of `old`).
    """
    assert spec.target is not None
    wide = values.to(torch.float32) * _scale_factor(scale, inverse=True)
    if not spec.stochastic:
        return encode(wide, spec.target, saturate=saturate)
    if random is None:
        raise ValueError(f"{spec.name} needs its random operand")
    states = [random]
    for _ in range(spec.count - 1):
        states.append(prng(states[-1]))
    return encode(
        wide, spec.target, Rounding.STOCHASTIC, saturate=saturate, random=torch.stack(states, dim=-1)
    )


def widen_scaled(spec: ScaledConversion, codes: Tensor, scale: Tensor) -> Tensor:
    """Values ([..., count]; float32, float16 or bfloat16 as the target) of codes * 2^exponent(scale),
    rounded once.

    codes: integer [..., count], from packing.unpack_codes or extract_field. scale: float32 [...].
    """
    assert spec.source is not None
    wide = decode(codes, spec.source) * _scale_factor(scale, inverse=False)
    if spec.target is None:
        return wide
    dtype = torch.float16 if spec.target is F16 else torch.bfloat16
    return encode(wide, spec.target).view(dtype)


def interleave(first: Tensor, second: Tensor) -> Tensor:
    """[..., 2n]: the items of two [..., n] tensors, alternating ([CDNA4] V_CVT_SCALEF32_2XPK16_FP6_F32)."""
    return torch.stack((first, second), dim=-1).flatten(-2)
