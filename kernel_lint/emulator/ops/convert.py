"""Conversions between integer and float types, of ``arith`` and ``llvm``."""

from __future__ import annotations

import torch

from kernel_lint.emulator.ir import MType, Op
from kernel_lint.emulator.numerics import formats
from kernel_lint.emulator.registry import Env, Run, op
from kernel_lint.emulator.values import (
    Tensor,
    Value,
    dtype_of,
    is_uniform,
    round_float,
    sign_extend,
    to_tensor,
    wrap,
)

# MLIR's names of the narrow formats (mlir/IR/BuiltinTypes.td) and the format each one means.
MLIR_FORMATS = {
    "f8E4M3FN": formats.FP8_E4M3,
    "f8E4M3FNUZ": formats.FP8_E4M3_FNUZ,
    "f8E5M2": formats.BF8_E5M2,
    "f8E5M2FNUZ": formats.BF8_E5M2_FNUZ,
    "f6E2M3FN": formats.FP6_E2M3,
    "f6E3M2FN": formats.BF6_E3M2,
    "f4E2M1FN": formats.FP4_E2M1,
}


def decode_float(bits: Tensor, name: str) -> Tensor:
    """Numbers (f32) of the codes of a narrow MLIR float type."""
    if name == "f8E8M0FNU":
        return formats.decode_e8m0(bits).to(torch.float32)
    return formats.decode(bits, MLIR_FORMATS[name])


def encode_float(values: Tensor, name: str) -> Tensor:
    """Codes (int8) of f32 values in a narrow MLIR float type, to nearest even."""
    if name == "f8E8M0FNU":
        return (torch.frexp(values)[1] + 126).clamp(0, 254).to(torch.uint8).view(torch.int8)
    return formats.encode(values.to(torch.float32), MLIR_FORMATS[name]).view(torch.int8)


def _is_narrow(mtype: MType) -> bool:
    return mtype.kind == "float" and dtype_of(mtype) is torch.int8


@op("arith.extf", "llvm.fpext", "arith.truncf", "llvm.fptrunc", "arith.convertf")
def convert_float(o: Op, env: Env) -> Run:
    """To another float type, to nearest even (exact when widening); f8, f6, f4 by their tables."""
    source, target = o.operand_types[0], o.result_type

    def run(a: Value) -> Value:
        if is_uniform(a):
            if not _is_narrow(source) and not _is_narrow(target):
                return round_float(a, target.name)
            a = to_tensor(a, source, env.device)
        if _is_narrow(source):
            a = decode_float(a, source.name)
        return encode_float(a, target.name) if _is_narrow(target) else a.to(dtype_of(target))

    return run


@op("arith.sitofp", "llvm.sitofp", "arith.uitofp", "llvm.uitofp")
def int_to_float(o: Op, env: Env) -> Run:
    """Integer to float, to nearest even."""
    source, target = o.operand_types[0], o.result_type
    is_unsigned = "uitofp" in o.name
    mask = (1 << source.bits) - 1

    def run(a: Value) -> Value:
        if is_uniform(a):
            number = int(a) & mask if is_unsigned else (-int(a) if source.bits == 1 else int(a))
            return round_float(float(number), target.name)
        if source.bits == 1:
            return (a if is_unsigned else -a.to(torch.int8)).to(dtype_of(target))
        if is_unsigned and source.bits < 64:
            a = a.to(torch.int64) & mask
        elif is_unsigned:
            halved = ((a >> 1) & (2**63 - 1) | (a & 1)).to(torch.float64) * 2
            return torch.where(a < 0, halved, a.to(torch.float64)).to(dtype_of(target))
        return a.to(dtype_of(target))

    return run


