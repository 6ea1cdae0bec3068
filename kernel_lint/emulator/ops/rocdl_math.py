"""``rocdl``: transcendental instructions and conversions.

Sources: CDNA3 and CDNA4 ISA documents, V_EXP_F32 and its neighbours; the conversions are
:mod:`..numerics.conversions`, each with its own source.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from kernel_lint.emulator.ir import MType, Op
from kernel_lint.emulator.numerics import conversions, formats, packing
from kernel_lint.emulator.ops.math import unary
from kernel_lint.emulator.registry import Env, Run, op, unknown
from kernel_lint.emulator.values import Tensor, Value, bitcast, to_tensor

INSTRUCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "rcp": torch.reciprocal,
    "rsq": torch.rsqrt,
    "sqrt": torch.sqrt,
    "exp2": torch.exp2,
    "log": torch.log2,  # V_LOG_F32 has base 2
    "sin": lambda x: torch.sin(x * (2 * math.pi)),  # V_SIN_F32 counts turns
    "cos": lambda x: torch.cos(x * (2 * math.pi)),
    "tanh": torch.tanh,
    "fract": lambda x: x - torch.floor(x),
}
for _name, _function in INSTRUCTIONS.items():
    op(f"rocdl.{_name}")(unary(_function))


@op("rocdl.fmed3", "math.clampf")
def fmed3(o: Op, env: Env) -> Run:
    """The middle one of three numbers (V_MED3_F32), and with NaN among them the least of the others: so a
    NaN that is clamped becomes the lower bound (CDNA3 ISA, V_MED3_F32; ``math.clampf`` is lowered to it)."""
    types = o.operand_types

    def run(a: Value, b: Value, c: Value) -> Tensor:
        x, y, z = (to_tensor(v, t.element, env.device) for v, t in zip((a, b, c), types, strict=True))
        middle = torch.maximum(torch.minimum(x, y), torch.minimum(torch.maximum(x, y), z))
        return torch.where(middle.isnan(), torch.fmin(torch.fmin(x, y), z), middle)

    return run


def _tensors(o: Op, env: Env, values: tuple[Value, ...]) -> tuple[Tensor, ...]:
    """The operands as tensors, broadcast to one extent of workgroups and lanes."""
    made = [to_tensor(v, t.element, env.device) for v, t in zip(values, o.operand_types, strict=True)]
    head = packing.joint_shape(*(tuple(t.shape[:2]) for t in made))
    return tuple(t.expand(*head, *t.shape[2:]) for t in made)


def _small(name: str, env: Env) -> formats.FloatFormat:
    fp8, bf8 = formats.fp8_formats(env.target)
    return bf8 if "bf8" in name else fp8


@op("rocdl.cvt.pk.fp8.f32", "rocdl.cvt.pk.bf8.f32")
def cvt_pk_f8_f32(o: Op, env: Env) -> Run:
    """Two floats to two bytes of a register."""
    fmt, high = _small(o.name, env), bool(o.attrs["wordSel"])

    def run(*values: Value) -> Tensor:
        a, b, old = _tensors(o, env, values)
        return conversions.cvt_pk_f8_f32(a, b, old, high, fmt)

    return run


@op("rocdl.cvt.sr.fp8.f32", "rocdl.cvt.sr.bf8.f32")
def cvt_sr_f8_f32(o: Op, env: Env) -> Run:
    """One float to a byte of a register, rounded by random bits."""
    fmt, byte = _small(o.name, env), int(o.attrs["byteSel"])

    def run(*values: Value) -> Tensor:
        a, random, old = _tensors(o, env, values)
        return conversions.cvt_sr_f8_f32(a, random, old, byte, fmt)

    return run


@op("rocdl.cvt.f32.fp8", "rocdl.cvt.f32.bf8")
def cvt_f32_f8(o: Op, env: Env) -> Run:
    """A byte of a register to a float."""
    fmt, byte, first = _small(o.name, env), int(o.attrs["byteSel"]), o.operand_types[0]
    return lambda src: conversions.cvt_f32_f8(to_tensor(src, first, env.device), byte, fmt)


@op("rocdl.cvt.pk.f32.fp8", "rocdl.cvt.pk.f32.bf8")
def cvt_pk_f32_f8(o: Op, env: Env) -> Run:
    """Two bytes of a register to two floats."""
    fmt, high, first = _small(o.name, env), bool(o.attrs["wordSel"]), o.operand_types[0]
    return lambda src: conversions.cvt_pk_f32_f8(to_tensor(src, first, env.device), high, fmt)


@op("rocdl.cvt.pkrtz")
def cvt_pkrtz(o: Op, env: Env) -> Run:
    """Two floats to two f16, toward zero."""
    return lambda *values: conversions.cvt_pkrtz(*_tensors(o, env, values))


_REGISTER = MType("int", "i32", 32)


def _selector(o: Op) -> int:
    names = ("dstLoHiSel", "srcLoHiSel", "dstSelIndex", "srcSelIndex")
    return next((int(o.attrs[n]) for n in names if n in o.attrs), 0)


@op(*(f"rocdl.{name}" for name in conversions.SCALED_CONVERSIONS))
def cvt_scalef32(o: Op, env: Env) -> Run:
    """gfx950's scaled conversions: between f32, f16, bf16 and f8, f6, f4 with a power-of-two scale."""
    spec = conversions.SCALED_CONVERSIONS[o.name.removeprefix("rocdl.")]
    return _narrow(o, env, spec) if spec.narrows else _widen(o, env, spec)


