"""Constants, zeros and undefined values of every dialect."""

from __future__ import annotations

from typing import Any

import torch

from kernel_lint.emulator.ir import MType, Op
from kernel_lint.emulator.registry import Env, Run, op
from kernel_lint.emulator.values import Value, dtype_of, full, wrap


def _constant(mtype: MType, value: Any, device: str) -> Value:
    if not mtype.shape:
        if mtype.kind == "float" and dtype_of(mtype) is torch.int8:
            return _narrow_constant(mtype, value)
        return (
            bool(value)
            if mtype.bits == 1
            else (float(value) if mtype.kind == "float" else wrap(int(value), mtype.bits))
        )
    if mtype.kind == "float" and dtype_of(mtype) is torch.int8:
        value = tuple(_narrow_constant(mtype, v) for v in value)
    elif mtype.bits > 1 and mtype.kind != "float":
        value = tuple(wrap(int(v), mtype.bits) for v in value)
    if len(value) == 1:
        return full(value[0], mtype, device)
    return torch.tensor(value, dtype=dtype_of(mtype), device=device).reshape(1, 1, *mtype.shape)


def _narrow_constant(mtype: MType, value: float) -> int:
    from kernel_lint.emulator.ops.convert import encode_float

    return int(encode_float(torch.tensor([float(value)]), mtype.name)[0])


@op("arith.constant", "llvm.mlir.constant")
def constant(o: Op, env: Env) -> Run:
    """A constant; uniform unless it is a vector."""
    value = o.attrs["value"]
    result = o.result_type
    if isinstance(value, str) and result.kind == "float" and not result.shape:
        value = float(value.split(":")[0])
    made = _constant(result, value, env.device)
    return lambda: made


@op("ub.poison", "llvm.mlir.poison", "llvm.mlir.undef")
def poison(o: Op, env: Env) -> Run:
    """An undefined value: every bit set (a NaN for floats), so that a use of it shows in the numbers."""
    result = o.result_type
    if result.kind == "struct":
        return lambda: (None,) * len(result.fields)
    if result.kind == "ptr":
        return lambda: 0
    if result.kind == "float" and dtype_of(result).is_floating_point:
        made: Value = full(float("nan"), result, env.device) if result.shape else float("nan")
    else:
        ones = True if result.bits == 1 else -1
        made = full(ones, result, env.device) if result.shape else ones
    return lambda: made


@op("llvm.mlir.zero")
def zero(o: Op, env: Env) -> Run:
    """The null pointer, or zero of any type (LLVM LangRef, ``zeroinitializer``)."""
    result = o.result_type
    if result.kind == "ptr":
        return lambda: 0
    made = full(0, result, env.device) if result.shape else (0.0 if result.kind == "float" else 0)
    return lambda: made
