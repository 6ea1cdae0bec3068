"""Metamorphic variants: the same task on scaled, constant, tiny, huge, strided and shifted inputs.

Value variants change float and complex tensors only: an integer tensor may hold indices, which
another value would send out of range. Layout variants keep every value and change where it lies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from kernel_lint.verify.inputs import map_tensors
from kernel_lint.verify.trees import flatten
from kernel_lint.verify.trees_io import bytes_of, typed_view

POISON = 0xFF


class Variant(Protocol):
    """A named change of inputs; ``layout`` says that values stay as they are, and where they lie.

    It is "" for a variant of values.
    """

    @property
    def name(self) -> str: ...

    @property
    def layout(self) -> str: ...

    def apply(self, inputs: Any) -> Any:
        """Return changed inputs; the given ones stay untouched."""
        ...


@dataclass(frozen=True, slots=True)
class Scaled:
    """Every float value times ``factor`` (a power of two is exact but for overflow and underflow)."""

    name: str
    factor: float
    layout: str = ""

    def apply(self, inputs: Any) -> Any:
        """Multiply in float64 and round back to each tensor's dtype."""
        return map_tensors(inputs, lambda tensor: _on_floats(tensor, lambda wide: wide * self.factor))


@dataclass(frozen=True, slots=True)
class Constant:
    """Every float value is ``value``: differences, variances and positions cancel."""

    name: str
    value: float
    layout: str = ""

    def apply(self, inputs: Any) -> Any:
        """Fill every float tensor."""
        return map_tensors(
            inputs, lambda tensor: _on_floats(tensor, lambda wide: torch.full_like(wide, self.value))
        )


@dataclass(frozen=True, slots=True)
class Strided:
    """Each dimension of length 2 and more lies ``steps`` elements apart in its last dimension.

    Gaps hold 0xFF bytes: NaN for floats, -1 for integers, so that a kernel which ignores
    strides is seen.
    """

    name: str = "strided"
    step: int = 2
    layout: str = "with a gap after each element"

    def apply(self, inputs: Any) -> Any:
        """Move every tensor into a storage with gaps between elements."""
        return map_tensors(inputs, lambda tensor: _moved(tensor, _row_major(tensor.shape, inner=self.step)))


@dataclass(frozen=True, slots=True)
class Padded:
    """Rows are ``extra`` elements further apart than they are long; the last dimension is dense."""

    name: str = "padded-rows"
    extra: int = 8
    layout: str = "with a gap after each row"

    def apply(self, inputs: Any) -> Any:
        """Move every tensor of two and more dimensions into a storage with padded rows."""
        return map_tensors(
            inputs, lambda tensor: _moved(tensor, _row_major(tensor.shape, padding=self.extra))
        )


@dataclass(frozen=True, slots=True)
class Transposed:
    """The last two dimensions lie in the opposite order in memory; shapes stay."""

    name: str = "transposed"
    layout: str = "with the last two dimensions in the opposite order"

    def apply(self, inputs: Any) -> Any:
        """Move every tensor of two and more dimensions into column-major order."""

        def move(tensor: torch.Tensor) -> torch.Tensor:
            if tensor.ndim < 2:
                return tensor.clone()
            swapped = _row_major((*tensor.shape[:-2], tensor.shape[-1], tensor.shape[-2]))
            return _moved(tensor, (*swapped[:-2], swapped[-1], swapped[-2]))

        return map_tensors(inputs, move)


