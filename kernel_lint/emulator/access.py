"""Loads and stores: bounds, alignment and masks, then the bytes.

Reports go through the machine's checker; what a load gives out of bounds is zero and what a store
writes there is dropped, whether or not the check is on, so that the emulator itself stays within the tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import torch

from kernel_lint.emulator.accesses import Accesses, BufferAddress, Site, Window
from kernel_lint.emulator.ir import MType, Place
from kernel_lint.emulator.machine import Machine, Mask
from kernel_lint.emulator.memory import (
    Ptr,
    Region,
    Resource,
    aligned_unit,
    from_units,
    gather,
    scatter,
    to_units,
)
from kernel_lint.emulator.numerics.packing import joint_shape
from kernel_lint.emulator.values import Tensor, Value, dtype_of, to_tensor

NOWHERE = Region(torch.empty(0, dtype=torch.int8), 1, 0, 0, "no live tensor")
Part = TypeVar("Part")
MASK32 = 0xFFFFFFFF


def lanes_of(value: Value, device: str) -> Tensor:
    """An offset as a tensor of [workgroups or 1, lanes or 1]."""
    return (
        value
        if isinstance(value, Tensor)
        else torch.full((1, 1), int(value), dtype=torch.int64, device=device)
    )


def resolve(m: Machine, mask: Mask, ptr: Value, space: int) -> list[tuple[Region, Tensor, Mask]]:
    """Where a pointer points: its region, offsets and the lanes concerned; several for a mixture of
    tensors."""
    if isinstance(ptr, Ptr) and ptr.region is not None:
        parent = ptr.region.parent
        # A kernel that computes with addresses may walk from one LDS variable to the next on purpose.
        region = parent if parent is not None and parent.open else ptr.region
        return [(region, lanes_of(ptr.off, m.device), mask)]
    address = lanes_of(ptr.off if isinstance(ptr, Ptr) else ptr, m.device)
    if space in (3, 5):
        assert m.lds is not None
        return [(m.lds, address, mask)]
    return _resolve_absolute(m, mask, address.to(torch.int64))


def _resolve_absolute(m: Machine, mask: Mask, address: Tensor) -> list[tuple[Region, Tensor, Mask]]:
    rest = torch.ones((1, 1), dtype=torch.bool, device=m.device) if mask is None else mask
    out: list[tuple[Region, Tensor, Mask]] = []
    while True:
        alive = (rest & (address == address)).expand(joint_shape(rest.shape, address.shape))
        hits = alive.nonzero()
        if not len(hits):
            return out
        first = int(address.expand(alive.shape)[int(hits[0][0]), int(hits[0][1])])
        pointer = m.memory.pointer(first)
        region = pointer.region
        if region is None:
            out.append((NOWHERE, address, alive))
            return out
        inside = (address >= region.base) & (address < region.base + region.hi)
        alone = not out and bool((inside | ~alive).all())
        out.append((region, address - region.base, mask if alone else alive & inside))
        rest = alive & ~inside


def load(m: Machine, mask: Mask, ptr: Value, site: Site) -> Value:
    """Load a value in every active lane."""
    mtype = site.mtype
    if mtype.kind == "struct":
        return tuple(load(m, mask, at, member) for at, member in _members(ptr, site))
    parts = resolve(m, mask, ptr, site.space)
    if not parts:
        return torch.zeros((1, 1, *mtype.shape), dtype=torch.int64, device=m.device)
    places = [((region, off), lanes) for region, off, lanes in parts]
    value = joined(m, places, mtype, lambda at, lanes: _load_region(m, lanes, *at, site))
    return Ptr(None, value) if mtype.kind == "ptr" else value


def _members(ptr: Value, site: Site) -> Iterator[tuple[Ptr, Site]]:
    """Where each member of a struct lies; members promise no alignment."""
    base = ptr if isinstance(ptr, Ptr) else Ptr(None, ptr)
    offsets, _ = site.mtype.struct_layout()
    for offset, mtype in zip(offsets, site.mtype.fields, strict=True):
        yield base.moved(offset), Site(mtype, site.place, site.space)


def _out_of_range(region: Region, off: Tensor, size: int) -> bool:
    low, high = torch.aminmax(off)
    return bool(low < region.lo) or bool(high > region.hi - size)


def _load_region(m: Machine, mask: Mask, region: Region, off: Tensor, site: Site) -> Tensor:
    size = site.size
    if site.align > 1 and m.checker.alignment:
        m.checker.check_alignment(m, mask, region, off, site.align, site.place)
    if _out_of_range(region, off, size):
        bad = (off < region.lo) | (off > region.hi - size)
        active = bad if mask is None else bad & mask
        if bool(active.any()):
            m.checker.out_of_bounds(m, active, region, off, size, site.place, "load")
        return _load_some(m, mask, region, off, ~bad, site)
    return _load_all(m, mask, region, off, site)


def _load_all(m: Machine, mask: Mask, region: Region, off: Tensor, site: Site) -> Tensor:
    """Load where every offset lies inside."""
    size = site.size
    flat = off + region.instance
    unit = aligned_unit(flat, size)
    m.checker.loaded(m, mask, region, flat, size, unit, site.place)
    return from_units(gather(region.views, flat, size, unit), tuple(flat.shape), site.mtype)


def _load_some(m: Machine, mask: Mask, region: Region, off: Tensor, good: Tensor, site: Site) -> Tensor:
    """Load where ``good`` holds and give zero elsewhere."""
    size = site.size
    flat = off + region.instance
    chosen = good if mask is None else good & mask
    shape = joint_shape(flat.shape, chosen.shape)
    rows = chosen.expand(shape).reshape(-1).nonzero().squeeze(1)
    out = torch.zeros((shape[0] * shape[1], size), dtype=torch.int8, device=m.device)
    if len(rows):
        some = flat.expand(shape).reshape(-1).index_select(0, rows)
        unit = aligned_unit(some, size)
        m.checker.loaded_some(m, Accesses(region, some, rows, shape, size, unit, site.place))
        out[rows] = gather(region.views, some, size, unit).view(torch.int8).reshape(-1, size)
    return from_units(out.reshape(-1), tuple(shape), site.mtype)


def store(m: Machine, mask: Mask, ptr: Value, value: Value, site: Site) -> None:
    """Store a value in every active lane."""
    if site.mtype.kind == "struct":
        for (at, member), part in zip(_members(ptr, site), value, strict=True):
            store(m, mask, at, part, member)
        return
    if isinstance(value, Ptr):
        value = value.address
    size, tensor = site.size, to_tensor(value, site.mtype.element, m.device)
    for region, off, lanes in resolve(m, mask, ptr, site.space):
        if site.align > 1 and m.checker.alignment:
            m.checker.check_alignment(m, lanes, region, off, site.align, site.place)
        if _out_of_range(region, off, size):
            bad = (off < region.lo) | (off > region.hi - size)
            active = bad if lanes is None else bad & lanes
            if bool(active.any()):
                m.checker.out_of_bounds(m, active, region, off, size, site.place, "store")
            lanes = ~bad if lanes is None else lanes & ~bad
        _store_region(m, lanes, region, off, tensor, site)


def _store_region(m: Machine, mask: Mask, region: Region, off: Tensor, value: Tensor, site: Site) -> None:
    size = site.size
    flat = off + region.instance
    shape = joint_shape(flat.shape, value.shape[:2], mask.shape if mask is not None else (1, 1))
    flat = flat.expand(shape).reshape(-1)
    rows = None
    if mask is not None:
        rows = mask.expand(shape).reshape(-1).nonzero().squeeze(1)
        if not len(rows):
            return
        flat = flat.index_select(0, rows)
    unit = aligned_unit(flat, size)
    data = to_units(value, tuple(shape), site.mtype, unit)
    if rows is not None:
        data = data.reshape(-1, size // unit).index_select(0, rows).reshape(-1)
    m.checker.stored(m, Accesses(region, flat, rows, shape, size, unit, site.place), data)
    scatter(region.views, flat, data, size, unit)


def window(m: Machine, address: BufferAddress) -> Window:
    """Where a raw buffer access goes."""
    resource, v, s = address
    v = v.to(torch.int64) & MASK32 if isinstance(v, Tensor) else int(v) & MASK32
    s = s.to(torch.int64) & MASK32 if isinstance(s, Tensor) else int(s) & MASK32
    inside = lanes_of(v + s, m.device)
    pointer = resource.ptr if isinstance(resource.ptr, Ptr) else Ptr(None, resource.ptr)
    if pointer.region is None:
        first = int(lanes_of(pointer.off, m.device).reshape(-1)[0])
        region = m.memory.pointer(first).region or NOWHERE
        pointer = Ptr(region, pointer.off - region.base)
    assert pointer.region is not None
    records = resource.records
    limit = records if isinstance(records, Tensor) else records & (2**64 - 1)
    return Window(pointer.region, inside + pointer.off, inside, limit)


def by_tensor(m: Machine, mask: Mask, address: BufferAddress) -> list[tuple[BufferAddress, Mask]]:
    """An address as one for each tensor that its descriptor names, with the lanes concerned.

    A descriptor lives in scalar registers, but waves may have chosen different ones.
    """
    resource = address.resource
    pointer = resource.ptr if isinstance(resource.ptr, Ptr) else Ptr(None, resource.ptr)
    if pointer.region is not None or not isinstance(pointer.off, Tensor) or pointer.off.numel() == 1:
        return [(address, mask)]
    parts = _resolve_absolute(m, mask, pointer.off.to(torch.int64))
    return [
        (
            address._replace(
                resource=Resource(Ptr(region, off), resource.stride, resource.records, resource.flags)
            ),
            lanes,
        )
        for region, off, lanes in parts
    ]


def buffer_load(m: Machine, mask: Mask, address: BufferAddress, site: Site) -> Tensor:
    """``raw.ptr.buffer.load``: dwords past num_records give zero (CDNA3 ISA, "Buffer Addressing", raw
    buffers)."""
    parts = by_tensor(m, mask, address)
    return joined(m, parts, site.mtype, lambda part, lanes: _buffer_load(m, lanes, window(m, part), site))


def joined(
    m: Machine, parts: list[tuple[Part, Mask]], mtype: MType, give: Callable[[Part, Mask], Tensor]
) -> Tensor:
    """What an access gives in each lane, made tensor by tensor; zero where no lane is active."""
    value: Tensor | None = None
    for part, lanes in parts:
        got = give(part, lanes)
        if value is None or lanes is None:
            value = got
        else:
            value = torch.where(lanes.reshape(*lanes.shape, *(1,) * len(mtype.shape)), got, value)
    if value is None:
        value = torch.zeros((1, 1, *mtype.shape), dtype=dtype_of(mtype), device=m.device)
    return value


def _steps(size: int, place: Place) -> tuple[int, Site]:
    """The unit of bounds checking of a raw buffer: a dword, or the whole of a smaller access."""
    step = min(size, 4)
    return step, Site(MType("int", f"i{8 * step}", 8 * step), place)


def _buffer_load(m: Machine, mask: Mask, to: Window, site: Site) -> Tensor:
    region, off, size = to.region, to.off, site.size
    if to.whole(size):
        return _load_all(m, mask, region, off, site)
    step, dword = _steps(size, site.place)
    shape = joint_shape(
        off.shape,
        mask.shape if mask is not None else (1, 1),
        to.limit.shape if isinstance(to.limit, Tensor) else (1, 1),
    )
    raw = torch.zeros((*shape, size), dtype=torch.int8, device=m.device)
    for at in range(0, size, step):
        allowed, real = to.allowed(at, step), to.real(at, step)
        beyond = allowed & ~real if mask is None else allowed & ~real & mask
        if bool(beyond.any()):
            m.checker.out_of_bounds(m, beyond, region, off + at, step, site.place, "buffer load")
        part = _load_some(m, mask, region, off + at, allowed & real, dword)
        raw[..., at : at + step] = part.contiguous().unsqueeze(-1).view(torch.int8)
        if step > 1:
            _load_straddling(m, region, off + at, allowed & ~real, raw[..., at : at + step], site.place)
    return from_units(raw.reshape(-1), tuple(shape), site.mtype)


def _load_straddling(
    m: Machine, region: Region, off: Tensor, lanes: Tensor, raw: Tensor, place: Place
) -> None:
    """Fill the bytes that exist of elements that lie partly outside their tensor: a GPU reads them all."""
    size = raw.shape[-1]
    partly = lanes & (off + size > region.lo) & (off < region.hi)
    if not bool(partly.any()):
        return
    byte = Site(MType("int", "i8", 8), place)
    for at in range(size):
        exists = partly & (off + at >= region.lo) & (off + at < region.hi)
        got = _load_some(m, None, region, off + at, exists, byte)
        raw[..., at] = torch.where(exists, got, raw[..., at])


def buffer_store(m: Machine, mask: Mask, address: BufferAddress, value: Value, site: Site) -> None:
    """``raw.ptr.buffer.store``: dwords past num_records are dropped."""
    tensor = to_tensor(value, site.mtype.element, m.device)
    for part, lanes in by_tensor(m, mask, address):
        _buffer_store(m, lanes, window(m, part), tensor, site)


def _buffer_store(m: Machine, mask: Mask, to: Window, value: Tensor, site: Site) -> None:
    size = site.size
    if to.whole(size):
        _store_region(m, mask, to.region, to.off, value, site)
        return
    step, dword = _steps(size, site.place)
    dwords = to_units(value, tuple(value.shape[:2]), site.mtype, step).reshape(*value.shape[:2], size // step)
    for i, at in enumerate(range(0, size, step)):
        allowed, real = to.allowed(at, step), to.real(at, step)
        beyond = allowed & ~real if mask is None else allowed & ~real & mask
        if bool(beyond.any()):
            m.checker.out_of_bounds(m, beyond, to.region, to.off + at, step, site.place, "buffer store")
        good = allowed & real if mask is None else allowed & real & mask
        _store_region(m, good, to.region, to.off + at, dwords[..., i], dword)
