"""What is watched inside the candidate's process: operators, memory, and tampering.

:class:`Watch` is a dispatch mode: it sees every aten operator that the candidate calls, hands
out poisoned memory between guard bands, and adds up the arithmetic that torch did.
:class:`Fingerprint` remembers functions before the import and finds those replaced after it.
Both bind what they use before the candidate is imported.
"""

from __future__ import annotations

import builtins
import importlib
import os
import sys
import time
from collections import Counter
from types import TracebackType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

# Bytes before and after each guarded storage, more than a row of most kernels' tiles.
GUARD_BYTES = 4096
GUARD_BYTE = 0xA5
# The start of a storage keeps the alignment of torch's GPU allocator.
_ALIGNMENT = 512

# Operators that move, make or describe data without computing values (contract clause P2).
_UNINITIALISED = frozenset(("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"))
_FACTORIES = _UNINITIALISED | frozenset(
    ("zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones", "full", "full_like", "new_full")
)
_GLUE = _FACTORIES | frozenset(
    (
        # made from nothing or from one value
        "scalar_tensor", "arange", "eye", "fill", "fill_", "zero", "zero_",
        # copied, cast, or seen otherwise
        "copy", "copy_", "_to_copy", "clone", "contiguous", "detach", "lift", "lift_fresh", "lift_fresh_copy",
        "alias", "_reshape_alias", "_unsafe_view", "view_as_real", "view_as_complex", "resize_", "set_",
        "_conj", "_neg_view", "resolve_conj", "resolve_neg", "narrow_copy", "unfold", "pin_memory",
        "_pin_memory", "record_stream",
        # indexed, joined, padded
        "index", "index_select", "gather", "take", "slice_scatter", "select_scatter", "index_put",
        "index_put_", "_index_put_impl_", "index_copy", "index_copy_", "scatter", "scatter_", "cat", "stack",
        "constant_pad_nd", "repeat", "roll", "flip",
        # asked about
        "_local_scalar_dense", "item", "is_same_size", "is_pinned", "sym_size", "sym_stride", "sym_numel",
        "sym_storage_offset", "equal", "nonzero",
    )
)  # fmt: skip

_uint8 = torch.uint8
_torch_empty = torch.empty
_torch_equal = torch.equal
_set = torch.Tensor.set_
_fill = torch.Tensor.fill_


def bytes_equal(one: Any, other: Any) -> bool:
    """Return whether two host copies of bytes (or two plain values) are the same."""
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.shape == other.shape and bool(_torch_equal(one, other))
    return bool(one == other)