@dataclass(frozen=True, slots=True)
class Offset:
    """Data begins ``nbytes`` into its storage (at least one element): other alignments for vector loads."""

    name: str
    nbytes: int
    layout: str = "at an address that is less aligned"

    def apply(self, inputs: Any) -> Any:
        """Move every tensor, otherwise row-major, that many bytes into a larger storage."""

        def move(tensor: torch.Tensor) -> torch.Tensor:
            elements = max(1, self.nbytes // tensor.dtype.itemsize)
            return _moved(tensor, _row_major(tensor.shape), offset=elements)

        return map_tensors(inputs, move)


# Scaled by 2**-8, unit variance becomes 1.5e-5: next to the epsilon of a normalization. By
# 2**8, exp overflows float32 without the maximum subtracted, squares overflow fp16.
DEFAULT_VARIANTS: tuple[Variant, ...] = (
    Scaled("scaled", -3.0),
    Constant("constant", 0.5),
    Constant("zeros", 0.0),
    Scaled("tiny", 2.0**-8),
    Scaled("huge", 2.0**8),
    Strided(),
    Padded(),
    Transposed(),
    Offset("offset-one-element", 1),
    Offset("offset-16-bytes", 16),
)


@dataclass(frozen=True, slots=True)
class VariantInputs:
    """A variant's inputs with the reference's output on them, or why it is left out."""

    variant: Variant
    note: str = ""
    inputs: Any = field(default=None, repr=False)
    output: Any = field(default=None, repr=False)

    @property
    def accepted(self) -> bool:
        """Whether the candidate may be judged on this variant."""
        return not self.note


def accepted_variants(
    reference: Callable[[Any], Any], inputs: Any, variants: Sequence[Variant] = DEFAULT_VARIANTS
) -> Iterator[VariantInputs]:
    """Yield every variant, with inputs and reference output, or with a note when it is left out.

    ``reference`` gets a copy of the inputs each time, with the same layout. A variant is left out
    when it changes nothing, makes an input infinite, makes the reference raise, or makes more
    of its outputs non-finite than they are on the plain inputs.
    """
    usual = _nonfinite(reference(copied(inputs)))
    for variant in variants:
        changed = variant.apply(inputs)
        note = _useless(variant, inputs, changed)
        output = None
        if not note:
            try:
                output = reference(copied(changed))
            except Exception as error:
                note = f"left out: the reference raises {type(error).__name__}: {str(error)[:200]}"
            else:
                if (count := _nonfinite(output)) > usual:
                    note = f"left out: the reference gives {count} non-finite values (usually {usual})"
        yield VariantInputs(variant, note) if note else VariantInputs(variant, "", changed, output)


def copied(value: Any) -> Any:
    """A deep copy that keeps strides, storage offsets, gaps and aliasing between tensors."""
    storages: dict[int, torch.UntypedStorage] = {}

    def copy(tensor: torch.Tensor) -> torch.Tensor:
        source = tensor.detach().untyped_storage()
        if source.data_ptr() not in storages or not source.nbytes():
            storages[source.data_ptr()] = source.clone()  # type: ignore[no-untyped-call]
        return typed_view(
            storages[source.data_ptr()],
            tensor.dtype,
            int(tensor.storage_offset()),
            tensor.shape,
            tensor.stride(),
        )

    return map_tensors(value, copy)


def _useless(variant: Variant, before: Any, after: Any) -> str:
    pairs = [
        (a.value, b.value)
        for a, b in zip(flatten(before), flatten(after), strict=True)
        if isinstance(a.value, torch.Tensor) and a.value.numel()
    ]
    if variant.layout:
        moved = any(a.stride() != b.stride() or a.storage_offset() != b.storage_offset() for a, b in pairs)
        return "" if moved else "left out: it moves none of these inputs"
    floats = [(a, b) for a, b in pairs if a.is_floating_point() or a.is_complex()]
    if not any(not torch.equal(bytes_of(a.contiguous()), bytes_of(b.contiguous())) for a, b in floats):
        return "left out: it changes none of these inputs"
    if any(_nonfinite(b) > _nonfinite(a) for a, b in floats):
        return "left out: an input overflows its dtype"
    return ""


def _nonfinite(value: Any) -> int:
    """How many NaN and infinite elements the tensors of a nested value hold."""
    total = 0
    for leaf in flatten(value):
        tensor = leaf.value
        if isinstance(tensor, torch.Tensor) and (tensor.is_floating_point() or tensor.is_complex()):
            if _is_fp4(tensor):
                # All of its values are finite (OCP Microscaling Formats 1.0, 5.3.3); torch cannot convert it.
                continue
            if tensor.dtype.itemsize == 1:
                tensor = tensor.to(torch.float32)
            total += tensor.numel() - int(torch.isfinite(tensor).sum())
    return total


def _on_floats(tensor: torch.Tensor, change: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    if tensor.is_complex():
        return change(tensor.to(torch.complex128)).to(tensor.dtype)
    if _is_fp4(tensor):
        # torch computes nothing in it, and does not copy it either.
        return tensor.view(torch.uint8).clone().view(tensor.dtype)
    if tensor.is_floating_point():
        return change(tensor.to(torch.float64)).to(tensor.dtype)
    return tensor.clone()


def _is_fp4(tensor: torch.Tensor) -> bool:
    # By name: torch before 2.8 has no such dtype.
    return str(tensor.dtype) == "torch.float4_e2m1fn_x2"


def _row_major(shape: Sequence[int], *, inner: int = 1, padding: int = 0) -> tuple[int, ...]:
    """Strides in elements; the last dimension's is ``inner``, rows are ``padding`` further apart."""
    strides: list[int] = []
    step = inner
    for position, size in enumerate(reversed(shape)):
        strides.append(step)
        step = step * max(size, 1) + (padding if position == 0 else 0)
    return tuple(reversed(strides))


def _moved(tensor: torch.Tensor, strides: Sequence[int], offset: int = 0) -> torch.Tensor:
    """The same values in a new storage with these strides; every other byte of it is 0xFF."""
    if not tensor.numel():
        return tensor.clone()
    item = tensor.dtype.itemsize
    reach = sum(stride * (size - 1) for stride, size in zip(strides, tensor.shape, strict=True)) + 1
    # As many bytes behind the data as a step takes, so that strided views end in a gap.
    buffer = torch.full(((offset + reach + 1) * item,), POISON, dtype=torch.uint8, device=tensor.device)
    moved = typed_view(buffer.untyped_storage(), tensor.dtype, offset, tensor.shape, strides)
    # One-byte floats are copied as bytes: torch cannot copy packed fp4.
    pair = (moved.view(torch.uint8), tensor.view(torch.uint8)) if item == 1 else (moved, tensor)
    pair[0].copy_(pair[1])
    return moved
