"""What a reference computes, found by running it and watching its operators (clause B1).

Every call of an ``aten`` operator is recorded in order with its tensors. FLOPs are counted in two
kinds: ``matmul`` by PyTorch's own formulas (torch.utils.flop_counter; two FLOPs a multiply-add), and
``other``, one FLOP for each output element of a pointwise operator and each input element of a
reduction. Bytes are compulsory traffic: each distinct input and parameter read once, each
output written once. Views and allocations count nothing.
"""

from __future__ import annotations

import ast
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from kernel_lint.tools import reference_task
from kernel_lint.verify.compare_policy import float_format
from kernel_lint.verify.contract import Shape

_REDUCTIONS = frozenset(
    [
        "sum",
        "mean",
        "prod",
        "amax",
        "amin",
        "max",
        "min",
        "argmax",
        "argmin",
        "any",
        "all",
        "norm",
        "var",
        "std",
        "var_mean",
        "std_mean",
        "linalg_vector_norm",
        "_softmax",
        "_log_softmax",
        "logsumexp",
        "cumsum",
        "cumprod",
        "native_layer_norm",
        "native_group_norm",
        "_fused_rms_norm",
    ]
)
_FREE = frozenset(
    [
        "view",
        "_unsafe_view",
        "reshape",
        "expand",
        "permute",
        "transpose",
        "t",
        "unsqueeze",
        "squeeze",
        "slice",
        "select",
        "detach",
        "alias",
        "as_strided",
        "split",
        "unbind",
        "chunk",
        "empty",
        "empty_like",
        "empty_strided",
        "device",
        "lift_fresh",
        "unfold",
        "diagonal",
        "split_with_sizes",
    ]
)


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor without its values; ``layout`` says in words how its strides lie."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: str
    device: str
    layout: str
    bytes: int


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """One operator call; ``scalars`` are its numbers and flags other than tensors."""

    name: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    scalars: tuple[str, ...]
    matmul_flops: int
    other_flops: int
    pointwise: bool

    @property
    def base(self) -> str:
        """The name without namespace and overload: ``mul`` of ``aten.mul.Tensor``."""
        return self.name.split(".")[1]

    @property
    def free(self) -> bool:
        """Whether the call moves no data: a view, an allocation."""
        return self.base in _FREE


@dataclass(frozen=True, slots=True)
class ShapeSemantics:
    """What one shape's run showed."""

    shape: str
    inputs: dict[str, TensorInfo]
    input_values: dict[str, str]
    outputs: dict[str, TensorInfo]
    parameters: dict[str, TensorInfo]
    operators: tuple[OperatorCall, ...]
    bytes_read: int
    bytes_written: int
    thresholds: dict[str, float | None]
    notes: tuple[str, ...] = ()
    input_kwargs: dict[str, Any] = field(default_factory=dict)

    @property
    def matmul_flops(self) -> int:
        """FLOPs of matrix products and convolutions."""
        return sum(call.matmul_flops for call in self.operators)

    @property
    def other_flops(self) -> int:
        """FLOPs of pointwise operators and reductions."""
        return sum(call.other_flops for call in self.operators)

    @property
    def flops(self) -> int:
        """All FLOPs."""
        return self.matmul_flops + self.other_flops

    @property
    def bytes(self) -> int:
        """Compulsory bytes, read and written."""
        return self.bytes_read + self.bytes_written

    @property
    def intensity(self) -> float | None:
        """FLOPs a byte, or None where nothing moves."""
        return self.flops / self.bytes if self.bytes else None


def describe(reference: Path) -> list[ShapeSemantics]:
    """Run the reference at every shape of the ``shapes.json`` beside it and return what was seen.

    Raises :class:`KernelLintError` when the task does not load or run.
    """
    with reference_task.local_imports(reference.parent):
        task = reference_task.load(reference)
        return [describe_shape(task, shape) for shape in task.shapes]


def describe_shape(task: reference_task.ReferenceTask, shape: Shape) -> ShapeSemantics:
    """Run one shape under fake tensors; where values decide the control flow, with real ones."""
    from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException

    try:
        with reference_task.fake_mode():
            return _observe(task, shape, ())
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        note = f"values decide what runs ({error}); this is what one seed with real tensors did"
    torch.manual_seed(0)
    return _observe(task, shape, (note,))


