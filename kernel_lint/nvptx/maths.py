"""Functions of floats as the instructions that NVIDIA GPUs have; no library of device code is needed.

Errors by the PTX ISA 8.0 (section "Floating Point Instructions"): ``ex2.approx.f32`` 2 ulp,
``rsqrt.approx.f32`` 2^-22.9 relative, ``rcp.approx.f32`` 1 ulp, ``lg2.approx.f32`` 2^-22.6 absolute between
0.5 and 2, also behind the natural logarithm; ``sqrt.rn.f32`` is exact. What has no such instruction (sine,
cosine, tanh, error function...) is refused.
"""

from __future__ import annotations

import math
from typing import Any

from kernel_lint.nvptx.build import Builder, replace
from kernel_lint.nvptx.errors import refuse

_LOG2_E = math.log2(math.e)
# The part of log2(e) that float32 loses (1.44269502 is its rounding).
_LOG2_E_REST = _LOG2_E - 1.44269502162933349609375

_INSTRUCTIONS = {
    "exp2": "ex2.approx.f32",
    "rsqrt": "rsqrt.approx.f32",
    "sqrt": "sqrt.rn.f32",
    "rcp": "rcp.approx.f32",
    "log2": "lg2.approx.f32",
}
_NAMES = {
    "math.exp2": "exp2", "math.rsqrt": "rsqrt", "math.sqrt": "sqrt", "math.log2": "log2", "math.exp": "exp",
    "rocdl.exp2": "exp2", "rocdl.rcp": "rcp", "rocdl.rsq": "rsqrt", "rocdl.sqrt": "sqrt", "rocdl.log": "log2",
    "llvm.intr.exp2": "exp2", "llvm.intr.sqrt": "sqrt", "llvm.intr.log2": "log2", "llvm.intr.exp": "exp",
    "llvm.amdgcn.exp2": "exp2", "llvm.amdgcn.rcp": "rcp", "llvm.amdgcn.rsq": "rsqrt",
    "llvm.amdgcn.sqrt": "sqrt", "llvm.amdgcn.log": "log2", "llvm.exp2": "exp2", "llvm.sqrt": "sqrt",
    "llvm.log2": "log2", "llvm.exp": "exp", "math.log": "log", "llvm.intr.log": "log", "llvm.log": "log",
}  # fmt: skip
# LLVM selects instructions for these in every float type. MLIR's conversion would call a library of device
# code, or refuse the operation, so they go to LLVM by name.
_SELECTED = ("fabs", "fma", "floor", "ceil", "trunc", "round", "roundeven", "copysign")
_BY_NAME = {
    "math.absf": "fabs",
    "arith.maxnumf": "maxnum",
    "arith.minnumf": "minnum",
    **{f"{dialect}{name}": name for dialect in ("math.", "llvm.intr.") for name in _SELECTED},
}
# These become plain arithmetic in MLIR's own conversion.
PLAIN = frozenset({"math.ctpop", "math.ctlz", "math.cttz"})


def name_of(op: Any) -> str:
    """Return an operation's name, or that of the intrinsic which it calls, without its types."""
    if op.name != "llvm.call_intrinsic":
        return str(op.name)
    name = str(op.attributes["intrin"].value)
    while name.rpartition(".")[2][:1] in ("f", "i", "b", "v") and name.rpartition(".")[2][-1:].isdigit():
        name = name.rpartition(".")[0]
    return name


def handles(name: str) -> bool:
    """Return whether an operation is one of this module's."""
    return name in _NAMES or (name.startswith("math.") and name not in PLAIN) or name in _BY_NAME


def rewrite_math(op: Any) -> None:
    """Replace a function of f32 or of a vector of f32; raises the refusal of any other."""
    mtype = op.results[0].type
    text = str(mtype)
    if op.name in _BY_NAME:
        replace(op, [_call(op, _BY_NAME[op.name], mtype)])
        return
    if op.name == "math.absi":
        build = Builder(op)
        replace(op, [build.value("llvm.intr.abs", mtype, op.operands[0], is_int_min_poison="false")])
        return
    name = _NAMES.get(name_of(op))
    if name is None:
        raise refuse(op, "NVIDIA GPUs have no instruction for it, and its library is not bundled")
    if not (
        text == "f32" or (text.startswith("vector<") and text.endswith("xf32>") and text.count("x") == 1)
    ):
        raise refuse(op, f"it computes in {text}; f32 is supported")
    build = Builder(op)
    value = op.operands[0]
    if text == "f32":
        replace(op, [_scalar(build, name, value)])
        return
    count = int(text[len("vector<") : text.index("x", 7)])
    parts = [
        build.value("vector.extract", build.f32, value, static_position=f"array<i64: {i}>")
        for i in range(count)
    ]
    replace(op, [build.value("vector.from_elements", mtype, *[_scalar(build, name, part) for part in parts])])


def _call(op: Any, name: str, mtype: Any) -> Any:
    text = str(mtype)
    suffix = f"v{text[len('vector<') :].rstrip('>').replace('x', '')}" if text.startswith("vector<") else text
    return Builder(op).call(f"llvm.{name}.{suffix}", mtype, *op.operands)


def _scalar(build: Builder, name: str, value: Any) -> Any:
    def times(factor: float) -> Any:
        constant = build.value("arith.constant", build.f32, value=f"{factor!r} : f32")
        return build.value("arith.mulf", build.f32, value, constant)

    if name == "log":
        value = instruction(build, _INSTRUCTIONS["log2"], value)
        return times(math.log(2))
    if name != "exp":
        return instruction(build, _INSTRUCTIONS[name], value)

    # exp(x) = 2^(x log2 e): the product's rounding error would grow with x, so it is added back.
    high = times(_LOG2_E)
    negative = build.value("arith.negf", build.f32, high)
    constant = build.value("arith.constant", build.f32, value=f"{_LOG2_E - _LOG2_E_REST!r} : f32")
    error = build.call("llvm.fma.f32", build.f32, value, constant, negative)
    low = build.value("arith.addf", build.f32, error, times(_LOG2_E_REST))
    parts = [instruction(build, _INSTRUCTIONS["exp2"], part) for part in (high, low)]
    return build.value("arith.mulf", build.f32, *parts)


def instruction(build: Builder, text: str, value: Any) -> Any:
    """Return one PTX instruction of a float."""
    return build.value(
        "llvm.inline_asm", build.f32, value, asm_string=f'"{text} $0, $1;"', constraints='"=f,f"'
    )