@op(
    "arith.fptosi",
    "llvm.fptosi",
    "arith.fptoui",
    "llvm.fptoui",
    "llvm.intr.fptosi.sat",
    "llvm.intr.fptoui.sat",
)
def float_to_int(o: Op, env: Env) -> Run:
    """Float to integer, toward zero. Out of range MLIR leaves it undefined; the hardware saturates and
    gives 0 for a NaN (CDNA3 ISA, V_CVT_I32_F32 and V_CVT_U32_F32), and so does this."""
    source, target = o.operand_types[0], o.result_type
    is_unsigned = "fptoui" in o.name
    low = 0 if is_unsigned else -(1 << (target.bits - 1))
    high = (1 << target.bits) - 1 if is_unsigned else (1 << (target.bits - 1)) - 1

    def run(a: Value) -> Value:
        if is_uniform(a):
            number = 0 if a != a else int(min(max(a, float(low)), float(high)))
            return wrap(number, target.bits)
        if _is_narrow(source):
            a = decode_float(a, source.name)
        # 2**63 - 1 is not a float64, so the top of the 64-bit range is chosen by comparison.
        wide = a.to(torch.float64).nan_to_num(0.0, float("inf"), float("-inf")).trunc()
        if target.bits == 64:
            exact = wide.clamp(-(2.0**63), 2.0**63 - 1024).to(torch.int64)
            return torch.where(wide >= 2.0**63, 2**63 - 1, exact)
        return wide.clamp(low, high).to(torch.int64).to(dtype_of(target))

    return run


@op("arith.scaling_extf", "arith.scaling_truncf")
def scaling(o: Op, env: Env) -> Run:
    """Convert times or divided by a power-of-two scale (E8M0), MLIR ``arith.scaling_extf``/``truncf``."""
    source, scale, target = o.operand_types[0], o.operand_types[1], o.result_type
    grow = o.name == "arith.scaling_extf"

    def run(a: Value, s: Value) -> Value:
        factor = (
            decode_float(to_tensor(s, scale, env.device), scale.name)
            if _is_narrow(scale)
            else to_tensor(s, scale, env.device)
        )
        a = to_tensor(a, source, env.device) if is_uniform(a) else a
        number = decode_float(a, source.name) if _is_narrow(source) else a.to(torch.float32)
        out = number * factor if grow else number / factor
        return encode_float(out, target.name) if _is_narrow(target) else out.to(dtype_of(target))

    return run


@op("arith.index_cast", "arith.extsi", "llvm.sext")
def extsi(o: Op, env: Env) -> Run:
    """Sign extension (``index`` is 64 bits wide); ``index_cast`` also truncates."""
    source, target = o.operand_types[0], o.result_type
    dtype, bits = dtype_of(target), target.bits

    def run(a: Value) -> Value:
        if not isinstance(a, Tensor):
            return wrap(-int(a) if source.bits == 1 else int(a), bits)
        return -a.to(dtype) if source.bits == 1 else a.to(dtype)

    return run


@op("arith.extui", "arith.index_castui", "llvm.zext")
def extui(o: Op, env: Env) -> Run:
    """Zero extension."""
    source, target = o.operand_types[0], o.result_type
    dtype, mask = dtype_of(target), (1 << source.bits) - 1

    def run(a: Value) -> Value:
        if not isinstance(a, Tensor):
            return wrap(int(a) & mask, target.bits)
        return (
            a.to(dtype)
            if source.bits in (1, 64)
            else a.to(dtype) & mask
            if target.bits > source.bits
            else a.to(dtype)
        )

    return run


@op("arith.trunci", "llvm.trunc")
def trunci(o: Op, env: Env) -> Run:
    """Keep the low bits."""
    target = o.result_type
    dtype, bits = dtype_of(target), target.bits

    def run(a: Value) -> Value:
        if not isinstance(a, Tensor):
            return bool(int(a) & 1) if bits == 1 else wrap(int(a), bits)
        if bits == 1:
            return (a & 1).to(torch.bool)
        out = a.to(dtype)
        return out if bits == dtype.itemsize * 8 else sign_extend(out, bits)

    return run
