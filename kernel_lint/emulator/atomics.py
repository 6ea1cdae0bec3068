"""Atomic operations: lanes that hit the same address are served one after the other, in lane order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from kernel_lint.emulator import access
from kernel_lint.emulator.accesses import Accesses, BufferAddress, Site, Window
from kernel_lint.emulator.ir import MType
from kernel_lint.emulator.machine import Machine, Mask
from kernel_lint.emulator.memory import (
    Ptr,
    Region,
    aligned_unit,
    from_units,
    gather,
    scatter,
    to_units,
)
from kernel_lint.emulator.values import Tensor, Value, dtype_of, to_tensor

Update = Callable[..., Tensor]


@dataclass(frozen=True, slots=True)
class Atomic:
    """An atomic: LLVM's name of it, and the function (old, operands...) -> new."""

    kind: str
    update: Update


def _flip(mtype: MType) -> int:
    return -(1 << (mtype.bits - 1))


def atomic_of(kind: str, mtype: MType) -> Atomic | None:
    """The atomic that LLVM calls ``kind``; None for a kind that is not known."""
    flip = _flip(mtype)
    table: dict[str, Update] = {
        "xchg": lambda old, v: v,
        "add": lambda old, v: old + v,
        "sub": lambda old, v: old - v,
        "and": lambda old, v: old & v,
        "nand": lambda old, v: ~(old & v),
        "or": lambda old, v: old | v,
        "xor": lambda old, v: old ^ v,
        "max": torch.maximum,
        "min": torch.minimum,
        "umax": lambda old, v: torch.maximum(old ^ flip, v ^ flip) ^ flip,
        "umin": lambda old, v: torch.minimum(old ^ flip, v ^ flip) ^ flip,
        "fadd": lambda old, v: old + v,
        "fsub": lambda old, v: old - v,
        "fmax": torch.fmax,
        "fmin": torch.fmin,
        "fmaximum": torch.maximum,
        "fminimum": torch.minimum,
        "uinc_wrap": lambda old, v: torch.where((old ^ flip) >= (v ^ flip), torch.zeros_like(old), old + 1),
        "udec_wrap": lambda old, v: torch.where((old == 0) | ((old ^ flip) > (v ^ flip)), v, old - 1),
    }
    return Atomic(kind, table[kind]) if kind in table else None


EXCHANGE_IF_EQUAL = Atomic("cmpxchg", lambda old, expected, new: torch.where(old == expected, new, old))


def read_modify_write(
    m: Machine, mask: Mask, ptr: Value, operands: tuple[Value, ...], site: Site, atomic: Atomic
) -> Value:
    """Run an atomic in every active lane and return the old values (0 in the other lanes)."""
    mtype = site.mtype
    tensors = _tensors(m, operands, mtype)
    total: Tensor | None = None
    for region, off, lanes in access.resolve(m, mask, ptr, site.space):
        bad = (off < region.lo) | (off > region.hi - mtype.size)
        active = bad if lanes is None else bad & lanes
        if bool(active.any()):
            m.checker.out_of_bounds(m, active, region, off, mtype.size, site.place, "atomic")
            lanes = ~bad if lanes is None else lanes & ~bad
        old = _apply(m, lanes, (region, off), tensors, site, atomic)
        total = (
            old if total is None or lanes is None else torch.where(lanes.expand(old.shape[:2]), old, total)
        )
    if total is None:
        return torch.zeros((1, 1, *mtype.shape), dtype=dtype_of(mtype), device=m.device)
    return Ptr(None, total) if mtype.kind == "ptr" else total


def buffer_atomic(
    m: Machine, mask: Mask, address: BufferAddress, operands: tuple[Value, ...], site: Site, atomic: Atomic
) -> Value:
    """An atomic through a buffer resource; out of num_records it does nothing and gives 0."""
    tensors = _tensors(m, operands, site.mtype)
    return access.joined(
        m,
        access.by_tensor(m, mask, address),
        site.mtype,
        lambda part, lanes: _buffer_atomic(m, lanes, access.window(m, part), tensors, site, atomic),
    )


