"""Memory of the emulated machine: address spaces, pointers, loads and stores of all lanes at once.

A :class:`Region` is a stretch of bytes with exact bounds: the storage of a live tensor (address
space 1), the LDS of every workgroup of the chunk side by side (3) or one variable in it, the private
memory of every lane side by side (5). A pointer is a region and a byte offset, so a pointer that walks
out of its tensor is noticed even where another tensor follows.
"""

from __future__ import annotations

import bisect
import gc
from collections.abc import Iterable
from typing import Any

import torch

from kernel_lint.emulator.ir import MType
from kernel_lint.emulator.values import Tensor, Value, dtype_of

_UNITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.complex128}


class Region:
    """Bytes with bounds.

    ``space`` is the LLVM address space; ``lo`` and ``hi`` bound the offsets that are inside (hi exclusive);
    ``base`` is the address of offset 0; ``views`` hold the bytes by unit of 1, 2, 4, 8 and 16 bytes, as
    far as
    the length allows; ``instance`` is the byte offset of each workgroup's or lane's own copy in the views.
    """

    __slots__ = (
        "base",
        "bytes",
        "dtype",
        "hi",
        "init",
        "instance",
        "lo",
        "name",
        "open",
        "parent",
        "shadow",
        "space",
        "views",
    )

    def __init__(
        self,
        data: Tensor,
        space: int,
        size: int,
        base: int,
        name: str,
        instance: Tensor | int = 0,
        lo: int = 0,
    ) -> None:
        self.bytes = data
        self.space, self.lo, self.hi, self.base, self.name, self.instance = (
            space,
            lo,
            lo + size,
            base,
            name,
            instance,
        )
        self.views = unit_views(data)
        self.parent: Region | None = None
        self.open = False
        self.init: dict[int, Tensor] | None = None
        self.shadow: Any = None
        self.dtype: torch.dtype | None = None

    def part(self, lo: int, size: int, name: str) -> Region:
        """A variable inside this region: the same bytes, tighter bounds."""
        out = Region.__new__(Region)
        for slot in Region.__slots__:
            setattr(out, slot, getattr(self, slot))
        out.lo, out.hi, out.name, out.parent = lo, lo + size, name, self
        return out

    def __repr__(self) -> str:
        return f"Region({self.name}, space {self.space}, {self.hi - self.lo} bytes)"


