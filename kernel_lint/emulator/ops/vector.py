"""``vector``: vectors held by one lane. https://mlir.llvm.org/docs/Dialects/Vector/"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch

from kernel_lint.emulator.ir import Op
from kernel_lint.emulator.numerics.packing import joint_shape
from kernel_lint.emulator.registry import Env, Run, op, unknown
from kernel_lint.emulator.values import Tensor, Value, dtype_of, is_uniform, spread_all, to_tensor

_DYNAMIC = -(2**63)


@op("vector.broadcast", "vector.splat")
def broadcast(o: Op, env: Env) -> Run:
    """A scalar, or a vector of fewer or unit dimensions, repeated to the result's shape."""
    source, result = o.operand_types[0], o.result_type
    shape = result.shape

    def run(a: Value) -> Value:
        tensor = a if isinstance(a, Tensor) else to_tensor(a, source.element, env.device)
        head = tensor.shape[:2]
        pad = (1,) * (len(shape) - len(source.shape))
        return tensor.reshape(*head, *pad, *source.shape).expand(*head, *shape)

    return run


@op("vector.from_elements")
def from_elements(o: Op, env: Env) -> Run:
    """A vector of the operands, in row-major order."""
    element, shape = o.result_type.element, o.result_type.shape

    def run(*parts: Value) -> Value:
        if len(parts) > 1 and all(p is parts[0] for p in parts):
            one = to_tensor(parts[0], element, env.device)
            return one.reshape(*one.shape, *(1,) * len(shape)).expand(*one.shape, *shape)
        tensors = spread_all([to_tensor(p, element, env.device) for p in parts])
        head = tensors[0].shape
        out = torch.empty((*head, len(parts)), dtype=tensors[0].dtype, device=tensors[0].device)
        for i, tensor in enumerate(tensors):
            out[..., i] = tensor
        return out.reshape(*head, *shape)

    return run


@op("vector.to_elements")
def to_elements(o: Op, env: Env) -> Run:
    """All elements of a vector, as scalars."""
    count = len(o.results)

    def run(a: Tensor) -> Any:
        flat = a.reshape(*a.shape[:2], count)
        parts = tuple(flat[..., i] for i in range(count))
        return parts if count > 1 else parts[0]

    return run


def _position(o: Op, dynamic: tuple[Value, ...]) -> tuple[Any, ...]:
    rest = iter(dynamic)
    return tuple(
        next(rest) if p == _DYNAMIC else p
        for p in o.attrs.get("static_position", o.attrs.get("position", ()))
    )


@op("vector.extract")
def extract(o: Op, env: Env) -> Run:
    """An element or a sub-vector, at a static or per-lane position."""
    rank = len(o.operand_types[0].shape)

    def run(a: Tensor, *dynamic: Value) -> Value:
        for p in _position(o, dynamic):
            if is_uniform(p):
                a = a.select(2, int(p))
            else:
                a = _take(a, p)
        return a

    return run if rank else lambda a: a


def _take(a: Tensor, position: Tensor) -> Tensor:
    """Per-lane index into dimension 2."""
    head = joint_shape(a.shape[:2], position.shape)
    a = a.expand(*head, *a.shape[2:])
    index = (
        position.to(torch.int64).clamp(0, a.shape[2] - 1).expand(head).reshape(*head, 1, *(1,) * (a.ndim - 3))
    )
    return torch.gather(a, 2, index.expand(*head, 1, *a.shape[3:])).squeeze(2)


@op("llvm.extractelement", "vector.extractelement")
def extract_element(o: Op, env: Env) -> Run:
    """One element of a 1-D vector, at a static or per-lane position."""

    def run(a: Tensor, p: Value = 0) -> Value:
        return a.select(2, int(p)) if is_uniform(p) else _take(a, p)

    return run


def _insert_at(a: Tensor, value: Tensor, position: tuple[Any, ...]) -> Tensor:
    head = joint_shape(
        a.shape[:2], value.shape[:2], *(p.shape[:2] for p in position if isinstance(p, Tensor))
    )
    out = a.expand(*head, *a.shape[2:]).clone()
    if all(is_uniform(p) for p in position):
        index: Any = (slice(None), slice(None), *(int(p) for p in position))
        out[index] = value
        return out
    if len(position) != 1:
        raise NotImplementedError("a per-lane insert position in a vector of several dimensions")
    hit = torch.arange(a.shape[2], device=a.device) == position[0].unsqueeze(-1)
    hit = hit.reshape(*hit.shape, *(1,) * (a.ndim - 3))
    return torch.where(hit, value.unsqueeze(2), out)


@op("vector.insert")
def insert(o: Op, env: Env) -> Run:
    """A copy of the vector (second operand) with one element or sub-vector replaced."""
    element = o.result_type.element

    def run(value: Value, a: Tensor, *dynamic: Value) -> Tensor:
        return _insert_at(a, to_tensor(value, element, env.device), _position(o, dynamic))

    return run