def _widen(o: Op, env: Env, spec: conversions.ScaledConversion) -> Run:
    width, result = spec.small.bits, o.result_type
    # A selector picks the field of a 32-bit register: a byte for one f8 or two f4, a half for two f8.
    position = _selector(o) * (width * spec.count)

    def run(*values: Value) -> Tensor:
        src, scale = _tensors(o, env, values)
        if o.operand_types[0].elements * o.operand_types[0].bits == 32:
            word = bitcast(src, o.operand_types[0], _REGISTER, env.device)
            fields = [packing.extract_field(word, position + width * i, width) for i in range(spec.count)]
            codes = torch.stack(fields, -1)
        else:
            codes = packing.unpack_codes(src, width, spec.count)
        out = conversions.widen_scaled(spec, codes, scale)
        return out if result.shape else out.squeeze(-1)

    return run


def _narrow(o: Op, env: Env, spec: conversions.ScaledConversion) -> Run:
    width, result = spec.small.bits, o.result_type
    in_register = result.elements * result.bits == 32
    position = _selector(o) * (width * spec.count)

    def run(*values: Value) -> Value:
        tensors = list(_tensors(o, env, values))
        old = tensors.pop(0) if in_register else None
        scale = tensors.pop()
        random = tensors.pop() if spec.stochastic else None
        numbers = _numbers(o, env, spec, tensors)
        codes = conversions.narrow_scaled(spec, numbers, scale, random=random)
        if old is None:
            packed = packing.pack_codes(codes, width)
            return bitcast(packed, MType("int", "i32", 32, (packed.shape[-1],)), result, env.device)
        word = bitcast(old, o.operand_types[0], _REGISTER, env.device)
        for i in range(spec.count):
            word = packing.insert_field(word, codes[..., i], position + width * i, width)
        return bitcast(word, _REGISTER, result, env.device)

    return run


def _numbers(o: Op, env: Env, spec: conversions.ScaledConversion, tensors: list[Tensor]) -> Tensor:
    if spec.interleaved:
        return conversions.interleave(*tensors)
    if len(tensors) == spec.count and tensors[0].ndim == 2:
        return torch.stack(tensors, -1)
    if len(tensors) == 1 and tensors[0].ndim == 3:
        return tensors[0]
    raise unknown(o, env, "these operands")
