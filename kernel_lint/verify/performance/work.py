"""How much work the reference is: operations and bytes, counted while it runs once.

Matrix products, convolutions and attention count as ``torch.utils.flop_counter`` counts them; every other
operator that computes counts one operation for each element of its largest tensor, for the vector
units. Bytes are what must move at least: each distinct input and parameter storage read once, each
output written once.
"""

from __future__ import annotations

import contextlib
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from kernel_lint.verify import trees
from kernel_lint.verify.integrity import _GLUE

# Operators that read only some of their operands' elements: then an input's size bounds nothing.
_SPARSE_READERS = frozenset(
    (
        "index", "index_select", "gather", "take", "embedding", "_embedding_bag", "take_along_dim",
        "masked_select", "slice", "narrow", "select", "topk", "multinomial", "index_put",
        "index_put_", "scatter", "nonzero",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Work:
    """The work of one call.

    ``matrix_flops`` and ``vector_ops`` are operations, ``input_bytes`` (parameters included) and
    ``output_bytes`` bytes. ``dtype`` is the matrix products' element type, or the outputs'. ``dense`` is
    False where the reference may leave a part of its inputs unread. ``source`` says who counted.
    """

    matrix_flops: float
    vector_ops: float
    input_bytes: float
    output_bytes: float
    dtype: str
    dense: bool
    source: str = "counted in the reference"

    @property
    def bytes(self) -> float:
        """All bytes that must move."""
        return self.input_bytes + self.output_bytes

    def overridden(self, flops: float | None, moved: float | None) -> Work:
        """Return the work with figures that the user gave."""
        if flops is None and moved is None:
            return self
        given = [name for name, value in (("operations", flops), ("bytes", moved)) if value is not None]
        out = self if flops is None else replace(self, matrix_flops=flops)
        if moved is not None:
            out = replace(out, input_bytes=moved, output_bytes=0.0)
        return replace(out, source=f"{' and '.join(given)} given by the user")

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {**asdict(self), "bytes": self.bytes}


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up operations, and notes operators that read their operands in part."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.matrix, self.vector, self.dense = 0.0, 0.0, True
        self.dtypes: dict[str, float] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Say that nothing here needs torch.compile's protection."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        self.dense = self.dense and name not in _SPARSE_READERS
        formula = flop_registry.get(func.overloadpacket)
        tensors = [t for t in _tensors((args, result)) if isinstance(t, torch.Tensor)]
        if formula is not None:
            flops = float(formula(*args, **(kwargs or {}), out_val=result))
            self.matrix += flops
            kind = str(tensors[0].dtype).removeprefix("torch.")
            self.dtypes[kind] = self.dtypes.get(kind, 0.0) + flops
        elif name not in _GLUE and not getattr(func, "is_view", False):
            self.vector += max((t.numel() for t in tensors if t.is_floating_point()), default=0)
        return result


def count(model: torch.nn.Module, inputs: dict[str, Any]) -> Work:
    """Run ``model`` once on ``inputs`` and count."""
    counter = _Counter()
    with torch.no_grad(), counter:
        result = model(**inputs)
    outputs = [leaf.value for leaf in trees.flatten(result) if isinstance(leaf.value, torch.Tensor)]
    sources = [v for v in inputs.values() if isinstance(v, torch.Tensor)]
    sources += [p.detach() for p in (*model.parameters(), *model.buffers())]
    read, seen = _distinct_bytes(sources, set())
    written, _seen = _distinct_bytes(outputs, seen)
    kinds = counter.dtypes or {str(t.dtype).removeprefix("torch."): 1.0 for t in outputs[:1]}
    dtype = max(kinds, key=lambda kind: kinds[kind]) if kinds else "float32"
    return Work(counter.matrix, counter.vector, read, written, dtype, counter.dense)


def _distinct_bytes(tensors: list[torch.Tensor], seen: set[int]) -> tuple[float, set[int]]:
    """Add up the elements of tensors, each storage once; a view counts what it shows."""
    total, known = 0.0, set(seen)
    for tensor in tensors:
        key = 0
        with contextlib.suppress(RuntimeError):
            key = tensor.untyped_storage().data_ptr()
        if key and key in known:
            continue
        known.add(key)
        shown = 1
        for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
            shown *= size if stride else min(size, 1)
        total += shown * tensor.element_size()
    return total, known


def _tensors(value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [tensor for item in value for tensor in _tensors(item)]
    return []
