"""``rocdl``: buffer resources, raw buffer loads, stores and atomics, copies to LDS.

Sources: "AMD Instinct MI300 (CDNA3) Instruction Set Architecture", chapter 9 "Vector Memory Operations"
(buffer addressing, range checking of raw buffers); LLVM AMDGPUUsage, "Buffer Resources".
"""

from __future__ import annotations

from typing import Any

import torch

from kernel_lint.emulator import access, atomics
from kernel_lint.emulator.accesses import BufferAddress, Site
from kernel_lint.emulator.ir import MType, Op, Place
from kernel_lint.emulator.machine import Machine, Mask
from kernel_lint.emulator.memory import Ptr, Resource
from kernel_lint.emulator.numerics import lanes as lane_moves
from kernel_lint.emulator.registry import Env, Run, op, unknown
from kernel_lint.emulator.values import Tensor, Value, is_uniform


@op("rocdl.make.buffer.rsrc")
def make_buffer_rsrc(o: Op, env: Env) -> Run:
    """A descriptor of base, stride, bytes and flags."""

    def run(base: Value, stride: Value, records: Value, flags: Value) -> Resource:
        pointer = base if isinstance(base, Ptr) else Ptr(None, base)
        if is_uniform(records):
            # num_records has 32 bits in the descriptor of gfx9 (CDNA3 ISA, table "Buffer Resource
            # Descriptor").
            records = int(records) & 0xFFFFFFFF
        return Resource(
            pointer, stride, records if is_uniform(records) else records.to(torch.int64) & 0xFFFFFFFF, flags
        )

    return run


@op("rocdl.raw.ptr.buffer.load", context=True)
def raw_ptr_buffer_load(o: Op, env: Env) -> Run:
    """Load at resource + offset + soffset."""
    site = Site(o.result_type, o.place)

    def run(m: Machine, mask: Mask, rsrc: Resource, offset: Value, soffset: Value, aux: Value = 0) -> Tensor:
        return access.buffer_load(m, mask, BufferAddress(rsrc, offset, soffset), site)

    return run


@op("rocdl.raw.ptr.buffer.store", context=True)
def raw_ptr_buffer_store(o: Op, env: Env) -> Run:
    """Store at resource + offset + soffset."""
    site = Site(o.operand_types[0], o.place)

    def run(
        m: Machine, mask: Mask, value: Value, rsrc: Resource, offset: Value, soffset: Value, aux: Value = 0
    ) -> None:
        access.buffer_store(m, mask, BufferAddress(rsrc, offset, soffset), value, site)

    return run


_ATOMICS = {"fadd": "fadd", "fmax": "fmax", "smax": "max", "umin": "umin"}


@op(*(f"rocdl.raw.ptr.buffer.atomic.{name}" for name in _ATOMICS), context=True)
def raw_ptr_buffer_atomic(o: Op, env: Env) -> Run:
    """Atomic at resource + offset + soffset."""
    site = Site(o.operand_types[0], o.place)
    atomic = atomics.atomic_of(_ATOMICS[o.name.rsplit(".", 1)[1]], site.mtype)
    assert atomic is not None

    def run(
        m: Machine, mask: Mask, value: Value, rsrc: Resource, offset: Value, soffset: Value, aux: Value = 0
    ) -> Value:
        return atomics.buffer_atomic(m, mask, BufferAddress(rsrc, offset, soffset), (value,), site, atomic)

    return run


@op("rocdl.raw.ptr.buffer.atomic.cmpswap", context=True)
def raw_ptr_buffer_cmpswap(o: Op, env: Env) -> Run:
    """Compare and swap at resource + offset + soffset; gives the old value."""
    site = Site(o.operand_types[0], o.place)

    def run(
        m: Machine,
        mask: Mask,
        new: Value,
        expected: Value,
        rsrc: Resource,
        offset: Value,
        soffset: Value,
        aux: Value = 0,
    ) -> Value:
        address = BufferAddress(rsrc, offset, soffset)
        return atomics.buffer_atomic(m, mask, address, (expected, new), site, atomics.EXCHANGE_IF_EQUAL)

    return run