def dependencies(reference: Path) -> list[str]:
    """Return the top-level modules that a file imports."""
    names = set()
    for node in ast.walk(ast.parse(reference.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add("." * node.level + (node.module or "").split(".")[0])
    return sorted(names - set(sys.stdlib_module_names))


def tensors_in(value: Any, path: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """Yield every tensor of a nested value with its path."""
    if isinstance(value, torch.Tensor):
        yield path or "output", value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from tensors_in(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from tensors_in(item, f"{path}.{index}" if path else str(index))


def _observe(task: reference_task.ReferenceTask, shape: Shape, notes: tuple[str, ...]) -> ShapeSemantics:
    model, inputs = reference_task.build(task, shape)
    recorder = _Recorder()
    with torch.no_grad(), recorder:
        outputs = model(**inputs)
    found = dict(tensors_in(inputs))
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    used = [tensor for tensor in (*found.values(), *state.values()) if _storage(tensor) in recorder.read]
    results = dict(tensors_in(outputs))
    return ShapeSemantics(
        shape=shape.id,
        inputs={name: info(tensor) for name, tensor in found.items()},
        input_values={k: repr(v) for k, v in inputs.items() if not any(True for _ in tensors_in(v))},
        outputs={name: info(tensor) for name, tensor in results.items()},
        parameters={name: info(tensor) for name, tensor in state.items()},
        operators=tuple(recorder.calls),
        bytes_read=_distinct_bytes(used),
        bytes_written=_distinct_bytes(list(results.values())),
        thresholds={name: _threshold(tensor, shape) for name, tensor in results.items()},
        notes=notes,
        input_kwargs=shape.input_kwargs,
    )


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes every operator call, and the storages that calls which move data read."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[OperatorCall] = []
        self.read: dict[int, torch.Tensor] = {}

    def __torch_dispatch__(
        self,
        function: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        result = function(*args, **kwargs)
        name = str(function)
        if not name.startswith("prim.") and function is not torch.ops.aten.detach.default:
            self._note(name, function, args, kwargs, result)
        return result

    def _note(self, name: str, function: Any, args: Any, kwargs: Any, result: Any) -> None:
        taken = [tensor for _, tensor in tensors_in((args, kwargs))]
        given = [tensor for _, tensor in tensors_in(result)]
        if not taken and not given:
            return
        base = name.split(".")[1]
        pointwise = torch.Tag.pointwise in function.tags or base == "_to_copy"
        matmul = _matmul_flops(function, args, kwargs, result)
        other = 0
        if not matmul and base not in _FREE and base != "_to_copy":
            if base in _REDUCTIONS:
                other = max((tensor.numel() for tensor in taken), default=0)
            elif pointwise:
                other = max((tensor.numel() for tensor in given), default=0)
        if base not in _FREE:
            # Holding the tensor keeps its memory's identity from being used again.
            self.read |= {_storage(tensor): tensor for tensor in taken}
        infos = tuple(map(info, taken)), tuple(map(info, given))
        self.calls.append(OperatorCall(name, *infos, tuple(_scalars(args, kwargs)), matmul, other, pointwise))


def _matmul_flops(function: Any, args: Any, kwargs: Any, result: Any) -> int:
    """Return the count of torch's formula, or of attention on the CPU, which torch has none for."""
    formula: Callable[..., int] | None = flop_registry.get(function.overloadpacket)
    if formula is not None:
        return formula(*args, **kwargs, out_val=result)
    if "_scaled_dot_product" in str(function) and "backward" not in str(function):
        from torch.utils.flop_counter import sdpa_flop_count

        return int(sdpa_flop_count(args[0].shape, args[1].shape, args[2].shape))  # type: ignore[no-untyped-call]
    return 0


def info(tensor: torch.Tensor) -> TensorInfo:
    """Describe a tensor."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    size = tensor.numel() * tensor.element_size()
    shape, stride = tuple(map(int, tensor.shape)), tuple(map(int, tensor.stride()))
    return TensorInfo(shape, stride, dtype, str(tensor.device), _layout(tensor), size)


def _layout(tensor: torch.Tensor) -> str:
    if tensor.is_contiguous():
        return "contiguous"
    if tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last):
        return "channels last"
    if 0 in tensor.stride():
        return "broadcast (stride 0)"
    if tensor.dim() >= 2 and tensor.transpose(-1, -2).is_contiguous():
        return "transposed (last two)"
    return "strided"


def _scalars(args: Any, kwargs: Any) -> Iterator[str]:
    for name, value in (*enumerate(args), *kwargs.items()):
        if isinstance(value, (bool, int, float, complex)) and value is not None:
            yield repr(value) if isinstance(name, int) else f"{name}={value!r}"
        elif (
            isinstance(value, (list, tuple))
            and value
            and all(isinstance(item, (int, float)) for item in value)
        ):
            yield repr(list(value)) if isinstance(name, int) else f"{name}={list(value)!r}"


def _storage(tensor: torch.Tensor) -> int:
    """Return the identity of a tensor's memory; fake tensors have one too."""
    return int(tensor.untyped_storage()._cdata)


def _distinct_bytes(tensors: list[torch.Tensor]) -> int:
    """Sum the bytes of tensors, each memory once, expanded dimensions not repeated."""
    sizes: Counter[int] = Counter()
    for tensor in tensors:
        extents = zip(tensor.shape, tensor.stride(), strict=True)
        elements = math.prod(size for size, stride in extents if stride != 0)
        key = _storage(tensor)
        sizes[key] = max(sizes[key], elements * tensor.element_size())
    return sum(sizes.values())


def _threshold(tensor: torch.Tensor, shape: Shape) -> float | None:
    """Return the rel_err that an output must stay under: the task's own, else its dtype's (B2)."""
    if "rel_err" in shape.tolerance:
        return shape.tolerance["rel_err"]
    form = float_format(tensor.dtype)
    return None if form is None else form.contract
