"""Loads and stores: bounds, alignment and masks, then the bytes.

Reports go through the machine's checker; what a load gives out of bounds is zero and what a store
writes there is dropped, whether or not the check is on, so that the emulator itself stays within the tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

from kernel_lint.emulator.accesses import Accesses
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


def load(m: Machine, mask: Mask, ptr: Value, mtype: MType, place: Place, space: int, align: int = 0) -> Value:
    """Load a value of ``mtype`` in every active lane."""
    if mtype.kind == "struct":
        base = ptr if isinstance(ptr, Ptr) else Ptr(None, ptr)
        offsets, _ = mtype.struct_layout()
        return tuple(
            load(m, mask, base.moved(o), t, place, space) for o, t in zip(offsets, mtype.fields, strict=True)
        )
    parts = resolve(m, mask, ptr, space)
    if not parts:
        return torch.zeros((1, 1, *mtype.shape), dtype=torch.int64, device=m.device)
    places = [((region, off), lanes) for region, off, lanes in parts]
    value = joined(m, places, mtype, lambda at, lanes: _load_region(m, lanes, *at, mtype, place, align))
    return Ptr(None, value) if mtype.kind == "ptr" else value


def _out_of_range(region: Region, off: Tensor, size: int) -> bool:
    low, high = torch.aminmax(off)
    return bool(low < region.lo) or bool(high > region.hi - size)


def _load_region(
    m: Machine, mask: Mask, region: Region, off: Tensor, mtype: MType, place: Place, align: int
) -> Tensor:
    size = mtype.size
    if align > 1 and m.checker.alignment:
        m.checker.check_alignment(m, mask, region, off, align, place)
    if _out_of_range(region, off, size):
        bad = (off < region.lo) | (off > region.hi - size)
        active = bad if mask is None else bad & mask
        if bool(active.any()):
            m.checker.out_of_bounds(m, active, region, off, size, place, "load")
        return _load_some(m, mask, region, off, ~bad, mtype, place)
    flat = off + region.instance
    unit = aligned_unit(flat, size)
    m.checker.loaded(m, mask, region, flat, size, unit, place)
    return from_units(gather(region.views, flat, size, unit), tuple(flat.shape), mtype)


def _load_some(
    m: Machine, mask: Mask, region: Region, off: Tensor, good: Tensor, mtype: MType, place: Place
) -> Tensor:
    """Load where ``good`` holds and give zero elsewhere."""
    flat = off + region.instance
    chosen = good if mask is None else good & mask
    shape = joint_shape(flat.shape, chosen.shape)
    rows = chosen.expand(shape).reshape(-1).nonzero().squeeze(1)
    out = torch.zeros((shape[0] * shape[1], mtype.size), dtype=torch.int8, device=m.device)
    if len(rows):
        some = flat.expand(shape).reshape(-1).index_select(0, rows)
        unit = aligned_unit(some, mtype.size)
        m.checker.loaded_some(m, Accesses(region, some, rows, shape, mtype.size, unit, place))
        out[rows] = gather(region.views, some, mtype.size, unit).view(torch.int8).reshape(-1, mtype.size)
    return from_units(out.reshape(-1), tuple(shape), mtype)


def store(
    m: Machine, mask: Mask, ptr: Value, value: Value, mtype: MType, place: Place, space: int, align: int = 0
) -> None:
    """Store a value in every active lane."""
    if mtype.kind == "struct":
        base = ptr if isinstance(ptr, Ptr) else Ptr(None, ptr)
        offsets, _ = mtype.struct_layout()
        for o, t, v in zip(offsets, mtype.fields, value, strict=True):
            store(m, mask, base.moved(o), v, t, place, space)
        return
    if isinstance(value, Ptr):
        value = value.address
    tensor = to_tensor(value, mtype.element, m.device)
    for region, off, lanes in resolve(m, mask, ptr, space):
        if align > 1 and m.checker.alignment:
            m.checker.check_alignment(m, lanes, region, off, align, place)
        if _out_of_range(region, off, mtype.size):
            bad = (off < region.lo) | (off > region.hi - mtype.size)
            active = bad if lanes is None else bad & lanes
            if bool(active.any()):
                m.checker.out_of_bounds(m, active, region, off, mtype.size, place, "store")
            lanes = ~bad if lanes is None else lanes & ~bad
        _store_region(m, lanes, region, off, tensor, mtype, place)


def _store_region(
    m: Machine, mask: Mask, region: Region, off: Tensor, value: Tensor, mtype: MType, place: Place
) -> None:
    flat = off + region.instance
    shape = joint_shape(flat.shape, value.shape[:2], mask.shape if mask is not None else (1, 1))
    flat = flat.expand(shape).reshape(-1)
    rows = None
    if mask is not None:
        rows = mask.expand(shape).reshape(-1).nonzero().squeeze(1)
        if not len(rows):
            return
        flat = flat.index_select(0, rows)
    unit = aligned_unit(flat, mtype.size)
    data = to_units(value, tuple(shape), mtype, unit)
    if rows is not None:
        data = data.reshape(-1, mtype.size // unit).index_select(0, rows).reshape(-1)
    m.checker.stored(m, Accesses(region, flat, rows, shape, mtype.size, unit, place), data)
    scatter(region.views, flat, data, mtype.size, unit)


def buffer_offsets(
    m: Machine, resource: Resource, voffset: Value, soffset: Value
) -> tuple[Region, Tensor, Tensor, Value]:
    """A raw buffer access: region, offsets in it, offsets in the buffer (unsigned 32-bit), the region's
    base offset."""
    v = voffset.to(torch.int64) & MASK32 if isinstance(voffset, Tensor) else int(voffset) & MASK32
    s = soffset.to(torch.int64) & MASK32 if isinstance(soffset, Tensor) else int(soffset) & MASK32
    inside = lanes_of(v + s, m.device)
    pointer = resource.ptr if isinstance(resource.ptr, Ptr) else Ptr(None, resource.ptr)
    if pointer.region is None:
        first = int(lanes_of(pointer.off, m.device).reshape(-1)[0])
        region = m.memory.pointer(first).region or NOWHERE
        pointer = Ptr(region, pointer.off - region.base)
    assert pointer.region is not None
    return pointer.region, inside + pointer.off, inside, pointer.off


def by_tensor(m: Machine, mask: Mask, resource: Resource) -> list[tuple[Resource, Mask]]:
    """A descriptor as one for each tensor that it names, with the lanes concerned.

    A descriptor lives in scalar registers, but waves may have chosen different ones.
    """
    pointer = resource.ptr if isinstance(resource.ptr, Ptr) else Ptr(None, resource.ptr)
    if pointer.region is not None or not isinstance(pointer.off, Tensor) or pointer.off.numel() == 1:
        return [(resource, mask)]
    parts = _resolve_absolute(m, mask, pointer.off.to(torch.int64))
    return [
        (Resource(Ptr(region, off), resource.stride, resource.records, resource.flags), lanes)
        for region, off, lanes in parts
    ]


def buffer_load(
    m: Machine, mask: Mask, resource: Resource, voffset: Value, soffset: Value, mtype: MType, place: Place
) -> Tensor:
    """``raw.ptr.buffer.load``: dwords past num_records give zero (CDNA3 ISA, "Buffer Addressing", raw
    buffers)."""
    return joined(
        m,
        by_tensor(m, mask, resource),
        mtype,
        lambda part, lanes: _buffer_load(m, lanes, part, voffset, soffset, mtype, place),
    )


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


def _buffer_load(
    m: Machine, mask: Mask, resource: Resource, voffset: Value, soffset: Value, mtype: MType, place: Place
) -> Tensor:
    region, off, inside, _ = buffer_offsets(m, resource, voffset, soffset)
    size, records = mtype.size, resource.records
    low, high = torch.aminmax(off)
    fits = not isinstance(records, Tensor) and bool(inside.max() + size <= (records & (2**64 - 1)))
    if fits and bool(low >= region.lo) and bool(high + size <= region.hi):
        flat = off + region.instance
        unit = aligned_unit(flat, size)
        m.checker.loaded(m, mask, region, flat, size, unit, place)
        return from_units(gather(region.views, flat, size, unit), tuple(flat.shape), mtype)
    step = min(size, 4)
    limit = records if isinstance(records, Tensor) else records & (2**64 - 1)
    shape = joint_shape(
        off.shape,
        mask.shape if mask is not None else (1, 1),
        limit.shape if isinstance(limit, Tensor) else (1, 1),
    )
    raw = torch.zeros((*shape, size), dtype=torch.int8, device=m.device)
    unit_type = MType("int", f"i{8 * step}", 8 * step)
    for at in range(0, size, step):
        allowed = inside + at + step <= limit
        real = (off + at >= region.lo) & (off + at + step <= region.hi)
        beyond = allowed & ~real if mask is None else allowed & ~real & mask
        if bool(beyond.any()):
            m.checker.out_of_bounds(m, beyond, region, off + at, step, place, "buffer load")
        good = allowed & real
        part = _load_some(m, mask, region, off + at, good, unit_type, place)
        raw[..., at : at + step] = part.contiguous().unsqueeze(-1).view(torch.int8)
        if step > 1:
            _load_straddling(m, region, off + at, allowed & ~real, raw[..., at : at + step], place)
    return from_units(raw.reshape(-1), tuple(shape), mtype)


def _load_straddling(
    m: Machine, region: Region, off: Tensor, lanes: Tensor, raw: Tensor, place: Place
) -> None:
    """Fill the bytes that exist of elements that lie partly outside their tensor: a GPU reads them all."""
    size = raw.shape[-1]
    partly = lanes & (off + size > region.lo) & (off < region.hi)
    if not bool(partly.any()):
        return
    byte = MType("int", "i8", 8)
    for at in range(size):
        exists = partly & (off + at >= region.lo) & (off + at < region.hi)
        got = _load_some(m, None, region, off + at, exists, byte, place)
        raw[..., at] = torch.where(exists, got, raw[..., at])


def buffer_store(
    m: Machine,
    mask: Mask,
    resource: Resource,
    voffset: Value,
    soffset: Value,
    value: Value,
    mtype: MType,
    place: Place,
) -> None:
    """``raw.ptr.buffer.store``: dwords past num_records are dropped."""
    for part, lanes in by_tensor(m, mask, resource):
        _buffer_store(m, lanes, part, voffset, soffset, value, mtype, place)


def _buffer_store(
    m: Machine,
    mask: Mask,
    resource: Resource,
    voffset: Value,
    soffset: Value,
    value: Value,
    mtype: MType,
    place: Place,
) -> None:
    region, off, inside, _ = buffer_offsets(m, resource, voffset, soffset)
    tensor = to_tensor(value, mtype.element, m.device)
    size, records = mtype.size, resource.records
    low, high = torch.aminmax(off)
    limit = records if isinstance(records, Tensor) else records & (2**64 - 1)
    fits = not isinstance(limit, Tensor) and bool(inside.max() + size <= limit)
    if fits and bool(low >= region.lo) and bool(high + size <= region.hi):
        _store_region(m, mask, region, off, tensor, mtype, place)
        return
    step = min(size, 4)
    dwords = to_units(tensor, tuple(tensor.shape[:2]), mtype, step).reshape(*tensor.shape[:2], size // step)
    unit_type = MType("int", f"i{8 * step}", 8 * step)
    for i, at in enumerate(range(0, size, step)):
        allowed = inside + at + step <= limit
        real = (off + at >= region.lo) & (off + at + step <= region.hi)
        beyond = allowed & ~real if mask is None else allowed & ~real & mask
        if bool(beyond.any()):
            m.checker.out_of_bounds(m, beyond, region, off + at, step, place, "buffer store")
        good = allowed & real if mask is None else allowed & real & mask
        _store_region(m, good, region, off + at, dwords[..., i], unit_type, place)