@op("llvm.insertelement", "vector.insertelement")
def insert_element(o: Op, env: Env) -> Run:
    """A copy of a 1-D vector with one element replaced."""
    element, swapped = o.result_type.element, o.name.startswith("vector")

    def run(a: Any, value: Any, p: Value = 0) -> Tensor:
        a, value = (value, a) if swapped else (a, value)
        return _insert_at(a, to_tensor(value, element, env.device), (p,))

    return run


@op("vector.extract_strided_slice")
def extract_strided_slice(o: Op, env: Env) -> Run:
    """A rectangular part of a vector."""
    offsets, sizes, strides = o.attrs["offsets"], o.attrs["sizes"], o.attrs["strides"]
    index = (
        slice(None),
        slice(None),
        *(slice(a, a + n * s, s) for a, n, s in zip(offsets, sizes, strides, strict=True)),
    )
    return lambda a: a[index]


@op("vector.insert_strided_slice")
def insert_strided_slice(o: Op, env: Env) -> Run:
    """A copy of the second operand with a rectangular part replaced by the first."""
    offsets, source, target = o.attrs["offsets"], o.operand_types[0], o.operand_types[1]
    lead = len(target.shape) - len(source.shape)
    extents = (*(1,) * lead, *source.shape)
    index = (slice(None), slice(None), *(slice(a, a + n) for a, n in zip(offsets, extents, strict=True)))

    def run(value: Tensor, a: Tensor) -> Tensor:
        head = joint_shape(a.shape[:2], value.shape[:2])
        out = a.expand(*head, *a.shape[2:]).clone()
        out[index] = value.reshape(*value.shape[:2], *extents)
        return out

    return run


@op("vector.shuffle", "llvm.shufflevector")
def shuffle(o: Op, env: Env) -> Run:
    """Elements picked from the two vectors laid end to end; -1 picks an undefined one (the first)."""
    mask = [max(int(m), 0) for m in o.attrs["mask"]]
    width = o.operand_types[0].shape[0]
    first_only = all(m < width for m in mask)
    run_of_one = all(b - a == 1 for a, b in pairwise(mask))

    def run(a: Tensor, b: Tensor) -> Tensor:
        if first_only and run_of_one:
            return a[:, :, mask[0] : mask[-1] + 1]
        if not first_only:
            head = joint_shape(a.shape[:2], b.shape[:2])
            a = torch.cat((a.expand(*head, *a.shape[2:]), b.expand(*head, *b.shape[2:])), 2)
        return a if mask == list(range(a.shape[2])) else a[:, :, mask]

    return run


@op("vector.shape_cast")
def shape_cast(o: Op, env: Env) -> Run:
    """The same elements in row-major order, of another shape."""
    shape = o.result_type.shape
    return lambda a: a.reshape(*a.shape[:2], *shape)


@op("vector.transpose")
def transpose(o: Op, env: Env) -> Run:
    """Dimensions permuted."""
    order = (0, 1, *(p + 2 for p in o.attrs["permutation"]))
    return lambda a: a.permute(order)


_KINDS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "maxnumf": torch.fmax,
    "minnumf": torch.fmin,
    "maximumf": torch.maximum,
    "minimumf": torch.minimum,
    "maxsi": torch.maximum,
    "minsi": torch.minimum,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}


@op("vector.reduction")
def reduction(o: Op, env: Env) -> Run:
    """All elements combined, first to last (the order that an unfused lowering takes)."""
    kind = str(o.attrs["kind"]).removeprefix("#vector.kind<").removesuffix(">")
    combine = _KINDS.get(kind)
    if combine is None:
        raise unknown(o, env, f"kind {kind}")
    element = o.result_type

    def run(a: Tensor, *start: Value) -> Value:
        total = a[..., 0]
        if start:
            total = combine(to_tensor(start[0], element, env.device), total)
        for i in range(1, a.shape[-1]):
            total = combine(total, a[..., i])
        return total

    return run


@op("vector.fma")
def vector_fma(o: Op, env: Env) -> Run:
    """a * b + c with one rounding; see ``math.fma``."""
    dtype = dtype_of(o.result_type)
    return lambda a, b, c: (a.to(torch.float64) * b + c).to(dtype)


@op("vector.create_mask", "vector.constant_mask")
def create_mask(o: Op, env: Env) -> Run:
    """True in the first n elements."""
    extent = o.result_type.shape[0]
    if len(o.result_type.shape) != 1:
        raise unknown(o, env, "several dimensions")
    static = o.attrs.get("mask_dim_sizes", (0,))[0]

    def run(n: Value = static) -> Tensor:
        places = torch.arange(extent, device=env.device)
        return places.reshape(1, 1, extent) < (n.unsqueeze(-1) if isinstance(n, Tensor) else n)

    return run
