"""Sizes of MLIR types, and kernel parameters as bytes in their natural layout.

FlyDSL passes packed structs, which PTX would read byte by byte; the rewritten kernel's are not packed.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Any

from kernel_lint.emulator.ir import MType
from kernel_lint.nvptx.facts import power

_SCALAR = re.compile(r"^(?:i|f|bf|tf)(\d+)|^f(\d+)E")
_VECTOR = re.compile(r"^vector<([\dx]+)x(.+)>$")


def element_bytes(mtype: Any) -> int | None:
    """Return the size of a scalar or vector type in bytes; None for others and for parts of a byte."""
    text = str(mtype)
    vector = _VECTOR.match(text)
    if vector:
        inner = element_bytes(vector.group(2))
        count = 1
        for size in vector.group(1).split("x"):
            count *= int(size)
        return None if inner is None else inner * count
    if text.startswith("!llvm.ptr"):
        return 8
    scalar = _SCALAR.match(text)
    if scalar is None:
        return None
    bits = int(scalar.group(1) or scalar.group(2))
    return bits // 8 if bits % 8 == 0 else None


def _alignment(mtype: MType) -> int:
    if mtype.kind == "struct":
        return max((_alignment(member) for member in mtype.fields), default=1)
    if mtype.kind == "array":
        return _alignment(mtype.fields[0])
    return 1 << max(mtype.size - 1, 0).bit_length()


def pack(mtype: MType, value: Any) -> bytes:
    """Return a kernel parameter as bytes; structs with natural alignment, whatever ``packed`` says."""
    if mtype.kind in ("struct", "array"):
        members = mtype.fields if mtype.kind == "struct" else mtype.fields * mtype.count
        out = b""
        for member, part in zip(members, value, strict=True):
            out += bytes(-len(out) % _alignment(member)) + pack(member, part)
        return out + bytes(-len(out) % _alignment(mtype))
    if mtype.name in ("f32", "f64", "f16"):
        return struct.pack({"f32": "<f", "f64": "<d", "f16": "<e"}[mtype.name], value)
    if mtype.name == "bf16":
        return struct.pack("<f", value)[2:]
    size = 8 if mtype.kind == "ptr" else mtype.size
    return int(value).to_bytes(size, "little", signed=int(value) < 0)


def divisors(values: list[Any]) -> dict[tuple[int, tuple[int, ...]], int]:
    """Return the power of two, up to 16, that divides each integer leaf of the arguments."""
    out = {}
    for number, value in enumerate(values):
        for path, leaf in _leaves(value, ()):
            if isinstance(leaf, int):
                out[number, path] = min(power(leaf), 16)
    return out


def _leaves(value: Any, path: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], Any]]:
    if isinstance(value, tuple):
        for index, part in enumerate(value):
            yield from _leaves(part, (*path, index))
    else:
        yield path, value
