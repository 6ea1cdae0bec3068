"""``arith``: integers, casts, selection (floats: ``arith_float``). https://mlir.llvm.org/docs/Dialects/ArithOps/"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from kernel_lint.emulator.ir import Op
from kernel_lint.emulator.registry import Env, Run, op, unknown
from kernel_lint.emulator.values import (
    Tensor,
    Value,
    bitcast,
    dtype_of,
    is_uniform,
    sign_extend,
    to_tensor,
    where,
    wrap,
)


def _binary(
    tensor: Callable[[Any, Any], Any], number: Callable[[Any, Any], Any] | None = None
) -> Callable[[Op, Env], Run]:
    """An integer operation: ``tensor`` on tensors and mixed, ``number`` on Python integers, wrapped."""

    def build(o: Op, env: Env) -> Run:
        bits, plain = o.result_type.bits, number or tensor

        def run(a: Value, b: Value) -> Value:
            if a.__class__ is int and b.__class__ is int:
                return wrap(plain(a, b), bits)
            if a.__class__ is bool and b.__class__ is bool:
                return bool(plain(a, b) & 1)
            return tensor(a, b)

        return run

    return build


def _register_integers() -> None:
    op("arith.andi", "llvm.and")(_binary(lambda a, b: a & b))
    op("arith.ori", "llvm.or")(_binary(lambda a, b: a | b))
    op("arith.xori", "llvm.xor")(_binary(lambda a, b: a ^ b))
    op("arith.maxsi", "llvm.intr.smax")(_binary(_maximum, max))
    op("arith.minsi", "llvm.intr.smin")(_binary(_minimum, min))


def _maximum(a: Value, b: Value) -> Tensor:
    return (
        torch.clamp_min(a, b)
        if is_uniform(b)
        else (torch.clamp_min(b, a) if is_uniform(a) else torch.maximum(a, b))
    )


def _minimum(a: Value, b: Value) -> Tensor:
    return (
        torch.clamp_max(a, b)
        if is_uniform(b)
        else (torch.clamp_max(b, a) if is_uniform(a) else torch.minimum(a, b))
    )


_register_integers()


def _ring(name: str, plain: Callable[[Any, Any], Any]) -> Callable[[Op, Env], Run]:
    """Addition, subtraction and multiplication modulo 2**bits; on i1 they are xor and and."""

    def build(o: Op, env: Env) -> Run:
        bits = o.result_type.bits
        if bits == 1:
            return (lambda a, b: a & b) if name == "mul" else (lambda a, b: a ^ b)
        odd = bits not in (8, 16, 32, 64)

        def run(a: Value, b: Value) -> Value:
            out = plain(a, b)
            if out.__class__ is int:
                return wrap(out, bits)
            return sign_extend(out, bits) if odd else out

        return run

    return build


op("arith.addi", "llvm.add")(_ring("add", lambda a, b: a + b))
op("arith.subi", "llvm.sub")(_ring("sub", lambda a, b: a - b))
op("arith.muli", "llvm.mul")(_ring("mul", lambda a, b: a * b))


def unsigned(x: Value, bits: int) -> Value:
    """The value as an unsigned number: in int64 below 64 bits, unchanged at 64."""
    if bits == 64:
        return x
    mask = (1 << bits) - 1
    return (x.to(torch.int64) & mask) if isinstance(x, Tensor) else int(x) & mask


def _safe_divisor(b: Value) -> Value:
    """Replace zero divisors by 1: the result is undefined in MLIR, and torch would raise for inactive
    lanes."""
    if isinstance(b, Tensor):
        return torch.where(b == 0, 1, b)
    return b or 1


def _trunc_div(a: int, b: int) -> int:
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def _division(rounding: str, number: Callable[[int, int], int]) -> Callable[[Op, Env], Run]:
    def build(o: Op, env: Env) -> Run:
        bits = o.result_type.bits

        def run(a: Value, b: Value) -> Value:
            b = _safe_divisor(b)
            if a.__class__ is int and b.__class__ is int:
                return wrap(number(a, b), bits)
            if rounding == "floor" and b.__class__ is int and b > 0 and b & (b - 1) == 0:
                return a >> (b.bit_length() - 1)
            if is_uniform(a):
                a = torch.full_like(b, a)
            return torch.div(a, b, rounding_mode=rounding)

        return run

    return build


op("arith.floordivsi")(_division("floor", lambda a, b: a // b))
op("arith.divsi", "llvm.sdiv")(_division("trunc", _trunc_div))


@op("arith.ceildivsi")
def ceildivsi(o: Op, env: Env) -> Run:
    """Signed division rounding up: -floor(-a / b)."""
    floor = _division("floor", lambda a, b: a // b)(o, env)
    return lambda a, b: -floor(-a, b)


@op("arith.remsi", "llvm.srem")
def remsi(o: Op, env: Env) -> Run:
    """Signed remainder with the sign of the dividend."""

    def run(a: Value, b: Value) -> Value:
        b = _safe_divisor(b)
        if a.__class__ is int and b.__class__ is int:
            return a - _trunc_div(a, b) * b
        return torch.fmod(torch.full_like(b, a) if is_uniform(a) else a, b)

    return run


def _unsigned_division(o: Op, part: str) -> Run:
    bits, dtype = o.result_type.bits, dtype_of(o.result_type)

    def wide(a: Tensor, b: Tensor) -> Tensor:
        """Unsigned 64-bit quotient by halving the dividend and correcting once."""
        q = torch.where(
            a >= 0,
            torch.div(a, b, rounding_mode="trunc"),
            torch.div((a >> 1) & (2**63 - 1), b, rounding_mode="trunc") << 1,
        )
        rest = a - q * b
        q = torch.where(((rest ^ -(2**63)) >= (b ^ -(2**63))) & (a < 0), q + 1, q)
        return torch.where(b < 0, ((a ^ -(2**63)) >= (b ^ -(2**63))).to(torch.int64), q)

    def run(a: Value, b: Value) -> Value:
        b = _safe_divisor(b)
        if a.__class__ is int and b.__class__ is int:
            low, high = a & ((1 << bits) - 1), b & ((1 << bits) - 1)
            return wrap(low // high if part == "quotient" else low % high, bits)
        ua, ub = unsigned(a, bits), unsigned(b, bits)
        if not isinstance(ua, Tensor):
            ua = torch.full_like(ub, ua)
        if bits < 64:
            out = torch.div(ua, ub, rounding_mode="trunc") if part == "quotient" else torch.fmod(ua, ub)
            return out.to(dtype)
        if not isinstance(ub, Tensor):
            ub = torch.full_like(ua, ub)
        q = wide(ua, ub)
        return q if part == "quotient" else ua - q * ub

    return run


@op("arith.divui", "llvm.udiv")
def divui(o: Op, env: Env) -> Run:
    """Unsigned division."""
    return _unsigned_division(o, "quotient")


@op("arith.remui", "llvm.urem")
def remui(o: Op, env: Env) -> Run:
    """Unsigned remainder."""
    return _unsigned_division(o, "remainder")


@op("arith.ceildivui")
def ceildivui(o: Op, env: Env) -> Run:
    """Unsigned division rounding up."""
    quotient, remainder = _unsigned_division(o, "quotient"), _unsigned_division(o, "remainder")

    def run(a: Value, b: Value) -> Value:
        rest = remainder(a, b)
        return quotient(a, b) + ((rest != 0).to(rest.dtype) if isinstance(rest, Tensor) else int(rest != 0))

    return run


def _extreme_unsigned(largest: bool) -> Callable[[Op, Env], Run]:
    def build(o: Op, env: Env) -> Run:
        bits = o.result_type.bits
        flip = -(1 << (bits - 1))

        def run(a: Value, b: Value) -> Value:
            fa, fb = a ^ flip, b ^ flip
            if is_uniform(a) and is_uniform(b):
                return a if (fa >= fb) == largest else b
            pick = fa >= fb if largest else fa <= fb
            return where(pick, a, b, o.result_type, env.device)

        return run

    return build


op("arith.maxui", "llvm.intr.umax")(_extreme_unsigned(True))
op("arith.minui", "llvm.intr.umin")(_extreme_unsigned(False))


def _shift(kind: str) -> Callable[[Op, Env], Run]:
    """Shifts; an amount of the width or more is poison in MLIR and gives 0 here (or the sign)."""

    def build(o: Op, env: Env) -> Run:
        bits, dtype = o.result_type.bits, dtype_of(o.result_type)
        mask = (1 << bits) - 1

        def number(a: int, b: int) -> int:
            if kind == "left":
                return wrap(a << min(b, bits), bits)
            return wrap((a & mask) >> b, bits) if kind == "logical" else a >> b

        def run(a: Value, b: Value) -> Value:
            if a.__class__ is int and b.__class__ is int:
                return number(a, b & mask)
            if b.__class__ is int:
                if b == 0:
                    return a
                if kind == "left":
                    return a << b if b < bits else a * 0
                if kind == "arithmetic":
                    return a >> min(b, bits - 1)
                return ((a >> b) & ((1 << (bits - b)) - 1)) if b < bits else a * 0
            if is_uniform(a):
                a = torch.full_like(b, a)
            if kind == "arithmetic":
                return a >> b.clamp(0, bits - 1)
            over = (b < 0) | (b >= bits)
            safe = torch.where(over, 0, b)
            if kind == "left":
                return torch.where(over, 0, a << safe)
            if bits < 64:
                return torch.where(over, 0, (unsigned(a, bits) >> safe).to(dtype))
            shifted = (a >> safe) & ~torch.where(safe == 0, 0, -1 << (64 - safe).clamp(max=63))
            return torch.where(over, 0, shifted)

        return run

    return build


op("arith.shli", "llvm.shl")(_shift("left"))
op("arith.shrui", "llvm.lshr")(_shift("logical"))
op("arith.shrsi", "llvm.ashr")(_shift("arithmetic"))

_COMPARE: tuple[Callable[[Any, Any], Any], ...] = (
    lambda a, b: a == b,
    lambda a, b: a != b,
    lambda a, b: a < b,
    lambda a, b: a <= b,
    lambda a, b: a > b,
    lambda a, b: a >= b,
)


@op("arith.cmpi", "llvm.icmp")
def cmpi(o: Op, env: Env) -> Run:
    """Integer comparison; predicates eq, ne, slt, sle, sgt, sge, ult, ule, ugt, uge in this order."""
    predicate, first = int(o.attrs["predicate"]), o.operand_types[0]
    if first.kind == "ptr":
        compare = _COMPARE[predicate]
        return lambda a, b: compare(getattr(a, "address", a), getattr(b, "address", b))
    if predicate < 6:
        return _COMPARE[predicate]
    compare = _COMPARE[predicate - 4]
    if first.bits == 1:
        return lambda a, b: compare(a, b)
    flip = -(1 << (first.bits - 1))
    return lambda a, b: compare(a ^ flip, b ^ flip)


@op("arith.select", "llvm.select")
def select(o: Op, env: Env) -> Run:
    """``cond ? a : b`` per lane, or per element when the condition is a vector."""
    result, device = o.result_type, env.device
    vector_cond = bool(o.operand_types[0].shape)

    def run(cond: Value, a: Value, b: Value) -> Value:
        if vector_cond and isinstance(cond, Tensor):
            return torch.where(cond, a, b)
        return where(cond, a, b, result, device)

    return run


@op("arith.bitcast", "llvm.bitcast", "vector.bitcast")
def bitcast_op(o: Op, env: Env) -> Run:
    """The same bits as another type."""
    source, target, device = o.operand_types[0], o.result_type, env.device
    if source.kind == "ptr" or target.kind == "ptr":
        return lambda a: a
    if source.elements * source.bits != target.elements * target.bits:
        raise unknown(o, env, "sizes differ")
    return lambda a: bitcast(a, source, target, device)


@op("arith.mulsi_extended", "arith.mului_extended")
def mul_extended(o: Op, env: Env) -> Run:
    """Both halves of the product (low, high); i32 goes through int64."""
    first, signed = o.result_types[0], "mulsi" in o.name
    if first.bits > 32:
        raise unknown(o, env, "64-bit operands")

    def run(a: Value, b: Value) -> tuple[Value, Value]:
        wide_a, wide_b = (
            to_tensor(a, first, env.device).to(torch.int64),
            to_tensor(b, first, env.device).to(torch.int64),
        )
        if not signed:
            wide_a, wide_b = unsigned(wide_a, first.bits), unsigned(wide_b, first.bits)
        product = wide_a * wide_b
        return product.to(dtype_of(first)), (product >> first.bits).to(dtype_of(first))

    return run


@op("arith.addui_extended")
def addui_extended(o: Op, env: Env) -> Run:
    """Sum and carry-out of an unsigned addition."""
    first = o.result_types[0]
    flip = -(1 << (first.bits - 1))

    def run(a: Value, b: Value) -> tuple[Value, Value]:
        total = to_tensor(a, first, env.device) + b
        return total, (total ^ flip) < (to_tensor(a, first, env.device) ^ flip)

    return run
