"""``math`` and LLVM's math intrinsics. https://mlir.llvm.org/docs/Dialects/MathOps/

Computed by torch in f32 (f64 for f64) and rounded to the result type; the hardware's own
functions are within 1 ulp of these (CDNA3 ISA, section "Transcendental", V_EXP_F32 and others).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from kernel_lint.emulator.ir import Op
from kernel_lint.emulator.registry import Env, Run, op
from kernel_lint.emulator.values import Tensor, Value, dtype_of, is_uniform, to_tensor

Unary = Callable[[Tensor], Tensor]

FUNCTIONS: dict[str, Unary] = {
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "exp": torch.exp,
    "exp2": torch.exp2,
    "expm1": torch.expm1,
    "log": torch.log,
    "log2": torch.log2,
    "log10": torch.log10,
    "log1p": torch.log1p,
    "sin": torch.sin,
    "cos": torch.cos,
    "tan": torch.tan,
    "asin": torch.asin,
    "acos": torch.acos,
    "atan": torch.atan,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "tanh": torch.tanh,
    "asinh": torch.asinh,
    "acosh": torch.acosh,
    "atanh": torch.atanh,
    "erf": torch.erf,
    "erfc": torch.erfc,
    "absf": torch.abs,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "trunc": torch.trunc,
    "roundeven": torch.round,
    # Halves away from zero; adding 0.5 first would round the number just below a half up.
    "round": lambda x: torch.copysign(torch.trunc(x).abs() + (torch.abs(torch.frac(x)) >= 0.5), x),
    "cbrt": lambda x: torch.copysign(torch.pow(torch.abs(x), 1.0 / 3.0), x),
}
_LLVM_NAMES = {"fabs": "absf", "rint": "roundeven", "nearbyint": "roundeven"}


def unary(function: Unary) -> Callable[[Op, Env], Run]:
    """A builder for a float function of one operand."""

    def build(o: Op, env: Env) -> Run:
        result = o.result_type
        dtype = dtype_of(result)
        narrow = dtype in (torch.float16, torch.bfloat16)

        def run(a: Value) -> Value:
            if is_uniform(a):
                return float(function(torch.tensor(a, dtype=torch.float64)).to(dtype))
            return function(a.to(torch.float32)).to(dtype) if narrow else function(a)

        return run

    return build


def _register() -> None:
    for name, function in FUNCTIONS.items():
        op(f"math.{name}")(unary(function))
    for name in (
        "sqrt",
        "exp",
        "exp2",
        "log",
        "log2",
        "log10",
        "sin",
        "cos",
        "floor",
        "ceil",
        "trunc",
        "roundeven",
        "round",
        "tanh",
    ):
        op(f"llvm.intr.{name}")(unary(FUNCTIONS[name]))
    for llvm_name, name in _LLVM_NAMES.items():
        op(f"llvm.intr.{llvm_name}")(unary(FUNCTIONS[name]))


_register()


@op("math.fma", "llvm.intr.fma", "llvm.intr.fmuladd")
def fma(o: Op, env: Env) -> Run:
    """a * b + c with one rounding: through f64 the product of two f32 is exact and only the sum rounds
    twice."""
    result, dtype = o.result_type, dtype_of(o.result_type)

    def run(a: Value, b: Value, c: Value) -> Value:
        if is_uniform(a) and is_uniform(b) and is_uniform(c):
            return float(torch.tensor(a * b + c, dtype=torch.float64).to(dtype))
        a, b, c = (x if is_uniform(x) else x.to(torch.float64) for x in (a, b, c))
        out = a * b + c
        return out.to(dtype) if isinstance(out, Tensor) else to_tensor(out, result, env.device)

    return run


@op("math.powf", "llvm.intr.pow")
def powf(o: Op, env: Env) -> Run:
    """a to the power b."""
    first, dtype = o.operand_types[0], dtype_of(o.result_type)

    def run(a: Value, b: Value) -> Value:
        if is_uniform(a) and is_uniform(b):
            return float(torch.tensor(math.pow(a, b), dtype=torch.float64).to(dtype))
        return torch.pow(to_tensor(a, first, env.device), to_tensor(b, first, env.device)).to(dtype)

    return run


@op("math.fpowi", "llvm.intr.powi", "math.ipowi")
def fpowi(o: Op, env: Env) -> Run:
    """a to an integer power."""
    types, dtype = o.operand_types, dtype_of(o.result_type)

    def run(a: Value, b: Value) -> Value:
        return torch.pow(to_tensor(a, types[0], env.device), to_tensor(b, types[1], env.device)).to(dtype)

    return run


@op("math.atan2")
def atan2(o: Op, env: Env) -> Run:
    """The angle of the point (b, a)."""
    first, dtype = o.operand_types[0], dtype_of(o.result_type)
    return lambda a, b: torch.atan2(to_tensor(a, first, env.device), to_tensor(b, first, env.device)).to(
        dtype
    )


@op("math.copysign", "llvm.intr.copysign")
def copysign(o: Op, env: Env) -> Run:
    """The magnitude of a with the sign of b."""
    first = o.operand_types[0]
    return lambda a, b: torch.copysign(to_tensor(a, first, env.device), to_tensor(b, first, env.device))


@op("math.absi", "llvm.intr.abs")
def absi(o: Op, env: Env) -> Run:
    """Absolute value of a signed integer; the most negative one stays itself."""
    bits = o.result_type.bits

    def run(a: Value, *_poison: Value) -> Value:
        return torch.abs(a) if isinstance(a, Tensor) else (a if a == -(1 << (bits - 1)) else abs(a))

    return run


@op("math.isnan")
def isnan(o: Op, env: Env) -> Run:
    """Whether a is not a number."""
    return lambda a: torch.isnan(a) if isinstance(a, Tensor) else a != a


@op("math.isinf")
def isinf(o: Op, env: Env) -> Run:
    """Whether a is an infinity."""
    return lambda a: torch.isinf(a) if isinstance(a, Tensor) else math.isinf(a)


@op("math.isfinite")
def isfinite(o: Op, env: Env) -> Run:
    """Whether a is neither an infinity nor a NaN."""
    return lambda a: torch.isfinite(a) if isinstance(a, Tensor) else math.isfinite(a)


def popcount(a: Tensor, bits: int) -> Tensor:
    """Number of ones in the low ``bits`` bits of each element."""
    mask = (1 << bits) - 1 if bits < 64 else -1
    x = a.to(torch.int64) & mask
    total = torch.zeros_like(x)
    for shift in range(0, bits, 16):
        part = (x >> shift) & 0xFFFF
        part = part - ((part >> 1) & 0x5555)
        part = (part & 0x3333) + ((part >> 2) & 0x3333)
        part = (part + (part >> 4)) & 0x0F0F
        total += (part + (part >> 8)) & 0x1F
    return total


@op("math.ctpop", "llvm.intr.ctpop")
def ctpop(o: Op, env: Env) -> Run:
    """Number of ones."""
    bits, dtype = o.result_type.bits, dtype_of(o.result_type)
    return lambda a: (
        popcount(a, bits).to(dtype) if isinstance(a, Tensor) else (a & ((1 << bits) - 1)).bit_count()
    )


def _trailing_mask(x: Tensor) -> Tensor:
    return (x & -x) - 1


@op("math.cttz", "llvm.intr.cttz")
def cttz(o: Op, env: Env) -> Run:
    """Number of trailing zeros; the width for 0."""
    first, bits, dtype = o.operand_types[0], o.result_type.bits, dtype_of(o.result_type)

    def run(a: Value, *_poison: Value) -> Value:
        return popcount(_trailing_mask(to_tensor(a, first, env.device)), bits).to(dtype)

    return run


@op("math.ctlz", "llvm.intr.ctlz")
def ctlz(o: Op, env: Env) -> Run:
    """Number of leading zeros; the width for 0."""
    first, bits, dtype = o.operand_types[0], o.result_type.bits, dtype_of(o.result_type)

    def run(a: Value, *_poison: Value) -> Value:
        x = to_tensor(a, first, env.device).to(torch.int64)
        x = x & ((1 << bits) - 1) if bits < 64 else x
        shift = 1
        while shift < bits:
            x = x | ((x >> shift) & ((1 << (64 - shift)) - 1))
            shift *= 2
        return (bits - popcount(x, bits)).to(dtype)

    return run
