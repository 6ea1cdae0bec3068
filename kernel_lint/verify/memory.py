"""Memory that tells on its user: poison where nothing was written, guard bands around every tensor.

Inside :func:`watched_memory` every tensor that Python code allocates (``torch.empty`` and its
kin, on any device) lies between two bands of a known pattern. Uninitialised tensors are filled
with a poison byte. Two runs under two poisons show which output elements were never written:
only those hold the one poison after the first run and the other after the second.

What torch's own C++ code allocates inside an operator is not seen; a kernel's outputs are
allocated by the candidate's Python code, where they are.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kernel_lint.verify.compare_flat import Flat
from kernel_lint.verify.compare_pattern import describe
from kernel_lint.verify.compare_values import WrongSet
from kernel_lint.verify.inputs import map_tensors
from kernel_lint.verify.trees import flatten
from kernel_lint.verify.trees_io import typed_view

# All bits set is a NaN in every IEEE, bfloat16 and fp8 format (not in float8_*fnuz and fp4, which
# have fewer or no NaNs) and -1 for signed integers. The second is an ordinary number anywhere.
POISONS = (0xFF, 0x5A)
GUARD_BYTE = 0xC3
# A band of 4 KiB catches a wave's worth of 64 lanes times 16 bytes several times over.
GUARD_BYTES = 4096
# Bands keep the 512-byte alignment of the CUDA and HIP caching allocators' blocks.
ALIGNMENT = 512

_UNINITIALISED = ("empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided")
_INITIALISED = (
    *("zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones"),
    *("full", "full_like", "new_full"),
)


@dataclass(frozen=True, slots=True)
class Violation:
    """A guard band that was written: of which tensor, on which side, how far from its data.

    ``first`` and ``last`` are the distances in bytes between the data's edge and the nearest and
    farthest byte written (0 is the byte right next to the data).
    """

    shape: tuple[int, ...]
    dtype: str
    side: str
    first: int
    last: int
    label: str = ""

    def describe(self) -> str:
        """Say it in a sentence."""
        what = self.label or "a tensor"
        return (
            f"bytes {self.first} to {self.last} {self.side} the data of {what} "
            f"({self.dtype}, shape {self.shape}) were overwritten"
        )


class _Band:
    """One guarded allocation: its buffer with both bands, and what lies between them.

    Storages hold a reference to it; when the last one goes, the bands are looked at.
    """

    def __init__(self, watch: MemoryWatch, size: int, shape: tuple[int, ...], dtype: str, label: str) -> None:
        self._watch, self._size, self._label = watch, size, label
        self._shape, self._dtype = shape, dtype
        raw = np.empty(size + 2 * GUARD_BYTES + ALIGNMENT, dtype=np.uint8)
        start = GUARD_BYTES + -(raw.ctypes.data + GUARD_BYTES) % ALIGNMENT
        self._low, self._data = raw[start - GUARD_BYTES : start], raw[start : start + size]
        self._high = raw[start + size : start + size + GUARD_BYTES]
        self._low.fill(GUARD_BYTE)
        self._high.fill(GUARD_BYTE)
        self.__array_interface__ = self._data.__array_interface__

    def look(self) -> list[Violation]:
        """What was written into the bands."""
        return _look(self._low, self._high, self._shape, self._dtype, self._label)

    def __del__(self) -> None:
        self._watch.died(self)


def _look(low: Any, high: Any, shape: tuple[int, ...], dtype: str, label: str) -> list[Violation]:
    found = []
    for side, band in (("before", low[::-1]), ("after", high)):
        places = np.flatnonzero(band != GUARD_BYTE)
        if places.size:
            found.append(Violation(shape, dtype, side, int(places[0]), int(places[-1]), label))
    return found


@dataclass(slots=True)
class MemoryWatch:
    """The guarded allocations of one run and what was found in their bands.

    ``poison`` is the byte that uninitialised memory is filled with.
    """

    poison: int = POISONS[0]
    allocations: int = 0
    _found: list[Violation] = field(default_factory=list)
    _live: weakref.WeakSet[_Band] = field(default_factory=weakref.WeakSet)
    _device: list[tuple[torch.Tensor, int, tuple[int, ...], str, str]] = field(default_factory=list)

    def guard(self, tensor: torch.Tensor, *, copy: bool, label: str = "") -> torch.Tensor:
        """Move ``tensor`` into guarded memory, strides kept; filled with poison unless ``copy``."""
        if tensor.layout != torch.strided or not tensor.numel() or tensor.device.type == "meta":
            return tensor
        item = tensor.dtype.itemsize
        reach = sum(st * (sz - 1) for st, sz in zip(tensor.stride(), tensor.shape, strict=True)) + 1
        # Distance to the storage's aligned start is kept: a shifted view stays as misaligned.
        offset = int(tensor.storage_offset()) % (ALIGNMENT // item or 1)
        size = (offset + reach) * item
        storage, first = self._allocate(size, tensor, label)
        span = typed_view(storage, torch.uint8, first, (size,))
        guarded = typed_view(storage, tensor.dtype, first // item + offset, tensor.shape, tensor.stride())
        span.fill_(self.poison)
        if copy:
            # The bytes as they lie: overlapping, packed and strided tensors are all the same.
            begin = int(tensor.storage_offset()) * item
            whole = typed_view(tensor.untyped_storage(), torch.uint8, begin, (reach * item,))
            span[offset * item :].copy_(whole)
        self.allocations += 1
        return guarded

    def violations(self) -> tuple[Violation, ...]:
        """What has been written out of bounds so far; on a device, waits for it."""
        found = list(self._found)
        for band in list(self._live):
            found += band.look()
        for whole, size, shape, dtype, label in self._device:
            low, high = whole[:GUARD_BYTES].cpu().numpy(), whole[GUARD_BYTES + size :].cpu().numpy()
            found += _look(low, high, shape, dtype, label)
        return tuple(found)

    def died(self, band: _Band) -> None:
        """Keep what a freed allocation's bands say."""
        self._found += band.look()

    def _allocate(self, size: int, like: torch.Tensor, label: str) -> tuple[torch.UntypedStorage, int]:
        """A storage with ``size`` usable bytes and where they start in it."""
        shape, dtype = tuple(like.shape), str(like.dtype).removeprefix("torch.")
        if like.device.type == "cpu":
            # The storage covers the data alone: nothing about it looks unusual from inside.
            band = _Band(self, size, shape, dtype, label)
            self._live.add(band)
            return torch.from_numpy(np.asarray(band)).untyped_storage(), 0
        whole = torch.full((size + 2 * GUARD_BYTES,), GUARD_BYTE, dtype=torch.uint8, device=like.device)
        self._device.append((whole, size, shape, dtype, label))
        return whole.untyped_storage(), GUARD_BYTES


