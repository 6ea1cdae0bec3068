"""Row-major access to a tensor of any layout, and the fixed blocks that statistics are taken over.

Statistics must not depend on how many elements are looked at in one step: sums are formed over
blocks whose bounds follow from the shape alone, and a step covers whole blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from kernel_lint.verify.trees_io import bytes_of, typed_view

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# Rows shorter than this say too little about their own scale; they are pooled with their neighbours.
MIN_ROW = 64
POOLED_ROW = 256
BLOCK = 4096

# OCP Microscaling 1.0, E2M1: the values of the sixteen codes.
_E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


class Flat:
    """The elements of a tensor in row-major order, a range at a time.

    A complex element counts as two numbers and a packed fp4 byte as two (low nibble first);
    ``per_element`` is 2 for those. ``row`` is the length of the last dimension in numbers.
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        plain = tensor.detach()
        self.packed = str(plain.dtype) == "torch.float4_e2m1fn_x2"
        self.per_element = 2 if plain.is_complex() or self.packed else 1
        self.row = (plain.shape[-1] if plain.ndim else 1) * self.per_element
        self.size = plain.numel() * self.per_element
        self._tensor = plain
        self._line = _as_line(plain)

    def raw(self, start: int, stop: int) -> torch.Tensor:
        """Elements ``start`` to ``stop`` (of the tensor, not numbers) as a 1-D CPU tensor."""
        if self._line is not None:
            return self._line[start:stop].cpu()
        return _gather(self._tensor, start, stop).cpu()

    def bits(self, start: int, stop: int) -> npt.NDArray[Any]:
        """The same elements as an array of bytes, shape (stop - start, itemsize)."""
        part = self.raw(start, stop).contiguous()
        return bytes_of(part).numpy().reshape(stop - start, self._tensor.dtype.itemsize)

    def floats(self, start: int, stop: int) -> Floats:
        """Numbers ``start`` to ``stop`` as float64; the bounds must be whole elements."""
        k = self.per_element
        part = self.raw(start // k, -(-stop // k))
        if self.packed:
            codes = bytes_of(part.contiguous()).numpy()
            values: Floats = np.stack([_E2M1[codes & 15], _E2M1[codes >> 4]], axis=-1).reshape(-1)
        elif part.is_complex():
            wide = torch.view_as_real(part.resolve_conj())
            values = wide.to(torch.float64).numpy().reshape(-1)
        else:
            values = part.to(torch.float64).numpy()
        skip = start - start // k * k
        return values[skip : skip + stop - start]


def _as_line(tensor: torch.Tensor) -> torch.Tensor | None:
    try:
        return tensor.view(-1)
    except RuntimeError:  # no single stride walks it: gathered piece by piece instead
        return None


def _gather(tensor: torch.Tensor, start: int, stop: int) -> torch.Tensor:
    rest = torch.arange(start, stop, device=tensor.device)
    offsets = torch.full_like(rest, int(tensor.storage_offset()))
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
        offsets += (rest % size) * stride
        rest //= size
    item = tensor.dtype.itemsize
    storage = tensor.untyped_storage()
    # fp8 and fp4 tensors cannot be indexed on every device; their bytes can.
    dtype = torch.uint8 if item == 1 else tensor.dtype
    picked = typed_view(storage, dtype, 0, (storage.nbytes() // item,))[offsets]
    return picked.view(tensor.dtype) if item == 1 else picked


@dataclass(frozen=True, slots=True)
class Blocks:
    """Bounds of groups (a row, or several short rows) and of the blocks that they consist of.

    ``starts`` has one entry more than there are blocks; ``first`` is each group's first block.
    """

    starts: Ints
    first: Ints

    @classmethod
    def of(cls, size: int, row: int) -> Blocks:
        """Lay out ``size`` > 0 numbers in rows of ``row``."""
        width = row if row >= MIN_ROW else row * -(-POOLED_ROW // row)
        groups = max(1, size // width)
        if groups == 1 or width <= 2 * BLOCK:
            if groups == 1:
                starts = np.append(np.arange(0, size, BLOCK, dtype=np.int64), size)
                return cls(starts, np.zeros(1, dtype=np.int64))
            starts = np.append(np.arange(groups, dtype=np.int64) * width, size)
            return cls(starts, np.arange(groups, dtype=np.int64))
        # Long rows: every row in the same number of blocks (size is a multiple of the row here).
        inner = np.arange(0, width, BLOCK, dtype=np.int64)
        starts = (np.arange(groups, dtype=np.int64)[:, None] * width + inner).reshape(-1)
        return cls(np.append(starts, size), np.arange(groups, dtype=np.int64) * len(inner))

    @property
    def count(self) -> int:
        """How many blocks there are."""
        return len(self.starts) - 1

    def steps(self, elements: int) -> Iterator[tuple[int, int]]:
        """Yield ranges of blocks that hold at most ``elements`` numbers (or a single block)."""
        block = 0
        while block < self.count:
            limit = self.starts[block] + elements
            after = int(np.searchsorted(self.starts, limit, side="right")) - 1
            after = min(max(after, block + 1), self.count)
            yield block, after
            block = after

    def sums(self, values: Floats, block: int, after: int) -> Floats:
        """Sum ``values``, which cover blocks ``block`` to ``after``, per block."""
        result: Floats = np.add.reduceat(values, self.starts[block:after] - self.starts[block])
        return result

    def per_group(self, blocks: Floats) -> Floats:
        """Sum per-block sums into per-group sums."""
        result: Floats = np.add.reduceat(blocks, self.first)
        return result

    def spread(self, groups: Floats, block: int, after: int) -> Floats:
        """Repeat each group's value for its numbers in blocks ``block`` to ``after``."""
        owner = np.searchsorted(self.first, np.arange(block, after), side="right") - 1
        return np.repeat(groups[owner], np.diff(self.starts[block : after + 1]))
