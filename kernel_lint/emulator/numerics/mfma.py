"""The dense matrix instructions (MFMA), computed for all waves at once as batched matrix products.

What is modelled: the products are exact; the depth is summed by torch's batched matrix product in float32
(or, with accumulate=torch.float64, exactly but for the last bits of a float64), then C is added and the
result rounded to nearest even ([CDNA4] 7.1.2: the round mode is forced to nearest even, denormals are
kept). The order in which the hardware sums is not documented, so a float32 result may differ from a
device's in its last bits. Block scales are exact powers of two; beyond 2^40 or below 2^-40 they turn the
sum to float64. i8 is exact in int32 (carry out dropped); f64 is float64. On CUDA, leave torch's TF32
matrix products off, as they are by default.

Operands: a and b are [..., lanes, components], a scalar with a last dimension of 1; either the elements
themselves (float16, bfloat16, float32, float64, int8) or any dtype with the same bits (i32, i64, vectors of
them). F8F6F4 operands may have more registers than the format fills; the rest is ignored. c is [..., lanes,
acc_items]. Leading dimensions broadcast. scale_a and scale_b are int32 [..., lanes], one byte of which
(opsel) is the E8M0 scale of the row (column) and the 32 values of k that [CDNA4] 7.2.1 assigns to the lane;
None means 1. Two scales that are literal zeros in the IR select the unscaled instruction (LLVM compiles
them to v_mfma_f32_*_f8f6f4): pass None for them. A zero in a register is 2^-127.

EXEC is ignored: every lane of the wave takes part ([CDNA4] 7.1.2), so pass the registers of inactive lanes
as they are. Clamping by MODE.FP16_OVFL is not modelled. Short names of documents: see formats.py.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from kernel_lint.emulator.numerics.formats import FloatFormat, decode, decode_e8m0, fp8_formats
from kernel_lint.emulator.numerics.mfma_table import (
    F8F6F4_FORMATS,
    MFMA_SPECS,
    WAVE,
    MfmaSpec,
    input_place,
    lane_map,
)
from kernel_lint.emulator.numerics.packing import as_bytes, extract_field, joint_shape, unpack_codes

__all__ = ["MFMA_SPECS", "MfmaSpec", "mfma", "operand_format"]

_NATIVE = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "xf32": torch.float32,
    "f64": torch.float64,
    "i8": torch.int8,
}
_ACC = {"f32": torch.float32, "i32": torch.int32, "f64": torch.float64}


def operand_format(spec: MfmaSpec, operand: str, gfx: str, selector: int = 0) -> FloatFormat | None:
    """The small float format of operand "a" or "b": FNUZ or OCP by target, or chosen by CBSZ/BLGP; None for
    others.

    Raises ValueError when the selector names no format.
    """
    kind = spec.a_type if operand == "a" else spec.b_type
    if kind == "f8f6f4":
        if not 0 <= selector < len(F8F6F4_FORMATS):
            raise ValueError(f"{spec.name}: format selector {selector} of operand {operand} is reserved")
        return F8F6F4_FORMATS[selector]
    if kind in ("fp8", "bf8"):
        fp8, bf8 = fp8_formats(gfx)
        return fp8 if kind == "fp8" else bf8
    return None


def mfma(
    spec: MfmaSpec,
    a: Tensor,
    b: Tensor,
    c: Tensor,
    *,
    gfx: str,
    cbsz: int = 0,
    abid: int = 0,
    blgp: int = 0,
    scale_a: Tensor | None = None,
    scale_b: Tensor | None = None,
    opsel_a: int = 0,
    opsel_b: int = 0,
    accumulate: torch.dtype = torch.float32,
    lanes: int = WAVE,
) -> Tensor:
    """D, [..., lanes, acc_items] in float32, int32 or float64, for every wave of 64 lanes.

    spec: an entry of MFMA_SPECS. a, b, c, scale_a, scale_b: see "Operands" at the top of this module. gfx:
    the target, which decides between FNUZ and OCP. cbsz, abid, blgp, opsel_a, opsel_b: as in MLIR; formats
    for F8F6F4, signs for f64. lanes: counts when all operands are uniform. Raises ValueError on operands of
    the wrong size and on modifiers whose meaning is not known.
    """
    lead = _lead(spec, a, b, c, scale_a, scale_b, lanes)
    a_sel, b_sel = (cbsz, blgp) if spec.a_type == "f8f6f4" else (0, 0)
    formats = operand_format(spec, "a", gfx, a_sel), operand_format(spec, "b", gfx, b_sel)
    factors = _factor(scale_a, opsel_a, lead), _factor(scale_b, opsel_b, lead)
    wide = _wide_type(spec, accumulate, factors)
    left = _matrix(spec, "a", a, formats[0], lead, wide, _source_lanes(spec, cbsz, abid, 0), factors[0])
    right = _matrix(spec, "b", b, formats[1], lead, wide, _source_lanes(spec, 0, 0, blgp), factors[1])
    if spec.acc_type == "f64" and blgp:
        left, right, c = _negate(left, right, c, blgp)
    return _accumulate(spec, torch.bmm(right, left), c, lead)


def _lead(
    spec: MfmaSpec,
    a: Tensor,
    b: Tensor,
    c: Tensor,
    scale_a: Tensor | None,
    scale_b: Tensor | None,
    lanes: int,
) -> tuple[int, ...]:
    """[..., lanes] that the products span; leading dimensions that only C has are not among them."""
    scales = [scale.shape for scale in (scale_a, scale_b) if scale is not None]
    lead = joint_shape(a.shape[:-1], b.shape[:-1], *scales)
    count = joint_shape(lead[-1:], c.shape[-2:-1])[0]
    count = lanes if count == 1 else count
    if count % WAVE:
        raise ValueError(f"{spec.name}: {count} lanes are not a whole number of waves of {WAVE}")
    return (*lead[:-1], count)


def _factor(registers: Tensor | None, byte: int, lead: tuple[int, ...]) -> Tensor | None:
    """[waves, 64] float64: the block scale in each lane."""
    if registers is None:
        return None
    return decode_e8m0(extract_field(registers, byte * 8, 8)).expand(lead).reshape(-1, WAVE)


def _wide_type(
    spec: MfmaSpec, accumulate: torch.dtype, factors: tuple[Tensor | None, Tensor | None]
) -> torch.dtype:
    """The dtype that products are summed in.

    int8 fits float32: 64 products of at most 2^14 stay below 2^24. Scales from 2^-40 to 2^40 leave every
    product of 8-bit or smaller floats a normal float32; others (and NaN) need float64.
    """
    if spec.acc_type == "i32":
        return torch.float32
    if spec.acc_type == "f64":
        return torch.float64
    mild = all(f is None or bool(((f >= 2.0**-40) & (f <= 2.0**40)).all()) for f in factors)
    return accumulate if mild else torch.float64


def _source_lanes(spec: MfmaSpec, cbsz: int, abid: int, blgp: int) -> tuple[int, ...] | None:
    """The lane that supplies each lane's items under CBSZ/ABID or BLGP, or None for the lane itself.

    Source: [CDNA4] 7.1.6.1 (S = 64 >> CBSZ; lane % S + S * ABID) and table 29. With 2^CBSZ below the number
    of blocks that text and AMD's matrix instruction calculator disagree about which blocks receive the
    values.
    """
    if spec.a_type in ("f8f6f4", "f64") or not (cbsz or blgp):
        return None
    if cbsz:
        if 1 << cbsz != spec.blocks:
            raise ValueError(
                f"{spec.name}: cbsz={cbsz} broadcasts to {1 << cbsz} of {spec.blocks} blocks, "
                "and AMD's documents disagree on what that does"
            )
        size = WAVE >> cbsz
        if not 0 <= abid < 1 << cbsz:
            raise ValueError(f"{spec.name}: abid={abid} names no source block under cbsz={cbsz}")
        return tuple(lane % size + size * abid for lane in range(WAVE))
    if not 0 < blgp < 8:
        raise ValueError(f"{spec.name}: blgp={blgp} is not a lane-group permutation")
    if blgp == 3:
        return tuple((lane + 16) % WAVE for lane in range(WAVE))
    size, first = (32, 32 * (blgp - 1)) if blgp < 3 else (16, 16 * (blgp - 4))
    return tuple(lane % size + first for lane in range(WAVE))


@functools.lru_cache(maxsize=256)
def _input_index(
    spec: MfmaSpec, operand: str, bits: int, source: tuple[int, ...] | None, device: torch.device
) -> Tensor:
    """Where, among a wave's lane * items + item, the elements of A lie by (block, k, row), or B's by
    (block, column, k).

    int64 [blocks * k * m]. These orders let the product run without a transposed operand.
    """
    flat: list[int] = []
    for block in range(spec.blocks):
        outer, inner = (spec.k, spec.m) if operand == "a" else (spec.n, spec.k)
        for first in range(outer):
            for second in range(inner):
                index, k = (second, first) if operand == "a" else (first, second)
                lane, item = input_place(spec, block, index, k, bits)
                flat.append((lane if source is None else source[lane]) * spec.items + item)
    return torch.tensor(flat, device=device)


@functools.lru_cache(maxsize=64)
def _output_index(spec: MfmaSpec, device: torch.device) -> Tensor:
    """Where, in products laid out by (block, column, row), the element of each lane * acc_items + item
    lies.
    """
    flat = [
        (element.block * spec.n + element.column) * spec.m + element.row
        for lane in lane_map(spec, "d")
        for element in lane
    ]
    return torch.tensor(flat, device=device)


@functools.lru_cache(maxsize=32)
def _scale_index(spec: MfmaSpec, operand: str, bits: int, device: torch.device) -> Tensor:
    """The lane that holds the scale of each lane's first and second 16 items, int64 [128].

    Lane l holds the scale of row (column) l % m for the 32 values of k from 32 * (l / m) ([CDNA4] 7.2.1),
    which for 8-bit operands are not the values of k that lane l itself holds.
    """
    lanes: list[int] = []
    for lane in lane_map(spec, operand, bits):
        for element in (lane[0], lane[16]):
            index, k = (element.row, element.column) if operand == "a" else (element.column, element.row)
            lanes.append(k // 32 * spec.m + index)
    return torch.tensor(lanes, device=device)


def _items(spec: MfmaSpec, operand: str, registers: Tensor, fmt: FloatFormat | None) -> Tensor:
    """[..., items]: elements in their own dtype, or codes (uint8) of a small format."""
    if fmt is not None:
        return unpack_codes(registers, fmt.bits, spec.items)
    dtype = _NATIVE[spec.a_type if operand == "a" else spec.b_type]
    items = registers if registers.dtype == dtype else as_bytes(registers).view(dtype)
    if items.shape[-1] != spec.items:
        raise ValueError(
            f"{spec.name}: operand {operand} has {items.shape[-1]} elements a lane, not {spec.items}"
        )
    return items


def _matrix(
    spec: MfmaSpec,
    operand: str,
    registers: Tensor,
    fmt: FloatFormat | None,
    lead: tuple[int, ...],
    wide: torch.dtype,
    source: tuple[int, ...] | None,
    factor: Tensor | None,
) -> Tensor:
    """[waves * blocks, k, m] of A, or [waves * blocks, n, k] of B, in the dtype that is summed."""
    items = _items(spec, operand, registers, fmt)
    values = decode(items, fmt).to(wide) if fmt is not None else _reduced(spec, items).to(wide)
    flat = values.expand(*lead, spec.items).reshape(-1, WAVE * spec.items)
    bits = spec.operand_bits(operand, fmt)
    flat = _scaled(spec, operand, flat, factor, bits)
    ordered = flat.index_select(1, _input_index(spec, operand, bits, source, flat.device))
    return ordered.view(-1, spec.k, spec.m) if operand == "a" else ordered.view(-1, spec.n, spec.k)


def _reduced(spec: MfmaSpec, values: Tensor) -> Tensor:
    """XF32 drops the last 13 bits of the mantissa; the rest of the types are used as they are.

    Source: [CDNA3] V_MFMA_F32_16X16X8_XF32 ("mantissa is truncated to 10 bits"); its chapter 7 says "round".
    """
    if spec.a_type != "xf32":
        return values
    return (values.contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32)


def _scaled(spec: MfmaSpec, operand: str, values: Tensor, factor: Tensor | None, bits: int) -> Tensor:
    """values [waves, 64 * 32] times the block scales [waves, 64]."""
    if factor is None:
        return values
    factor = factor.to(values.dtype).index_select(1, _scale_index(spec, operand, bits, values.device))
    return (values.view(-1, 2 * WAVE, 16) * factor.unsqueeze(-1)).view(values.shape)


def _negate(left: Tensor, right: Tensor, c: Tensor, blgp: int) -> tuple[Tensor, Tensor, Tensor]:
    """BLGP negates A, B and C in the f64 instructions ([CDNA4] 7.1.6.4)."""
    return (-left if blgp & 1 else left), (-right if blgp & 2 else right), (-c if blgp & 4 else c)


def _accumulate(spec: MfmaSpec, product: Tensor, c: Tensor, lead: tuple[int, ...]) -> Tensor:
    """C plus the product, [waves * blocks, n, m], spread over lanes and items."""
    dtype = _ACC[spec.acc_type]
    start = c if c.dtype == dtype else as_bytes(c).view(dtype)
    if start.shape[-1] != spec.acc_items:
        raise ValueError(f"{spec.name}: C has {start.shape[-1]} elements a lane, not {spec.acc_items}")
    flat = product.reshape(-1, WAVE * spec.acc_items)
    spread = flat.index_select(1, _output_index(spec, flat.device)).view(*lead, spec.acc_items)
    if spec.acc_type == "i32":
        spread = spread.to(torch.int32)
    return (start + spread).to(dtype)
