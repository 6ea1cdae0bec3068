"""Where a tree's tensors lay in memory: strides, offsets and shared storages, recorded and rebuilt."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from kernel_lint.verify.trees_io import Limits, TreeError, bytes_of, typed_view

# Offsets keep their remainder modulo this many bytes when a storage is rebuilt, so that a
# misaligned view stays misaligned. 512 is the CUDA and HIP caching allocators' block alignment.
ALIGNMENT = 512

DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in vars(torch).values()
    if isinstance(dtype, torch.dtype) and not str(dtype).startswith("torch.q")
}


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """What is known of one tensor leaf besides its values.

    ``stride`` and ``storage_offset`` count elements, as in torch; ``device`` is where the tensor
    lived when it was saved.
    """

    path: str
    name: str
    dtype: str
    shape: tuple[int, ...]
    stored_shape: tuple[int, ...]
    stride: tuple[int, ...]
    storage_offset: int
    storage: int
    storage_bytes: int
    device: str
    aliases: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the leaf's JSON node (the path is implied by its place)."""
        return {
            "kind": "tensor",
            "name": self.name,
            "dtype": self.dtype,
            "shape": list(self.shape),
            "stored_shape": list(self.stored_shape),
            "stride": list(self.stride),
            "storage_offset": self.storage_offset,
            "storage": self.storage,
            "storage_bytes": self.storage_bytes,
            "device": self.device,
            "aliases": list(self.aliases),
        }


def compact(value: torch.Tensor) -> torch.Tensor:
    """Keep one element of every dimension that repeats the same memory."""
    for dim, (size, stride) in enumerate(zip(value.shape, value.stride(), strict=True)):
        if size > 1 and stride == 0:
            value = value.narrow(dim, 0, 1)
    return value


def rebuilt_storages(
    infos: Sequence[TensorInfo], tensors: Sequence[torch.Tensor], limits: Limits
) -> Iterator[torch.Tensor]:
    """Give each decoded tensor its recorded strides in a storage shared as recorded.

    Raises :class:`TreeError` when the strides would need more memory than ``limits`` permit.
    """
    spans = _spans(infos)
    starts = {key: low - low % ALIGNMENT for key, (low, _) in spans.items()}
    total = sum(high - starts[key] for key, (_, high) in spans.items())
    if total > limits.storage_bytes:
        raise TreeError(
            f"the recorded strides need {total} bytes, more than the {limits.storage_bytes} allowed"
        )
    users = Counter(info.storage for info in infos)
    as_read = {
        info.storage
        for info, value in zip(infos, tensors, strict=True)
        if users[info.storage] == 1 and _fills_its_own(value, info)
    }
    buffers = {
        key: torch.full((max(high - starts[key], 0),), 0xFF, dtype=torch.uint8)
        for key, (_, high) in spans.items()
        if key not in as_read
    }
    result = []
    for info, value in zip(infos, tensors, strict=True):
        if info.storage in as_read:
            result.append(value)
            continue
        dtype = DTYPES[info.dtype]
        skipped, rest = divmod(starts[info.storage], dtype.itemsize)
        if rest:
            raise TreeError(f"the storage of {info.path or 'the root'} starts inside an element")
        storage = buffers[info.storage].untyped_storage()
        view = typed_view(storage, dtype, info.storage_offset - skipped, info.shape, info.stride)
        _assign(view, value)
        result.append(view)
    return iter(result)


def _spans(infos: Sequence[TensorInfo]) -> dict[int, tuple[int, int]]:
    """The first and last byte (exclusive) that tensors use of each storage, by the storage's number."""
    spans: dict[int, tuple[int, int]] = {}
    for info in infos:
        item = DTYPES[info.dtype].itemsize
        reach = (
            sum(st * (sz - 1) for st, sz in zip(info.stride, info.shape, strict=True))
            if math.prod(info.shape)
            else -1
        )
        start, end = info.storage_offset * item, (info.storage_offset + reach + 1) * item
        low, high = spans.get(info.storage, (start, end))
        spans[info.storage] = (min(low, start), max(high, end))
    return spans


def _fills_its_own(value: torch.Tensor, info: TensorInfo) -> bool:
    """Whether a tensor already lies in memory as recorded, alone in a storage that was read for it."""
    used = value.numel() * value.dtype.itemsize
    return (
        info.storage_offset == 0
        and tuple(value.stride()) == info.stride
        and value.is_contiguous()
        and value.untyped_storage().nbytes() == used
    )


def _assign(view: torch.Tensor, value: torch.Tensor) -> None:
    """Copy bit patterns element by element; overlapping views are fine, as values agree there."""
    if not view.numel():
        return
    item = view.dtype.itemsize
    stored = compact(value)
    source = bytes_of(stored.contiguous()).numpy().reshape(*stored.shape, item)
    storage = view.untyped_storage()
    memory = typed_view(storage, torch.uint8, 0, (storage.nbytes(),)).numpy()
    target = np.lib.stride_tricks.as_strided(
        memory[int(view.storage_offset()) * item :],
        shape=(*view.shape, item),
        strides=(*(stride * item for stride in view.stride()), 1),
        writeable=True,
    )
    target[...] = np.broadcast_to(source, target.shape)


def placed(value: Any, tensors: Iterator[torch.Tensor]) -> Any:
    """Put the next of ``tensors`` in the place of each tensor of ``value``, in order."""
    if isinstance(value, torch.Tensor):
        return next(tensors)
    if isinstance(value, dict):
        return {key: placed(item, tensors) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(placed(item, tensors) for item in value)
    return value
