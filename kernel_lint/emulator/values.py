"""Values of the emulated machine and their conversions.

A value that is the same in every lane of every workgroup is a Python ``int``, ``float`` or
``bool`` (its type is the MLIR type of the SSA value); any other scalar is a torch tensor of shape
[workgroups or 1, lanes or 1]; a vector is a tensor with the vector's shape appended. Integers are
signed tensors of the MLIR width (wrapping, as MLIR's do), ``i1`` is bool; f8, f6 and f4 floats are
their bits in int8, and ``bf16``/``f16`` torch's own types. A pointer is a :class:`~.memory.Ptr`.
"""

from __future__ import annotations

import struct
from typing import Any

import torch

from kernel_lint.emulator.ir import MType
from kernel_lint.emulator.numerics.packing import joint_shape

Tensor = torch.Tensor
Value = Any

_INT = {8: torch.int8, 16: torch.int16, 32: torch.int32, 64: torch.int64}
_FLOAT = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64}
_PACK = {"f16": "e", "f32": "f", "f64": "d"}


def dtype_of(mtype: MType) -> torch.dtype:
    """The torch type that holds elements of ``mtype``; odd integer widths use the next wider one."""
    if mtype.kind == "float":
        return _FLOAT.get(mtype.name, torch.int8)
    if mtype.kind == "int" and mtype.bits == 1:
        return torch.bool
    if mtype.kind in ("int", "index"):
        return next((dtype for bits, dtype in _INT.items() if mtype.bits <= bits), torch.int64)
    if mtype.kind == "ptr":
        return torch.int64
    raise TypeError(f"no tensor holds a value of type {mtype}")


def wrap(value: int, bits: int) -> int:
    """Wrap a Python integer to ``bits`` bits, signed.

    >>> wrap(255, 8)
    -1
    """
    if bits == 1:
        return value & 1
    half = 1 << (bits - 1)
    return ((value + half) & ((1 << bits) - 1)) - half


def round_float(value: float, name: str) -> float:
    """Round a Python float to a float type, to nearest even."""
    return float(torch.tensor(value, dtype=torch.float64).to(_FLOAT[name]))


def is_uniform(value: Value) -> bool:
    """Whether a value is the same in every lane, and a Python number."""
    return isinstance(value, (int, float))


def to_tensor(value: Value, mtype: MType, device: str) -> Tensor:
    """Give a value as a tensor; a Python number becomes one of shape [1, 1]."""
    if isinstance(value, Tensor):
        return value
    if not isinstance(value, (int, float)):
        raise TypeError(f"a value of type {mtype} is {type(value).__name__}, not a number")
    return torch.full((1, 1), value, dtype=dtype_of(mtype), device=device)


def full(value: float, mtype: MType, device: str) -> Tensor:
    """A tensor of shape [1, 1, *vector shape] of one number."""
    return torch.full((1, 1, *mtype.shape), value, dtype=dtype_of(mtype), device=device)


def lane_shape(value: Value) -> tuple[int, int]:
    """The [workgroups, lanes] extent of a value, (1, 1) for a uniform one."""
    return (value.shape[0], value.shape[1]) if isinstance(value, Tensor) else (1, 1)


def bitcast(value: Value, source: MType, target: MType, device: str) -> Value:
    """Reinterpret bits, of a scalar or vector, little-endian as MLIR's bitcasts are.

    >>> bitcast(1.0, MType("float", "f32", 32), MType("int", "i32", 32), "cpu")
    1065353216
    """
    if source.kind == target.kind and source.name == target.name and source.shape == target.shape:
        return value
    if isinstance(value, (int, float)):
        if (
            not target.shape
            and source.name in (*_PACK, "i16", "i32", "i64")
            and target.name in (*_PACK, "i16", "i32", "i64")
        ):
            return _bitcast_number(value, source, target)
        value = to_tensor(value, source, device)
    old, new = dtype_of(source), dtype_of(target)
    if source.bits < 8 or target.bits < 8:
        return _bitcast_narrow(value, source, target)
    head = value.shape[:2]
    flat = value.reshape(*head, source.elements)
    if old.itemsize != new.itemsize and flat.stride(-1) != 1:
        flat = flat.contiguous()
    if old.itemsize < new.itemsize and any(
        s % (new.itemsize // old.itemsize) for s in (*flat.stride()[:2], flat.storage_offset())
    ):
        flat = flat.contiguous()
    return flat.view(new).reshape(*head, *target.shape)


def _bitcast_number(value: float, source: MType, target: MType) -> float:
    letters = {"i16": "h", "i32": "i", "i64": "q", **_PACK}
    data = struct.pack("<" + letters[source.name], value)
    return struct.unpack("<" + letters[target.name], data)[0]  # type: ignore[no-any-return]


def _bitcast_narrow(value: Tensor, source: MType, target: MType) -> Tensor:
    """Bitcasts from or to elements narrower than a byte (i1, i4, f4E2M1FN...), lowest bits first."""
    head = value.shape[:2]
    flat = value.reshape(*head, source.elements)
    if source.bits >= 8:
        flat = flat.contiguous().view(torch.uint8).to(torch.int64)
        width = 8
    else:
        flat = flat.to(torch.int64)
        width = source.bits
    bits = (flat.unsqueeze(-1) >> torch.arange(width, device=value.device)) & 1
    bits = bits.reshape(*head, target.elements, target.bits)
    weights = torch.arange(target.bits, device=value.device)
    number = (bits << weights).sum(-1)
    if target.kind == "int" and target.bits > 1:
        number = (
            ((number + (1 << (target.bits - 1))) & ((1 << target.bits) - 1)) - (1 << (target.bits - 1))
            if target.bits < 64
            else number
        )
    out = number.to(torch.bool) if target.bits == 1 else _store_bits(number, target)
    return out.reshape(*head, *target.shape)


def _store_bits(number: Tensor, target: MType) -> Tensor:
    dtype = dtype_of(target)
    if target.kind == "float" and target.name in _FLOAT:
        return number.to(_INT[target.bits]).view(dtype)
    return number.to(dtype)


def where(cond: Value, a: Value, b: Value, mtype: MType, device: str) -> Value:
    """Choose per lane; ``cond`` may be a Python bool, or a mask of fewer dimensions than the values."""
    if not isinstance(cond, Tensor):
        return a if cond else b
    if a is b:
        return a
    if hasattr(a, "merge"):
        return a.merge(cond, b)
    if isinstance(a, tuple):
        return tuple(where(cond, x, y, t, device) for x, y, t in zip(a, b, mtype.fields, strict=True))
    if is_uniform(a) and is_uniform(b):
        a = torch.full((), a, dtype=dtype_of(mtype), device=device)
    rank = max(getattr(a, "ndim", 0), getattr(b, "ndim", 0))
    while cond.ndim < rank:
        cond = cond.unsqueeze(-1)
    return torch.where(cond, a, b)


def spread_all(tensors: list[Tensor]) -> list[Tensor]:
    """Scalars [workgroups or 1, lanes or 1] at one common extent."""
    head = joint_shape(*(tuple(t.shape) for t in tensors))
    return [t.expand(head) for t in tensors]


def sign_extend(x: Tensor, bits: int) -> Tensor:
    """Wrap elements to an odd width, held in the next wider type."""
    shift = x.dtype.itemsize * 8 - bits
    return (x << shift) >> shift
