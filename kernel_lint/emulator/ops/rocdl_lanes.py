"""``rocdl``: moves between the lanes of a wave, ids. The moves are :mod:`..numerics.lanes` and ``dpp``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from kernel_lint.emulator import access
from kernel_lint.emulator.accesses import Site
from kernel_lint.emulator.ir import MType, Op
from kernel_lint.emulator.machine import Machine, Mask
from kernel_lint.emulator.memory import from_units
from kernel_lint.emulator.numerics import dpp, lanes
from kernel_lint.emulator.registry import Env, Run, op
from kernel_lint.emulator.values import Tensor, Value, is_uniform, to_tensor


def active(m: Machine, mask: Mask) -> Tensor | None:
    """The mask at full extent, or None for all lanes."""
    return None if mask is None else mask.expand(m.count, m.lanes)


def per_component(m: Machine, value: Tensor, move: Callable[[Tensor], Tensor]) -> Tensor:
    """Apply a move of scalars to each element of a vector."""
    if value.ndim == 2:
        return move(m.spread(value))
    flat = m.spread(value).reshape(m.count, m.lanes, -1)
    moved = torch.stack([move(flat[..., i]) for i in range(flat.shape[-1])], -1)
    return moved.reshape(m.count, m.lanes, *value.shape[2:])


@op("rocdl.ds_bpermute", context=True)
def ds_bpermute(o: Op, env: Env) -> Run:
    """Each lane reads the lane that its index (bytes, 4 a lane) names."""
    types = o.operand_types

    def run(m: Machine, mask: Mask, index: Value, src: Value) -> Tensor:
        value, address = to_tensor(src, types[1], m.device), to_tensor(index, types[0], m.device)
        if value.shape[1] == 1:
            return value
        m.checker.lanes_read(m, mask, (address >> 2) & (m.wave - 1), o.place)
        return lanes.ds_bpermute(address, m.spread(value), active(m, mask), m.wave)

    return run


@op("rocdl.ds_swizzle", context=True)
def ds_swizzle(o: Op, env: Env) -> Run:
    """Each lane reads the lane that a constant pattern names."""
    first = o.operand_types[0]

    def run(m: Machine, mask: Mask, src: Value, offset: Value) -> Tensor:
        return lanes.ds_swizzle(
            m.spread(to_tensor(src, first, m.device)), int(offset), active(m, mask), m.wave
        )

    return run


@op("rocdl.readlane", context=True)
def readlane(o: Op, env: Env) -> Run:
    """One lane's value in all lanes of the wave."""
    first = o.operand_types[0]

    def run(m: Machine, mask: Mask, src: Value, lane: Value) -> Tensor:
        value = to_tensor(src, first, m.device)
        return value if value.shape[1] == 1 else lanes.readlane(m.spread(value), lane, m.wave)

    return run


@op("rocdl.readfirstlane", context=True)
def readfirstlane(o: Op, env: Env) -> Run:
    """The first active lane's value in all lanes of the wave."""

    def run(m: Machine, mask: Mask, src: Value) -> Value:
        if is_uniform(src) or not isinstance(src, Tensor) or src.shape[1] == 1:
            return src
        if m.waves == 1 and mask is None:
            return src[:, :1]
        return per_component(m, src, lambda x: lanes.readfirstlane(x, active(m, mask), m.wave))

    return run


@op("rocdl.ballot", context=True)
def ballot(o: Op, env: Env) -> Run:
    """The bit mask of the active lanes whose predicate holds."""
    first, result = o.operand_types[0], o.result_type

    def run(m: Machine, mask: Mask, predicate: Value) -> Tensor:
        votes = m.spread(to_tensor(predicate, first, m.device))
        enabled = active(m, mask if mask is not None else m.mask)
        out = lanes.ballot(votes, enabled, m.wave)
        return out.to(torch.int32) if result.bits == 32 else out

    return run


@op("rocdl.mbcnt.lo", "rocdl.mbcnt.hi", context=True)
def mbcnt(o: Op, env: Env) -> Run:
    """How many bits of a mask belong to lanes below one's own."""
    types = o.operand_types
    count = lanes.mbcnt_lo if o.name.endswith("lo") else lanes.mbcnt_hi

    def run(m: Machine, mask: Mask, bits: Value, base: Value) -> Tensor:
        return count(
            to_tensor(bits, types[0], m.device), to_tensor(base, types[1], m.device), m.lanes, m.wave
        )

    return run


