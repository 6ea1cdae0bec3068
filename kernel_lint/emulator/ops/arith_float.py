"""``arith``: floating-point arithmetic and comparison. https://mlir.llvm.org/docs/Dialects/ArithOps/"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from kernel_lint.emulator.ir import Op
from kernel_lint.emulator.registry import Env, Run, op
from kernel_lint.emulator.values import Tensor, Value, round_float


def _nan(x: Value) -> Value:
    return x != x


_ORDERED: dict[int, Callable[[Any, Any], Any]] = {
    1: lambda a, b: a == b,
    2: lambda a, b: a > b,
    3: lambda a, b: a >= b,
    4: lambda a, b: a < b,
    5: lambda a, b: a <= b,
    6: lambda a, b: (a < b) | (a > b),
    7: lambda a, b: (a == a) & (b == b),
    8: lambda a, b: (a == b) | _nan(a) | _nan(b),
    9: lambda a, b: (a > b) | _nan(a) | _nan(b),
    10: lambda a, b: (a >= b) | _nan(a) | _nan(b),
    11: lambda a, b: (a < b) | _nan(a) | _nan(b),
    12: lambda a, b: (a <= b) | _nan(a) | _nan(b),
    13: lambda a, b: a != b,
    14: lambda a, b: _nan(a) | _nan(b),
}


@op("arith.cmpf", "llvm.fcmp")
def cmpf(o: Op, env: Env) -> Run:
    """Floating-point comparison; o* are false and u* true when an operand is a NaN."""
    predicate = int(o.attrs["predicate"])
    if predicate in (0, 15):
        return lambda a, b: predicate == 15
    return _ORDERED[predicate]


def _float_binary(tensor: Callable[[Any, Any], Any]) -> Callable[[Op, Env], Run]:
    """A float operation, rounded to the result type; bf16 and f16 compute in f32 and round once, as
    LLVM's promotion of them does."""

    def build(o: Op, env: Env) -> Run:
        name = o.result_type.name

        def run(a: Value, b: Value) -> Value:
            if a.__class__ is float and b.__class__ is float:
                t = torch.tensor(a, dtype=torch.float64), torch.tensor(b, dtype=torch.float64)
                return round_float(float(tensor(*t)), name)
            return tensor(a, b)

        return run

    return build


def _divide(a: Value, b: Value) -> Value:
    return torch.div(a, b) if isinstance(a, Tensor) else torch.full_like(b, a) / b


def _pair(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Any, Any], Any]:
    def run(a: Value, b: Value) -> Tensor:
        if not isinstance(a, Tensor):
            a = torch.full((), a, dtype=b.dtype, device=b.device)
        elif not isinstance(b, Tensor):
            b = torch.full((), b, dtype=a.dtype, device=a.device)
        return function(a, b)

    return run


op("arith.addf", "llvm.fadd")(_float_binary(lambda a, b: a + b))
op("arith.subf", "llvm.fsub")(_float_binary(lambda a, b: a - b))
op("arith.mulf", "llvm.fmul")(_float_binary(lambda a, b: a * b))
op("arith.divf", "llvm.fdiv")(_float_binary(_divide))
op("arith.remf", "llvm.frem")(_float_binary(_pair(torch.fmod)))
# maximumf and minimumf give NaN when either operand is one; maxnumf and minnumf give the other operand.
op("arith.maximumf", "llvm.intr.maximum")(_float_binary(_pair(torch.maximum)))
op("arith.minimumf", "llvm.intr.minimum")(_float_binary(_pair(torch.minimum)))
op("arith.maxnumf", "llvm.intr.maxnum")(_float_binary(_pair(torch.fmax)))
op("arith.minnumf", "llvm.intr.minnum")(_float_binary(_pair(torch.fmin)))


@op("arith.negf", "llvm.fneg")
def negf(o: Op, env: Env) -> Run:
    """Negation; flips the sign of zeros and NaNs too."""
    return lambda a: -a
