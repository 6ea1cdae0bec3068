"""``llvm.call_intrinsic``: LLVM's AMDGPU intrinsics by name. https://llvm.org/docs/AMDGPUUsage.html"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from kernel_lint.emulator.ir import Op
from kernel_lint.emulator.machine import Machine, Mask
from kernel_lint.emulator.numerics import conversions, formats, lanes
from kernel_lint.emulator.numerics.packing import joint_shape
from kernel_lint.emulator.ops import rocdl_buffer, rocdl_lanes
from kernel_lint.emulator.registry import TABLE, Env, Run, op, unknown
from kernel_lint.emulator.values import Tensor, Value, to_tensor

Build = Callable[[Op, Env], Run]
# Intrinsics that are another spelling of an operation of the table; a type suffix (.f32, .i32) is cut off
# first.
_SAME = {
    "llvm.amdgcn.rcp": "rocdl.rcp",
    "llvm.amdgcn.rsq": "rocdl.rsq",
    "llvm.amdgcn.sqrt": "rocdl.sqrt",
    "llvm.amdgcn.exp2": "rocdl.exp2",
    "llvm.amdgcn.log": "rocdl.log",
    "llvm.amdgcn.sin": "rocdl.sin",
    "llvm.amdgcn.cos": "rocdl.cos",
    "llvm.amdgcn.tanh": "rocdl.tanh",
    "llvm.amdgcn.fract": "rocdl.fract",
    "llvm.amdgcn.fmed3": "rocdl.fmed3",
    "llvm.amdgcn.ds.bpermute": "rocdl.ds_bpermute",
    "llvm.amdgcn.ds.swizzle": "rocdl.ds_swizzle",
    "llvm.amdgcn.readlane": "rocdl.readlane",
    "llvm.amdgcn.readfirstlane": "rocdl.readfirstlane",
    "llvm.amdgcn.ballot": "rocdl.ballot",
    "llvm.amdgcn.mbcnt.lo": "rocdl.mbcnt.lo",
    "llvm.amdgcn.mbcnt.hi": "rocdl.mbcnt.hi",
    "llvm.amdgcn.s.barrier": "rocdl.s.barrier",
    "llvm.amdgcn.wave.barrier": "rocdl.wave.barrier",
    "llvm.amdgcn.sched.barrier": "rocdl.sched.barrier",
    "llvm.amdgcn.sched.group.barrier": "rocdl.sched.group.barrier",
    "llvm.amdgcn.s.waitcnt": "rocdl.s.waitcnt",
    "llvm.amdgcn.s.setprio": "rocdl.s.setprio",
    "llvm.amdgcn.s.sleep": "rocdl.s.sleep",
    "llvm.amdgcn.s.nop": "rocdl.s.nop",
    "llvm.amdgcn.raw.ptr.buffer.load": "rocdl.raw.ptr.buffer.load",
    "llvm.amdgcn.raw.ptr.buffer.store": "rocdl.raw.ptr.buffer.store",
    "llvm.amdgcn.cvt.pkrtz": "rocdl.cvt.pkrtz",
    "llvm.exp2": "math.exp2",
    "llvm.log2": "math.log2",
    "llvm.sqrt": "math.sqrt",
    "llvm.fabs": "math.absf",
    "llvm.floor": "math.floor",
    "llvm.ceil": "math.ceil",
    "llvm.trunc": "math.trunc",
    "llvm.rint": "math.roundeven",
    "llvm.roundeven": "math.roundeven",
    "llvm.fma": "math.fma",
    "llvm.maxnum": "arith.maxnumf",
    "llvm.minnum": "arith.minnumf",
    "llvm.maximum": "arith.maximumf",
    "llvm.minimum": "arith.minimumf",
    "llvm.smax": "arith.maxsi",
    "llvm.smin": "arith.minsi",
    "llvm.umax": "arith.maxui",
    "llvm.umin": "arith.minui",
}
_OWN: dict[str, tuple[Build, bool]] = {"llvm.amdgcn.s.buffer.load": (rocdl_buffer.scalar_buffer_load, True)}


def intrinsic(name: str, *, context: bool = False) -> Callable[[Build], Build]:
    """Register a builder for an intrinsic."""

    def register(build: Build) -> Build:
        _OWN[name] = (build, context)
        return build

    return register


def _stem(name: str) -> str:
    """The name without type suffixes, cut until it is known.

    >>> _stem("llvm.amdgcn.rcp.f32")
    'llvm.amdgcn.rcp'
    """
    while name and name not in _SAME and name not in _OWN:
        name = name.rpartition(".")[0]
    return name


@op("llvm.call_intrinsic", context=True)
def call_intrinsic(o: Op, env: Env) -> Run:
    """Call an intrinsic by name."""
    name = str(o.attrs["intrin"])
    stem = _stem(name)
    if stem in _OWN:
        build, context = _OWN[stem]
    elif stem and _SAME[stem] in TABLE:
        entry = TABLE[_SAME[stem]]
        build, context = entry.build, entry.context
    else:
        raise unknown(o, env, name)
    run = build(replace(o, name=_SAME.get(stem, o.name)), env)
    return run if context else lambda m, mask, *values: run(*values)


@intrinsic("llvm.amdgcn.update.dpp", context=True)
def update_dpp(o: Op, env: Env) -> Run:
    """``v_mov_b32`` with DPP: old, source, control, row mask, bank mask, bound control."""
    first = o.operand_types[0]

    def run(
        m: Machine, mask: Mask, old: Value, src: Value, ctrl: Value, rows: Value, banks: Value, bound: Value
    ) -> Tensor:
        return rocdl_lanes.run_dpp(m, mask, old, src, first, int(ctrl), int(rows), int(banks), bool(bound))

    return run


@intrinsic("llvm.amdgcn.mov.dpp", context=True)
def mov_dpp(o: Op, env: Env) -> Run:
    """``update.dpp`` without an old value."""
    first = o.operand_types[0]

    def run(
        m: Machine, mask: Mask, src: Value, ctrl: Value, rows: Value, banks: Value, bound: Value
    ) -> Tensor:
        return rocdl_lanes.run_dpp(m, mask, 0, src, first, int(ctrl), int(rows), int(banks), bool(bound))

    return run


@intrinsic("llvm.amdgcn.perm")
def perm(o: Op, env: Env) -> Run:
    """``v_perm_b32``: four bytes of eight."""
    types = o.operand_types

    def run(*values: Value) -> Tensor:
        high, low, selector = (to_tensor(v, t, env.device) for v, t in zip(values, types, strict=True))
        return lanes.perm_b32(high, low, selector)

    return run


@intrinsic("llvm.amdgcn.ds.permute", context=True)
def ds_permute(o: Op, env: Env) -> Run:
    """Each lane writes to the lane that its index names."""
    types = o.operand_types

    def run(m: Machine, mask: Mask, index: Value, src: Value) -> Tensor:
        address, value = (
            m.spread(to_tensor(v, t, m.device)) for v, t in zip((index, src), types, strict=True)
        )
        return lanes.ds_permute(address, value, rocdl_lanes.active(m, mask), m.wave)

    return run


@intrinsic("llvm.amdgcn.cvt.sr.bf16.f32")
def cvt_sr_bf16(o: Op, env: Env) -> Run:
    """A float to bf16 by random bits: old vector, value, random, which half."""
    result = o.result_type

    def run(old: Tensor, value: Value, random: Value, high: Value) -> Tensor:
        number, bits = (
            to_tensor(value, o.operand_types[1], env.device),
            to_tensor(random, o.operand_types[2], env.device),
        )
        head = joint_shape(old.shape[:2], number.shape, bits.shape)
        word = old.expand(*head, 2).contiguous().view(torch.int32).squeeze(-1)
        out = conversions.cvt_sr_16_f32(number, bits, word, bool(high), formats.BF16)
        return out.unsqueeze(-1).view(torch.bfloat16).reshape(*head, *result.shape)

    return run


@intrinsic("llvm.amdgcn.s.setreg")
def s_setreg(o: Op, env: Env) -> Run:
    """Writes a hardware register (the float mode): not modelled, f32 rounds to nearest even and keeps
    denormals."""
    return lambda *_: None


@intrinsic("llvm.amdgcn.workitem.id.x", context=True)
def workitem_id_x(o: Op, env: Env) -> Run:
    """The thread's x."""
    return lambda m, mask: m.thread_id(0).to(torch.int32)


@intrinsic("llvm.amdgcn.workgroup.id.x", context=True)
def workgroup_id_x(o: Op, env: Env) -> Run:
    """The workgroup's x."""
    return lambda m, mask: m.block_id(0).to(torch.int32)
