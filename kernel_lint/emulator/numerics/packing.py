"""Fields of 32-bit registers: the little-endian packing that conversion and matrix instructions read and
write.

Source of the packing: [CDNA4] 7.1.4 (items are laid out little-endian, 6-bit items cross register
boundaries); see formats.py for the short names of the documents. Registers are int32 tensors.
"""

from __future__ import annotations

from itertools import zip_longest

import torch
from torch import Tensor


def joint_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that all shapes broadcast to. Raises ValueError when they do not."""
    first = tuple(shapes[0])
    if all(shape == first for shape in shapes):
        return first
    result: list[int] = []
    for extents in zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1):
        wide = {extent for extent in extents if extent != 1}
        if len(wide) > 1:
            raise ValueError(f"shapes {shapes} do not broadcast")
        result.append(wide.pop() if wide else 1)
    return tuple(reversed(result))


def signed32(word: int) -> int:
    """The int32 that has the bits of an unsigned 32-bit number: torch refuses the unsigned one."""
    return word - (1 << 32) if word & 0x80000000 else word


def insert_field(old: Tensor, field: Tensor, position: int, width: int) -> Tensor:
    """The register `old` (int32) with bits position + width - 1 .. position replaced by those of `field`."""
    mask = ((1 << width) - 1) << position
    placed = (field.to(torch.int64) << position) & mask
    return (old & signed32(~mask & 0xFFFFFFFF)) | placed.to(torch.int32)


def extract_field(word: Tensor, position: int, width: int) -> Tensor:
    """Bits position + width - 1 .. position of a register, as int32 in [0, 2^width)."""
    return (word >> position) & ((1 << width) - 1)


def as_bytes(values: Tensor) -> Tensor:
    """The bytes (uint8, little-endian) of the last dimension, whatever the dtype."""
    return values.contiguous().view(torch.uint8)


def unpack_codes(words: Tensor, width: int, count: int) -> Tensor:
    """The first `count` items of `width` bits (4, 6 or 8) in the last dimension of registers, as uint8.

    words: any dtype, last dimension = the components of one lane. Raises ValueError when they hold fewer
    items.
    """
    data = as_bytes(words)
    if data.shape[-1] * 8 < count * width:
        raise ValueError(f"{data.shape[-1] * 8} bits a lane hold fewer than {count} items of {width} bits")
    data = data[..., : count * width // 8]
    if width == 8:
        return data
    if width == 4:
        return torch.stack((data & 0xF, data >> 4), dim=-1).flatten(-2)
    low, middle, high = data.reshape(*data.shape[:-1], -1, 3).to(torch.int32).unbind(-1)
    group = low | (middle << 8) | (high << 16)
    items = torch.stack([(group >> shift) & 0x3F for shift in (0, 6, 12, 18)], dim=-1)
    return items.flatten(-2).to(torch.uint8)


def pack_codes(codes: Tensor, width: int) -> Tensor:
    """The inverse of unpack_codes: registers (int32, last dimension = count * width / 32) that hold the
    items.
    """
    codes = codes.to(torch.int32) & ((1 << width) - 1)
    if width == 8:
        data = codes
    elif width == 4:
        low, high = codes.reshape(*codes.shape[:-1], -1, 2).unbind(-1)
        data = low | (high << 4)
    else:
        a, b, c, d = codes.reshape(*codes.shape[:-1], -1, 4).unbind(-1)
        group = a | (b << 6) | (c << 12) | (d << 18)
        data = torch.stack([(group >> shift) & 0xFF for shift in (0, 8, 16)], dim=-1).flatten(-2)
    return data.to(torch.uint8).contiguous().view(torch.int32)
