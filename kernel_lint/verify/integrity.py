"""What is watched inside the candidate's process: operators and tampering (memory: ``memory.py``).

:class:`Watch` is a dispatch mode: it sees every aten operator that the candidate calls, and adds
up the arithmetic that torch did. :class:`Fingerprint` remembers functions before the import and
finds those replaced after it.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import operator
import pathlib
import sys
import types
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils.flop_counter import flop_registry

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


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Let no mode that was left on (a default device among them) have a hand in our own operations."""
    with torch.no_grad(), torch._C.DisableTorchFunction(), _disable_current_modes():
        yield


class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Observe the operators of one forward call, and add up the work of those that compute."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._names: Counter[str] = Counter()
        self._work = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Say that nothing here needs torch.compile's protection, whose import takes two seconds."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name not in _GLUE and not getattr(func, "is_view", False):
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

    def summary(self) -> dict[str, Any]:
        """Return the computing operators by name, and their work: FLOPs, or elements where uncounted."""
        return {"operators": dict(sorted(self._names.items())), "work": self._work}


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [tensor for item in value for tensor in _tensors(item)]
    return []


def _computes(tensor: torch.Tensor) -> bool:
    return bool(tensor.is_floating_point() or tensor.is_complex()) and tensor.numel() > 1


# torch itself replaces these: when a part of it is imported late (torch/_dynamo/__init__.py), and in
# torch.set_default_dtype.
_REPLACED_BY_TORCH = frozenset(("torch.manual_seed", "torch.Storage"))


# Bound before any candidate is imported, who could replace the names in ``builtins``.
_all, _map, _zip, _is = all, map, zip, operator.is_


class Fingerprint:
    """The functions and classes that a cheat would replace, as they were at construction."""

    def __init__(self) -> None:
        self._seen = [(label, vars(owner), *_callables(label, vars(owner))) for label, owner in _owners()]
        self._classes = [
            (label, owner, set(vars(owner))) for label, owner in _owners() if isinstance(owner, type)
        ]

    def changes(self) -> list[str]:
        """Return the dotted names of those that are something else now, the first twenty."""
        # Asked thousands of names after every call: the loops over them run in C.
        replaced = [
            f"{label}.{name}"
            for label, namespace, names, values in self._seen
            if not _all(_map(_is, _map(namespace.get, names), values))
            for name, value in _zip(names, values)
            if namespace.get(name) is not value
        ]
        # A new name in a class counts when it hides what a base class has.
        hiding = [
            f"{label}.{name}"
            for label, owner, names in self._classes
            for name in vars(owner)
            if name not in names and any(name in vars(base) for base in owner.__mro__[1:])
        ]
        return [*replaced, *hiding][:20]


def _callables(label: str, namespace: Any) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    found = {
        name: value
        for name, value in dict(namespace).items()
        if callable(value) and f"{label}.{name}" not in _REPLACED_BY_TORCH
    }
    return tuple(found), tuple(found.values())


# Modules whose functions our code calls after the candidate was imported.
_STANDARD = (
    "builtins", "time", "os", "io", "json", "json.encoder", "math", "operator", "contextlib", "functools",
    "tempfile", "pathlib", "traceback", "inspect", "hashlib", "random", "gc", "weakref", "itertools",
)  # fmt: skip


def _owners() -> list[tuple[str, Any]]:
    owners: dict[str, Any] = {
        **{name: importlib.import_module(name) for name in _STANDARD},
        "pathlib.Path": pathlib.Path,
        "json.JSONEncoder": json.JSONEncoder,
        "numpy": np,
        "numpy.random": np.random,
        "numpy.lib.stride_tricks": importlib.import_module("numpy.lib.stride_tricks"),
        "torch": torch,
        "torch.Tensor": torch.Tensor,
        "torch._C.TensorBase": torch._C.TensorBase,
        "torch.nn.functional": torch.nn.functional,
        "torch.nn.Module": torch.nn.Module,
        "torch.cuda": torch.cuda,
        "torch.cuda.Event": torch.cuda.Event,
        "torch.testing": importlib.import_module("torch.testing"),
    }
    for module_name, module in list(sys.modules.items()):
        if module_name.startswith("kernel_lint.") and isinstance(module, types.ModuleType):
            owners[module_name] = module
            owners.update(
                (f"{module_name}.{key}", value)
                for key, value in vars(module).items()
                if isinstance(value, type) and value.__module__ == module_name
            )
    for place, names in _FLYDSL.items():
        loaded = sys.modules.get(place)
        if loaded is not None:
            owners.update(
                {f"{place}.{name}": getattr(loaded, name) for name in names if hasattr(loaded, name)}
            )
    return list(owners.items())


# Where launches and compilations pass by.
_FLYDSL = {
    "flydsl.compiler.jit_function": ("JitFunction", "MlirCompiler", "CompiledFunction"),
    "flydsl.compiler.jit_executor": ("CallState", "CompiledArtifact"),
    "flydsl.compiler.kernel_function": ("KernelFunction", "KernelLauncher"),
}