class _GuardingMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, watch: MemoryWatch) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._watch = watch

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Say that nothing here needs torch.compile's protection, whose import takes two seconds."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if func.namespace != "aten" or type(result) is not torch.Tensor:
            return result
        if name in _UNINITIALISED:
            return self._watch.guard(result, copy=False)
        return self._watch.guard(result, copy=True) if name in _INITIALISED else result


@contextmanager
def watched_memory(poison: int = POISONS[0]) -> Iterator[MemoryWatch]:
    """Guard what this thread's Python code allocates through torch; see :class:`MemoryWatch`."""
    watch = MemoryWatch(poison)
    with _GuardingMode(watch):
        yield watch


def guarded_inputs(value: Any, watch: MemoryWatch) -> Any:
    """Copy nested inputs into guarded memory, with their strides and alignment; aliasing is not kept."""
    labels = iter([f"input {leaf.path}" for leaf in flatten(value) if isinstance(leaf.value, torch.Tensor)])
    return map_tensors(value, lambda tensor: watch.guard(tensor.detach(), copy=True, label=next(labels)))


@dataclass(frozen=True, slots=True)
class Unwritten:
    """Elements of one output that no one wrote: how many, the first few, and where they lie."""

    path: str
    count: int
    numel: int
    first: tuple[tuple[int, ...], ...]
    pattern: str

    def describe(self) -> str:
        """Say it in a sentence."""
        where = f": {self.pattern}" if self.pattern else ""
        return f"output{self.path}: {self.count} of {self.numel} elements were never written{where}"


def unwritten(
    first: Any, second: Any, poisons: Sequence[int] = POISONS, chunk_elements: int = 2**20
) -> tuple[Unwritten, ...]:
    """Find elements that hold the first poison in the first run's outputs and the second in the second's.

    The two runs must have had the same inputs. Outputs that differ in structure, dtype or shape
    between the runs are left to the comparison.
    """
    found = []
    for a, b in zip(flatten(first), flatten(second), strict=False):
        if not isinstance(a.value, torch.Tensor) or not isinstance(b.value, torch.Tensor):
            continue
        if a.path == b.path and a.value.shape == b.value.shape and a.value.dtype == b.value.dtype:
            result = _unwritten_leaf(a.path, a.value, b.value, poisons, chunk_elements)
            found += [result] if result else []
    return tuple(found)


def _unwritten_leaf(
    path: str, a: torch.Tensor, b: torch.Tensor, poisons: Sequence[int], chunk: int
) -> Unwritten | None:
    sides = (Flat(a), Flat(b))
    places = WrongSet(0)
    first: list[int] = []
    for start in range(0, a.numel(), chunk):
        stop = min(start + chunk, a.numel())
        left = [
            _all_bytes(side.bits(start, stop), poison) for side, poison in zip(sides, poisons, strict=True)
        ]
        here = np.flatnonzero(left[0] & left[1]).astype(np.int64) + start
        first += here[: 10 - len(first)].tolist()
        places.add(here)
    if not places.total:
        return None
    shape = tuple(a.shape)
    indices = tuple(tuple(int(i) for i in np.unravel_index(at, shape)) for at in first) if shape else ((),)
    return Unwritten(
        path, places.total, a.numel(), indices, describe(places.positions(), places.total, shape)
    )


def _all_bytes(elements: npt.NDArray[np.uint8], byte: int) -> npt.NDArray[np.bool_]:
    """Which elements, given as a row of bytes each, consist of one byte."""
    item = elements.shape[1]
    result: npt.NDArray[np.bool_]
    if item in (2, 4, 8):
        # As whole words: numpy takes long for reductions over a few bytes.
        result = elements.view(f"u{item}")[:, 0] == int.from_bytes(bytes([byte]) * item, "little")
    else:
        result = (elements == byte).all(axis=1)
    return result


def snapshots(value: Any) -> dict[str, torch.Tensor]:
    """Copies of each tensor's whole storage, gaps between strided elements included, by path.

    They stay on the tensor's device: there, copying and comparing take a hundredth of what hashing does.
    """
    return {path: whole.clone() for path, whole in _storages(value)}


def changed(before: dict[str, torch.Tensor], value: Any) -> tuple[str, ...]:
    """Paths whose storage is not what it was."""
    after = dict(_storages(value))
    return tuple(
        path for path, whole in before.items() if path not in after or not torch.equal(whole, after[path])
    )


def _storages(value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    for leaf in flatten(value):
        if isinstance(leaf.value, torch.Tensor):
            storage = leaf.value.detach().untyped_storage()
            yield leaf.path, typed_view(storage, torch.uint8, 0, (storage.nbytes(),))