def unit_views(data: Tensor) -> dict[int, Tensor]:
    """Views of a byte tensor in units of 1 to 16 bytes, the tail that does not fill a unit left out."""
    length = data.numel()
    return {unit: data[: length // unit * unit].view(dtype) for unit, dtype in _UNITS.items()}


class Ptr:
    """A pointer: a region and a byte offset (an int, or a tensor per lane); without a region an absolute
    address."""

    __slots__ = ("off", "region")

    def __init__(self, region: Region | None, off: Value) -> None:
        self.region, self.off = region, off

    @property
    def address(self) -> Value:
        """The number that ``ptrtoint`` gives: an absolute address, in LDS and private memory the offset."""
        if self.region is None or self.region.space in (3, 5):
            return self.off
        off = self.off.to(torch.int64) if isinstance(self.off, Tensor) else self.off
        return self.region.base + off

    def moved(self, delta: Value) -> Ptr:
        """The pointer ``delta`` bytes further."""
        return Ptr(self.region, self.off + delta)

    def merge(self, cond: Tensor, other: Any) -> Ptr:
        """This pointer where ``cond`` holds, else ``other``."""
        if not isinstance(other, Ptr):
            other = Ptr(None, other)
        if self.region is other.region:
            return Ptr(self.region, _where(cond, self.off, other.off))
        mine, theirs = self.region, other.region
        if mine is not None and theirs is not None and mine.space == theirs.space != 1:
            return Ptr(mine.parent or mine, _where(cond, self.off, other.off))
        return Ptr(None, _where(cond, self.address, other.address))

    def __repr__(self) -> str:
        return f"Ptr({self.region}, {self.off})"


def _where(cond: Tensor, a: Value, b: Value) -> Value:
    if not isinstance(a, Tensor) and not isinstance(b, Tensor):
        if a == b:
            return a
        a = torch.full((1, 1), a, dtype=torch.int64, device=cond.device)
    return torch.where(cond, a, b)


class Resource:
    """A buffer resource descriptor (CDNA3 ISA, "Buffer Resource Descriptor"): base, bytes, stride, flags."""

    __slots__ = ("flags", "ptr", "records", "stride")

    def __init__(self, ptr: Ptr, stride: Value, records: Value, flags: Value) -> None:
        self.ptr, self.stride, self.records, self.flags = ptr, stride, records, flags

    @property
    def address(self) -> Value:
        """The base address."""
        return self.ptr.address

    def merge(self, cond: Tensor, other: Resource) -> Resource:
        """This descriptor where ``cond`` holds, else ``other``."""
        records = _where(cond, self.records, other.records)
        return Resource(self.ptr.merge(cond, other.ptr), self.stride, records, self.flags)


class GlobalMemory:
    """The live tensors' storages, by address."""

    def __init__(self, device: str) -> None:
        self._device = torch.device(device).type
        self._regions: dict[int, Region] = {}
        self._starts: list[int] = []

    def add(self, tensors: Iterable[Tensor], names: Iterable[str] | None = None) -> None:
        """Make tensors' storages known; a known storage at the same address is replaced if its size
        differs."""
        labels = iter(names) if names is not None else iter(())
        for tensor in tensors:
            name = next(labels, "")
            storage = tensor.untyped_storage()
            size, start = storage.nbytes(), storage.data_ptr()
            known = self._regions.get(start)
            if size == 0 or storage.device.type != self._device or (known and known.hi == size):
                continue
            data = torch.empty(0, dtype=torch.int8, device=storage.device).set_(storage)
            label = name or f"tensor of {tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"
            self._regions[start] = Region(data, 1, size, start, label)
            self._regions[start].dtype = tensor.dtype
        self._starts = sorted(self._regions)

    def add_live(self) -> None:
        """Make the storages of all live tensors known (for addresses that no argument explains)."""
        seen = []
        for thing in gc.get_objects():
            # type(), because isinstance would run __class__ of proxies that happen to live.
            if issubclass(type(thing), Tensor):
                try:
                    thing.untyped_storage().data_ptr()
                except (RuntimeError, NotImplementedError):
                    continue
                seen.append(thing)
        self.add(seen)

    def clear(self) -> None:
        """Forget all tensors: a region keeps its storage alive."""
        self._regions.clear()
        self._starts.clear()

    def find(self, address: int) -> Region | None:
        """The region that holds an address; the end of one counts as inside, for empty ranges."""
        at = bisect.bisect_right(self._starts, address) - 1
        if at >= 0:
            region = self._regions[self._starts[at]]
            if address < region.base + region.hi:
                return region
        return None

    def pointer(self, address: int) -> Ptr:
        """A pointer for an address; without a region when no live tensor holds it."""
        region = self.find(address) if address else None
        if region is None and address:
            self.add_live()
            region = self.find(address)
        return Ptr(region, address - region.base) if region else Ptr(None, address)


def low_unit(size: int) -> int:
    """The largest power of two, up to 16, that divides ``size``."""
    return min(size & -size, 16)


def gather(views: dict[int, Tensor], flat: Tensor, size: int, unit: int) -> Tensor:
    """``size`` bytes at each offset of ``flat`` (a multiple of ``unit``), as a tensor [n, size] of units.

    Returns a 1-D tensor of unit elements, ``size / unit`` for each offset in turn.
    """
    index = (flat >> (unit.bit_length() - 1)).reshape(-1) if unit > 1 else flat.reshape(-1)
    count = size // unit
    if count > 1:
        index = (index.unsqueeze(1) + torch.arange(count, dtype=index.dtype, device=index.device)).reshape(-1)
    return views[unit].index_select(0, index)


def scatter(views: dict[int, Tensor], flat: Tensor, data: Tensor, size: int, unit: int) -> None:
    """Write units ``data`` (``size / unit`` for each offset) at the offsets; later lanes win."""
    index = (flat >> (unit.bit_length() - 1)).reshape(-1) if unit > 1 else flat.reshape(-1)
    count = size // unit
    if count > 1:
        index = (index.unsqueeze(1) + torch.arange(count, dtype=index.dtype, device=index.device)).reshape(-1)
    view = views[unit]
    if unit == 16:
        view.index_copy_(0, index.to(torch.int64), data)
    else:
        view.scatter_(0, index.to(torch.int64), data)


def aligned_unit(flat: Tensor, size: int) -> int:
    """The largest unit that divides the size and every offset."""
    unit = low_unit(size)
    while unit > 1 and bool((flat & (unit - 1)).any()):
        unit //= 2
    return unit


def from_units(raw: Tensor, shape: tuple[int, ...], mtype: MType) -> Tensor:
    """Units as gathered for lanes of ``shape``, as values of ``mtype``."""
    dtype = dtype_of(mtype)
    if dtype is torch.bool:
        return (raw.view(torch.int8).reshape(*shape, *mtype.shape) & 1).to(torch.bool)
    return raw.view(dtype).reshape(*shape, *mtype.shape)


def to_units(value: Tensor, shape: tuple[int, ...], mtype: MType, unit: int) -> Tensor:
    """The inverse: values spread over lanes of ``shape``, as a 1-D tensor of units."""
    if value.dtype is torch.bool:
        value = value.to(torch.int8)
    flat = value.expand(*shape, *mtype.shape).reshape(-1)
    return flat.contiguous().view(_UNITS[unit])