def _buffer_atomic(
    m: Machine, mask: Mask, to: Window, operands: list[Tensor], site: Site, atomic: Atomic
) -> Tensor:
    size, allowed = site.size, to.allowed(0, site.size)
    lanes = allowed if mask is None else allowed & mask
    bad = lanes & ~to.real(0, size)
    if bool(bad.any()):
        m.checker.out_of_bounds(m, bad, to.region, to.off, size, site.place, "buffer atomic")
        lanes = lanes & ~bad
    return _apply(m, lanes, (to.region, to.off), operands, site, atomic)


def _tensors(m: Machine, operands: tuple[Value, ...], mtype: MType) -> list[Tensor]:
    return [to_tensor(v.address if isinstance(v, Ptr) else v, mtype.element, m.device) for v in operands]


def _apply(
    m: Machine, mask: Mask, at: tuple[Region, Tensor], operands: list[Tensor], site: Site, atomic: Atomic
) -> Tensor:
    (region, off), mtype = at, site.mtype
    flat = m.spread(off + region.instance).reshape(-1)
    shape = (m.count, m.lanes)
    chosen = mask if m.mask is None or mask is not None else m.mask
    rows = (
        torch.arange(flat.numel(), device=m.device)
        if chosen is None
        else chosen.expand(shape).reshape(-1).nonzero().squeeze(1)
    )
    out = torch.zeros((flat.numel(), *mtype.shape), dtype=dtype_of(mtype), device=m.device)
    if not len(rows):
        return out.reshape(*shape, *mtype.shape)
    some = flat.index_select(0, rows)
    values = [
        v.expand(*shape, *mtype.shape).reshape(-1, *mtype.shape).index_select(0, rows) for v in operands
    ]
    m.checker.atomic(m, Accesses(region, some, rows, shape, mtype.size, min(mtype.size, 4), site.place))
    unit = aligned_unit(some, mtype.size)
    if atomic.kind == "add" and not mtype.shape:
        out[rows] = _sums(region, some, values[0], mtype, unit)
    else:
        out[rows] = _rounds(region, some, values, mtype, unit, atomic.update)
    return out.reshape(*shape, *mtype.shape)


def _ranks(flat: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Sort order of the addresses, the start of each run of equal ones, and the place of each in its run."""
    order = torch.argsort(flat, stable=True)
    ordered = flat[order]
    first = torch.ones_like(ordered, dtype=torch.bool)
    first[1:] = ordered[1:] != ordered[:-1]
    positions = torch.arange(len(ordered), device=flat.device)
    start = torch.where(first, positions, 0).cummax(0)[0]
    return order, start, positions - start


def _sums(region: Region, flat: Tensor, values: Tensor, mtype: MType, unit: int) -> Tensor:
    """Integer additions: the old value of each lane is the running sum before it."""
    order, start, _ = _ranks(flat)
    ordered = values[order].to(torch.int64)
    running = ordered.cumsum(0)
    before = running - ordered
    memory = from_units(gather(region.views, flat[order], mtype.size, unit), (len(flat),), mtype).to(
        torch.int64
    )
    old = memory + before - before[start]
    new = (old + ordered).to(values.dtype)
    last = torch.ones_like(order, dtype=torch.bool)
    last[:-1] = flat[order][1:] != flat[order][:-1]
    scatter(
        region.views,
        flat[order][last],
        to_units(new[last], (int(last.sum()),), mtype, unit),
        mtype.size,
        unit,
    )
    out = torch.empty_like(values)
    out[order] = old.to(values.dtype)
    return out


def _rounds(
    region: Region, flat: Tensor, values: list[Tensor], mtype: MType, unit: int, update: Update
) -> Tensor:
    """The n-th lane of every address in the n-th round."""
    order, _, rank = _ranks(flat)
    out = torch.empty_like(values[0])
    by_rank = torch.argsort(rank, stable=True)
    counts = torch.bincount(rank).tolist()
    at = 0
    for count in counts:
        lanes = order[by_rank[at : at + count]]
        at += count
        some = flat[lanes]
        old = from_units(gather(region.views, some, mtype.size, unit), (count,), mtype)
        new = update(old, *(v[lanes] for v in values))
        scatter(region.views, some, to_units(new.to(old.dtype), (count,), mtype, unit), mtype.size, unit)
        out[lanes] = old
    return out