class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Observe the operators of one forward call, on guarded and poisoned memory.

    ``poison`` is the byte that fresh memory is filled with; two runs with different bytes tell
    what was never written. ``poison`` None observes only.
    """

    def __init__(self, poison: int | None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._poison = poison
        self._names: Counter[str] = Counter()
        self._work = 0
        self._guarded: list[tuple[torch.Tensor, int, int, str]] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Say that nothing here needs torch.compile's protection, whose import takes two seconds."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name in _FACTORIES:
            if self._poison is not None and isinstance(result, torch.Tensor):
                return self._relocate(result, keep=name not in _UNINITIALISED, what=name)
        elif name not in _GLUE and not getattr(func, "is_view", False):
            self._count(func, name, args, kwargs or {}, result)
        return result

    def _count(self, func: Any, name: str, args: Any, kwargs: Any, result: Any) -> None:
        tensors = [t for t in _tensors((args, tuple(kwargs.values()), result)) if _computes(t)]
        if not tensors:
            return
        self._names[name] += 1
        formula = flop_registry.get(func.overloadpacket)
        if formula is not None:
            self._work += int(formula(*args, **kwargs, out_val=result))
        else:
            self._work += max(t.numel() for t in tensors)

    def guard(self, value: torch.Tensor) -> torch.Tensor:
        """Return a copy of ``value`` (same strides and offset) whose storage lies between guards."""
        return self._relocate(value, keep=True, what="input")

    def _relocate(self, value: torch.Tensor, keep: bool, what: str) -> torch.Tensor:
        storage = value.untyped_storage()
        size = storage.nbytes()
        if size == 0 or value.layout != torch.strided or value.device.type not in ("cpu", "cuda"):
            return value
        with _without_modes():
            buffer, start = _guarded_buffer(size, value.device)
            body = buffer[start : start + size]
            if keep:
                body.copy_(_set(_torch_empty(0, dtype=_uint8, device=value.device), storage))
            else:
                _fill(body, self._poison if self._poison is not None else 0)
            offset = start // value.element_size() + value.storage_offset()
            moved = _torch_empty(0, dtype=value.dtype, device=value.device)
            _set(moved, buffer.untyped_storage(), offset, value.shape, value.stride())
        self._guarded.append((buffer, start, size, what))
        return moved

    def adopt(self, other: Watch) -> None:
        """Look after the inputs that another watch has guarded, too."""
        self._guarded += [entry for entry in other._guarded if entry[3] == "input"]

    def contents(self, value: Any) -> Any:
        """Return a host copy of the bytes of a guarded tensor's storage; other values as text.

        Gaps between strided elements count, guard bands do not.
        """
        if not isinstance(value, torch.Tensor):
            return repr(value)
        whole = _set(_torch_empty(0, dtype=_uint8, device=value.device), value.untyped_storage())
        for buffer, start, size, _what in self._guarded:
            if buffer.data_ptr() == whole.data_ptr():
                whole = whole[start : start + size]
        return whole.to("cpu", copy=True)

    def damage(self) -> list[str]:
        """Return a sentence for each guard band that was overwritten."""
        found = []
        for buffer, start, size, what in self._guarded:
            for band, side in ((buffer[:start], "before"), (buffer[start + size :], "after")):
                wrong = (band != GUARD_BYTE).nonzero()
                if len(wrong):
                    first = int(wrong[0 if side == "after" else -1])
                    distance = first if side == "after" else start - first
                    owner = f"an {what}" if what[0] in "aeio" else f"a {what}"
                    found.append(
                        f"{len(wrong)} bytes written up to {distance} bytes {side} {owner} of {size} bytes"
                    )
        return found

    def summary(self) -> dict[str, Any]:
        """Return the computing operators by name, and their work: FLOPs, or elements where uncounted."""
        return {"operators": dict(sorted(self._names.items())), "work": self._work}


class _without_modes:  # noqa: N801 - used like a function
    """Leave the dispatch mode for our own operators (they run on raw memory)."""

    def __init__(self) -> None:
        self._guard: Any = None

    def __enter__(self) -> None:
        self._guard = torch._C._DisableTorchDispatch()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del self._guard


def _guarded_buffer(size: int, device: torch.device) -> tuple[torch.Tensor, int]:
    """Return a byte buffer filled with guard bytes, and where ``size`` aligned bytes start in it."""
    buffer = _torch_empty(size + 2 * GUARD_BYTES + _ALIGNMENT, dtype=_uint8, device=device)
    _fill(buffer, GUARD_BYTE)
    start = GUARD_BYTES + (-(buffer.data_ptr() + GUARD_BYTES)) % _ALIGNMENT
    # An offset counts elements, so it must be a multiple of every element size (16 at most).
    return buffer, start


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [tensor for item in value for tensor in _tensors(item)]
    return []


def _computes(tensor: torch.Tensor) -> bool:
    return bool(tensor.is_floating_point() or tensor.is_complex()) and tensor.numel() > 1


# torch itself replaces these when some part of it is imported late (torch/_dynamo/__init__.py).
_REPLACED_BY_TORCH = frozenset(("torch.manual_seed",))


class Fingerprint:
    """The functions and classes that a cheat would replace, as they were at construction."""

    def __init__(self) -> None:
        self._seen = [
            (label, namespace, name, value)
            for label, namespace in ((label, vars(owner)) for label, owner in _owners())
            for name, value in dict(namespace).items()
            if callable(value) and f"{label}.{name}" not in _REPLACED_BY_TORCH
        ]

        self._classes = [
            (label, owner, set(vars(owner))) for label, owner in _owners() if isinstance(owner, type)
        ]

    def changes(self) -> list[str]:
        """Return the dotted names of those that are something else now, the first twenty."""
        missing = object()
        replaced = [
            f"{label}.{name}"
            for label, namespace, name, value in self._seen
            if namespace.get(name, missing) is not value
        ]
        # A new name in a class counts when it hides what a base class has.
        hiding = [
            f"{label}.{name}"
            for label, owner, names in self._classes
            for name in vars(owner)
            if name not in names and any(name in vars(base) for base in owner.__mro__[1:])
        ]
        return [*replaced, *hiding][:20]


def _owners() -> list[tuple[str, Any]]:
    owners: dict[str, Any] = {
        "builtins": builtins,
        "time": time,
        "os": os,
        "torch": torch,
        "torch.Tensor": torch.Tensor,
        "torch._C.TensorBase": torch._C.TensorBase,
        "torch.nn.functional": torch.nn.functional,
        "torch.nn.Module": torch.nn.Module,
        "torch.cuda": torch.cuda,
        "torch.cuda.Event": torch.cuda.Event,
        "torch.testing": importlib.import_module("torch.testing"),
        "kernel_lint.trees": sys.modules["kernel_lint.verify.trees"],
        "kernel_lint.trees_io": sys.modules["kernel_lint.verify.trees_io"],
    }
    for module, names in _FLYDSL.items():
        loaded = sys.modules.get(module)
        if loaded is not None:
            owners.update(
                {f"{module}.{name}": getattr(loaded, name) for name in names if hasattr(loaded, name)}
            )
    return list(owners.items())


# Where launches and compilations pass by.
_FLYDSL = {
    "flydsl.compiler.jit_function": ("JitFunction", "MlirCompiler", "CompiledFunction"),
    "flydsl.compiler.jit_executor": ("CallState", "CompiledArtifact"),
    "flydsl.compiler.kernel_function": ("KernelFunction", "KernelLauncher"),
}