def _bytes_type(size: int) -> MType:
    if size in (1, 2):
        return MType("int", f"i{8 * size}", 8 * size)
    return MType("int", "i32", 32, (size // 4,)) if size > 4 else MType("int", "i32", 32)


def wave_base(m: Machine, mask: Mask, pointer: Value) -> Ptr:
    """The LDS address that a copy to LDS takes from M0: that of the wave's first active lane."""
    ptr = pointer if isinstance(pointer, Ptr) else Ptr(m.lds, pointer)
    if isinstance(ptr.off, Tensor) and ptr.off.shape[1] > 1:
        active = None if mask is None else mask.expand(m.count, m.lanes)
        return Ptr(ptr.region or m.lds, lane_moves.readfirstlane(m.spread(ptr.off), active, m.wave))
    return Ptr(ptr.region or m.lds, ptr.off)


def lds_site(size: int, place: Place) -> Site:
    """A store of ``size`` bytes a lane to LDS."""
    return Site(_bytes_type(size), place, 3)


def store_to_lds(m: Machine, mask: Mask, lds: Value, data: Tensor, offset: Value, site: Site) -> None:
    """Write each lane's bytes at base + offset + lane * size (CDNA3 ISA, "Buffer Load to LDS"; gfx950 adds 96
    and 128 bits with the same rule)."""
    base = wave_base(m, mask, lds)
    access.store(m, mask, base.moved(m.thread % m.wave * site.size + offset), data, site)


@op("rocdl.raw.ptr.buffer.load.lds", "rocdl.raw.ptr.buffer.load.async.lds", context=True)
def raw_ptr_buffer_load_lds(o: Op, env: Env) -> Run:
    """Copy from a buffer to LDS without registers; the immediate offset counts on both sides."""

    def run(
        m: Machine,
        mask: Mask,
        rsrc: Resource,
        lds: Value,
        size: Value,
        voffset: Value,
        soffset: Value,
        offset: Value,
        *aux: Value,
    ) -> None:
        if not is_uniform(size) or not is_uniform(offset):
            raise unknown(o, env, "a size or offset that is not constant")
        site = Site(_bytes_type(int(size)), o.place)
        data = access.buffer_load(m, mask, BufferAddress(rsrc, voffset, soffset + offset), site)
        store_to_lds(m, mask, lds, data, offset, lds_site(int(size), o.place))

    return run


@op(
    "rocdl.global.load.lds",
    "rocdl.load.to.lds",
    "rocdl.global.load.async.lds",
    "rocdl.load.async.to.lds",
    context=True,
)
def global_load_lds(o: Op, env: Env) -> Run:
    """Copy from global memory to LDS without registers."""
    size, offset = int(o.attrs["size"]), int(o.attrs["offset"])
    site, target = Site(_bytes_type(size), o.place, o.operand_types[0].space), lds_site(size, o.place)

    def run(m: Machine, mask: Mask, pointer: Value, lds: Value, *aux: Value) -> None:
        base = pointer if isinstance(pointer, Ptr) else Ptr(None, pointer)
        store_to_lds(m, mask, lds, access.load(m, mask, base.moved(offset), site), offset, target)

    return run


def scalar_buffer_load(o: Op, env: Env) -> Run:
    """``s.buffer.load``: a load whose offset is the same in all lanes of the wave."""
    site = Site(o.result_type, o.place)

    def run(m: Machine, mask: Mask, rsrc: Any, offset: Value, policy: Value = 0) -> Tensor:
        return access.buffer_load(m, None, BufferAddress(rsrc, offset), site)

    return run


op("rocdl.ptr.s.buffer.load", context=True)(scalar_buffer_load)