def run_dpp(
    m: Machine,
    mask: Mask,
    old: Value,
    src: Value,
    mtype: MType,
    ctrl: int,
    rows: int,
    banks: int,
    bound: bool,
) -> Tensor:
    """``v_mov_b32`` with DPP; see :func:`..numerics.dpp.update_dpp`."""
    return dpp.update_dpp(
        m.spread(to_tensor(old, mtype, m.device)),
        m.spread(to_tensor(src, mtype, m.device)),
        ctrl,
        rows,
        banks,
        bound,
        active(m, mask),
        m.wave,
    )


@op("rocdl.update.dpp", context=True)
def update_dpp(o: Op, env: Env) -> Run:
    """Data-parallel primitive: a move within rows of 16 lanes, quads, or the wave."""
    a, first = o.attrs, o.operand_types[0]
    settings = int(a["dppCtrl"]), int(a["rowMask"]), int(a["bankMask"]), bool(a.get("boundCtrl", False))
    return lambda m, mask, old, src: run_dpp(m, mask, old, src, first, *settings)


@op("rocdl.permlane32.swap", "rocdl.permlane16.swap", context=True)
def permlane_swap(o: Op, env: Env) -> Run:
    """Exchange halves of two registers between lanes (gfx950)."""
    types, rows = o.operand_types, 32 if "32" in o.name else 16

    def run(m: Machine, mask: Mask, old: Value, src: Value) -> Any:
        first, second = (m.spread(to_tensor(v, t, m.device)) for v, t in zip((old, src), types, strict=True))
        return lanes.permlane_swap(first, second, rows, active(m, mask), m.wave)

    return run


_TRANSPOSED = {"tr16.b64": 16, "tr8.b64": 8, "tr4.b64": 4, "tr6.b96": 6}
BYTES = MType("int", "i8", 8)


def transposed_read(m: Machine, mask: Mask, pointer: Value, bits: int, result: MType, o: Op) -> Tensor:
    """A transposing LDS read (gfx950): every lane's 8 (12) bytes, exchanged within 16 lanes."""
    raw_type = MType("int", "i8", 8, (12 if bits == 6 else 8,))
    raw = access.load(m, None, pointer, Site(raw_type, o.place, 3))
    moved = lanes.transpose_read(m.spread(raw).contiguous().view(torch.uint8), bits, m.wave)
    return from_units(moved.reshape(-1).view(torch.int8), (m.count, m.lanes), result)


@op(*(f"rocdl.ds.read.{name}" for name in _TRANSPOSED), context=True)
def ds_read_tr(o: Op, env: Env) -> Run:
    """A transposing LDS read for MFMA operands."""
    bits, result = _TRANSPOSED[o.name.removeprefix("rocdl.ds.read.")], o.result_type
    return lambda m, mask, pointer: transposed_read(m, mask, pointer, bits, result, o)


def _number(which: str, axis: int) -> Callable[[Op, Env], Run]:
    def build(o: Op, env: Env) -> Run:
        bits = o.result_type.bits
        dtype = torch.int32 if bits == 32 else torch.int64

        def run(m: Machine, mask: Mask) -> Tensor:
            value = m.thread_id(axis) if which == "workitem" else m.block_id(axis)
            return value.to(dtype)

        return run

    return build


for _axis, _letter in enumerate("xyz"):
    op(f"rocdl.workitem.id.{_letter}", context=True)(_number("workitem", _axis))
    op(f"rocdl.workgroup.id.{_letter}", context=True)(_number("workgroup", _axis))


@op("rocdl.wavefrontsize")
def wavefrontsize(o: Op, env: Env) -> Run:
    """Lanes of a wave."""
    return lambda: env.wave


@op("rocdl.wave.id", context=True)
def wave_id(o: Op, env: Env) -> Run:
    """The wave's number in its workgroup."""
    return lambda m, mask: (m.thread // m.wave).to(torch.int32)
