"""The dense matrix instructions (MFMA), computed for all waves at once as batched matrix products.

What is modelled: the products are exact; the depth is summed by torch's batched matrix product in float32
(or, with accumulate=torch.float64, exactly but for the last bits of a float64), then C is added and the
result rounded to nearest even ([CDNA4] 7.1.2: the round mode is forced to nearest even, denormals are
kept). The order in which the hardware sums is not documented, so a float32 result may differ from a
device's in its last bits. Block-scaled products are summed in float64 and rounded once with C. i8 is exact
in int32 (carry out dropped); f64 is float64. On CUDA, leave torch's TF32 matrix products off, as they are
by default.

EXEC is ignored: every lane of the wave takes part ([CDNA4] 7.1.2), so pass the registers of inactive lanes
as they are. Clamping by MODE.FP16_OVFL is not modelled. Short names of documents: see formats.py.
"""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor

from kernel_lint.emulator.numerics.formats import FloatFormat, decode, decode_e8m0, fp8_formats
from kernel_lint.emulator.numerics.mfma_table import F8F6F4_FORMATS, MFMA_SPECS, WAVE, MfmaSpec
from kernel_lint.emulator.numerics.packing import extract_field, joint_shape, unpack_codes

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

    a, b: [..., lanes, components], a scalar operand with a last dimension of 1; either the elements
    themselves (float16, bfloat16, float32, float64, int8) or any dtype with the same bits (i32, i64,
    vectors of them). F8F6F4 operands may have more registers than the format fills; the rest is ignored. c:
    [..., lanes, acc_items]. Leading dimensions broadcast; `lanes` counts when all three are uniform (extent
    1). gfx: the target, which decides between FNUZ and OCP. cbsz, abid, blgp: as in MLIR; format selectors
    for F8F6F4, negation for f64. scale_a, scale_b: int32 [..., lanes], byte opsel_a and opsel_b of which is
    the E8M0 scale of the row (column) and the 32 values of k that [CDNA4] 7.2.1 assigns to the lane; None
    means 1. Literal zero scales in the IR select the unscaled instruction (LLVM, SIISelLowering of
    amdgcn.mfma.scale), so pass None for them. Raises ValueError on operands of the wrong size and on
    modifiers whose meaning is not known.
    """
    a_sel, b_sel = (cbsz, blgp) if spec.a_type == "f8f6f4" else (0, 0)
    formats = operand_format(spec, "a", gfx, a_sel), operand_format(spec, "b", gfx, b_sel)
    lead = joint_shape(a.shape[:-1], b.shape[:-1])
    lead = (
        *lead[:-1],
        lanes if lead[-1] == 1 and c.shape[-2] == 1 else joint_shape(lead[-1:], c.shape[-2:-1])[0],
    )
    if lead[-1] % WAVE:
        raise ValueError(f"{spec.name}: {lead[-1]} lanes are not a whole number of waves of {WAVE}")
    for scale in (scale_a, scale_b):
        lead = lead if scale is None else joint_shape(lead, scale.shape)
    wide = _wide_type(spec, accumulate, scaled=scale_a is not None or scale_b is not None)
    left = _matrix(spec, "a", a, formats[0], lead, wide, _source_lanes(spec, cbsz, abid, 0))
    right = _matrix(spec, "b", b, formats[1], lead, wide, _source_lanes(spec, 0, 0, blgp))
    if scale_a is not None:
        left = left * _scales(spec, scale_a, opsel_a, lead)
    if scale_b is not None:
        right = right * _scales(spec, scale_b, opsel_b, lead)
    if spec.acc_type == "f64" and blgp:
        left, right, c = _negate(left, right, c, blgp)
    product = torch.bmm(right, left.transpose(1, 2))
    return _accumulate(spec, product, c, lead)


def _wide_type(spec: MfmaSpec, accumulate: torch.dtype, *, scaled: bool) -> torch.dtype:
    """The dtype that products are summed in. int8 fits float32: 64 products of at most 2^14 stay below
    2^24.
    """
    if spec.acc_type == "i32":
        return torch.float32
    return torch.float64 if scaled or spec.acc_type == "f64" else accumulate


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


@functools.lru_cache(maxsize=64)
def _lane_index(lanes: tuple[int, ...], device: torch.device) -> Tensor:
    return torch.tensor(lanes, device=device)


def _items(spec: MfmaSpec, operand: str, registers: Tensor, fmt: FloatFormat | None) -> Tensor:
    """[..., items]: elements in their own dtype, or codes (uint8) of a small format."""
    if fmt is not None:
        return unpack_codes(registers, fmt.bits, spec.items)
    dtype = _NATIVE[spec.a_type if operand == "a" else spec.b_type]
    items = registers if registers.dtype == dtype else registers.contiguous().view(torch.uint8).view(dtype)
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
) -> Tensor:
    """[waves * blocks, m or n, k]: A by rows, or B by columns, in the dtype that is summed."""
    items = _items(spec, operand, registers, fmt)
    items = items.expand(*lead, spec.items).reshape(-1, WAVE, spec.items)
    if source is not None:
        items = items.index_select(1, _lane_index(source, items.device))
    chunk = spec.chunk(fmt.bits if fmt is not None else 0)
    runs = items.reshape(-1, spec.k_groups, spec.blocks, spec.m, spec.items // chunk, chunk)
    runs = runs.permute(0, 2, 3, 4, 1, 5)
    if fmt is not None:
        matrix = decode(runs.contiguous(), fmt).to(wide)
    else:
        # One pass that converts and lays out: .to() alone would keep the permuted strides.
        matrix = torch.empty(runs.shape, dtype=wide, device=runs.device).copy_(_reduced(spec, runs))
    return matrix.reshape(-1, spec.m, spec.k)


def _reduced(spec: MfmaSpec, values: Tensor) -> Tensor:
    """XF32 drops the last 13 bits of the mantissa; the rest of the types are used as they are.

    Source: [CDNA3] V_MFMA_F32_16X16X8_XF32 ("mantissa is truncated to 10 bits"); its chapter 7 says "round".
    """
    if spec.a_type != "xf32":
        return values
    return (values.contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32)


def _scales(spec: MfmaSpec, registers: Tensor, byte: int, lead: tuple[int, ...]) -> Tensor:
    """[waves, m or n, k] float64: the E8M0 scale of every element.

    Lane l holds the scale of row (column) l % m for the 32 values of k from 32 * (l / m) ([CDNA4] 7.2.1).
    """
    code = extract_field(registers, byte * 8, 8).expand(lead).reshape(-1, WAVE // spec.m, spec.m)
    return decode_e8m0(code).transpose(1, 2).repeat_interleave(32, dim=2)


def _negate(left: Tensor, right: Tensor, c: Tensor, blgp: int) -> tuple[Tensor, Tensor, Tensor]:
    """BLGP negates A, B and C in the f64 instructions ([CDNA4] 7.1.6.4)."""
    return (-left if blgp & 1 else left), (-right if blgp & 2 else right), (-c if blgp & 4 else c)


def _accumulate(spec: MfmaSpec, product: Tensor, c: Tensor, lead: tuple[int, ...]) -> Tensor:
    """C plus the product, [waves * blocks, n, m], spread over lanes and items ([CDNA4] 7.1.4.2)."""
    out = spec.output_layout
    high = spec.blocks // out.blocks_per_item
    split = (-1, high, out.blocks_per_item, spec.n, out.groups, out.rows_per_item, out.height)
    spread = product.reshape(split).permute(0, 2, 5, 3, 1, 4, 6)
    dtype = _ACC[spec.acc_type]
    if spec.acc_type == "i32":
        spread = spread.to(torch.int32)
    start = c if c.dtype == dtype else c.contiguous().view(torch.uint8).view(dtype)
    if start.shape[-1] != spec.acc_items:
        raise ValueError(f"{spec.name}: C has {start.shape[-1]} elements a lane, not {spec.acc_items}")
    full = joint_shape(lead, start.shape[:-1])
    if math.prod(full) == math.prod(lead):
        start = start.expand(*full, spec.acc_items).reshape(spread.shape)
        return (start + spread).to(dtype).reshape(*full, spec.acc_items)
    return (start + spread.reshape(*lead, spec.acc_items)).to(dtype)
