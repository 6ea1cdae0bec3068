"""Rewrites one kernel of a lowered module until nothing of AMD's is left in it, or refuses it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flydsl._mlir import ir

from kernel_lint.nvptx import assembly, buffers, maths, permute, small_floats, waves
from kernel_lint.nvptx.build import Builder, replace
from kernel_lint.nvptx.errors import refuse
from kernel_lint.nvptx.facts import Facts, Known

# What MLIR's own conversions to NVVM take.
_NEUTRAL = ("arith.", "scf.", "vector.", "llvm.", "gpu.", "builtin.", "ub.", "cf.", "nvvm.")
# LLVM's intrinsics for which its back end for NVIDIA GPUs has instructions; at others it ends the process.
_INTRINSICS = frozenset(
    f"llvm.{name}"
    for name in (
        "fabs floor ceil trunc rint nearbyint round roundeven copysign fma fmuladd is.fpclass "
        "minnum maxnum minimum maximum smin smax umin umax abs "
        "ctpop ctlz cttz bswap bitreverse fshl fshr sadd.sat uadd.sat ssub.sat usub.sat "
        "sadd.with.overflow uadd.with.overflow ssub.with.overflow usub.with.overflow "
        "smul.with.overflow umul.with.overflow assume memcpy memmove memset lifetime.start lifetime.end "
        "vector.reduce.add vector.reduce.mul vector.reduce.and vector.reduce.or vector.reduce.xor "
        "vector.reduce.smax vector.reduce.smin vector.reduce.umax vector.reduce.umin "
        "vector.reduce.fadd vector.reduce.fmul vector.reduce.fmax vector.reduce.fmin "
        "vector.reduce.fmaximum vector.reduce.fminimum"
    ).split()
)
# AMD's names (LLVM's AMDGPU usage guide, "Memory Scopes") and NVPTX's.
# A wave is two warps, so the block stands for it.
_SCOPES = {
    "": "",
    "agent": "device",
    "workgroup": "block",
    "wavefront": "block",
    "singlethread": "singlethread",
}


def rewrite_kernel(module: Any, kernel: str, known: Known) -> None:
    """Rewrite ``kernel`` in place, and drop the module's other kernels and host functions.

    Raises :class:`~kernel_lint.nvptx.errors.NvptxRefusalError` for the first one without equivalent.
    """
    gpu_module = _isolate(module, kernel)
    function = next(op for op in _body(gpu_module) if op.name == "gpu.func")
    facts = Facts(known)
    found = list(_walk(function))
    wave = waves.Waves(known.block, facts, any(map(_is_block_barrier, found)))
    seen = [wave.look_at(op) if maths.name_of(op) in waves.HANDLED else None for op in found]
    for op, what in zip(found, seen, strict=True):
        facts.forget()
        if what is not None:
            wave.rewrite(op, what)
        else:
            _rewrite(op, facts)
    for op in [op for op in _walk(function) if op.name == buffers.DESCRIPTOR]:
        if any(True for _use in op.results[0].uses):
            raise refuse(op, "its buffer descriptor is used in a way that is not known here")
        op.erase()
    if wave.uses_exchange:
        _add_buffer(gpu_module, waves.EXCHANGE, 4 * wave.threads)
    if wave.matrix_bytes:
        _add_buffer(gpu_module, waves.MATRICES, wave.matrix_bytes)


def _rewrite(op: Any, facts: Facts) -> None:
    name = op.name
    if "syncscope" in op.attributes:
        _translate_scope(op)
    if name in (buffers.LOAD, buffers.STORE):
        buffers.rewrite_buffer(op, facts)
    elif name in waves.DROPPED:
        op.erase()
    elif name in waves.BLOCK_BARRIERS:
        replace(op, Builder(op).make("gpu.barrier", [], []).results)
    elif maths.name_of(op) == permute.NAME:
        permute.rewrite_permute(op)
    elif name in small_floats.NAMES:
        small_floats.rewrite_conversion(op, facts.target)
    elif maths.handles(maths.name_of(op)):
        maths.rewrite_math(op)
    elif name == "llvm.call_intrinsic" and maths.name_of(op) not in _INTRINSICS:
        raise refuse(op, f"it calls {maths.name_of(op)}, for which there is nothing here")
    elif name.startswith("llvm.intr.") and name.replace("intr.", "") not in _INTRINSICS:
        raise refuse(op, "NVIDIA GPUs have no instruction for it, and its library is not bundled")
    elif name == assembly.NAME:
        _rewrite_assembly(op)
    elif name in ("gpu.func", buffers.DESCRIPTOR) or name in maths.PLAIN:
        return
    elif not name.startswith(_NEUTRAL):
        raise refuse(op, "it is an instruction of AMD GPUs")


def _is_block_barrier(op: Any) -> bool:
    return op.name in waves.BLOCK_BARRIERS or bool(assembly.barriers(op))


def _rewrite_assembly(op: Any) -> None:
    count = assembly.barriers(op)
    if count is None:
        raise refuse(op, "it is inline assembly for an AMD GPU")
    for _ in range(count):
        Builder(op).make("gpu.barrier", [], [])
    op.erase()


def _translate_scope(op: Any) -> None:
    """Name whom an atomic operation or a fence is seen by as LLVM's back end for NVIDIA GPUs does."""
    name = op.attributes["syncscope"].value.removesuffix("one-as").removesuffix("-")
    if name not in _SCOPES:
        raise refuse(op, f"its scope is {name}, which is not known here")
    op.attributes["syncscope"] = ir.StringAttr.get(_SCOPES[name])


def _isolate(module: Any, kernel: str) -> Any:
    """Drop everything but the module of ``kernel`` and, in it, that kernel and the variables."""
    wanted = None
    for op in _body(module.operation):
        inner = list(_body(op)) if op.name == "gpu.module" else []
        if any(_symbol(x) == kernel for x in inner):
            wanted = op
            for other in inner:
                if other.name == "gpu.func" and _symbol(other) != kernel:
                    other.erase()
        else:
            op.erase()
    assert wanted is not None
    return wanted


def _add_buffer(gpu_module: Any, name: str, size: int) -> None:
    """Add a variable in shared memory."""
    text = f"!llvm.array<{size // 4} x i32>"
    attributes = {
        "sym_name": f'"{name}"', "global_type": text, "addr_space": "3 : i32",
        "alignment": "16 : i64", "linkage": "#llvm.linkage<internal>",
    }  # fmt: skip
    with gpu_module.location, ir.InsertionPoint.at_block_begin(gpu_module.regions[0].blocks[0]):
        parsed = {name: ir.Attribute.parse(value) for name, value in attributes.items()}
        ir.Operation.create("llvm.mlir.global", attributes=parsed, regions=1)


def _symbol(op: Any) -> str:
    return str(op.attributes["sym_name"].value) if "sym_name" in op.attributes else ""


def _body(op: Any) -> Iterator[Any]:
    for view in list(op.regions[0].blocks[0].operations):
        yield view.operation


def _walk(op: Any) -> Iterator[Any]:
    """Yield an operation and all inside, operands' definitions first."""
    yield op
    for region in op.regions:
        for block in region.blocks:
            for view in list(block.operations):
                yield from _walk(view.operation)
