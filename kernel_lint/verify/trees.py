"""Nested values (tensors, dicts, tuples, lists, scalars) and the one file that each travels in.

Judge, reference and candidate are separate processes; what passes between them is a safetensors
file (https://github.com/huggingface/safetensors#format) whose ``__metadata__`` holds, under
``kernel-lint-tree``, a JSON object::

    {"version": 1, "root": NODE}
    NODE = {"kind": "tensor", "name", "dtype", "shape", "stored_shape", "stride", "storage_offset",
            "storage", "storage_bytes", "device", "aliases"}
         | {"kind": "dict", "items": [[NODE, NODE], ...]}      keys are scalar nodes; a dataclass is a dict
         | {"kind": "tuple" | "list", "items": [NODE, ...]}    a NamedTuple is a tuple
         | {"kind": "none"}
         | {"kind": "bool", "value": true}
         | {"kind": "int", "value": "12"}                      text: no limit on size
         | {"kind": "float", "value": "0x1.8p+1"}              exact; "nan", "inf", "-inf"
         | {"kind": "complex", "value": [FLOAT, FLOAT]}
         | {"kind": "str", "value": "text"}

Values are stored row-major. A dimension of stride 0 is stored once (``stored_shape`` has 1
there), so a broadcast view costs what its storage costs. A dtype that safetensors has no name
for is stored as ``U8`` bytes. ``storage`` numbers the distinct storages in one tree, so two
leaves with the same number alias each other; ``aliases`` names values outside the tree (the
inputs) that share the leaf's storage.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from kernel_lint.verify.trees_io import Limits, Reader, TreeError, write_tensors
from kernel_lint.verify.trees_layout import DTYPES, TensorInfo, compact, placed, rebuilt_storages

__all__ = ["Leaf", "Limits", "TensorInfo", "Tree", "TreeError", "flatten", "load_tree", "save_tree"]

METADATA_KEY = "kernel-lint-tree"
VERSION = 1
MAX_DEPTH = 64


@dataclass(frozen=True, slots=True)
class Tree:
    """A loaded value with the facts recorded about its tensors, in order of appearance."""

    value: Any
    tensors: tuple[TensorInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class Leaf:
    """One end of a nested value: a tensor or a scalar, and where it sits (``['y'][0]``)."""

    path: str
    value: Any
    device: str | None = None


@dataclass(slots=True)
class _Encoder:
    outside: Mapping[str, Any]
    tensors: list[tuple[str, torch.Tensor]] = field(default_factory=list)
    infos: list[TensorInfo] = field(default_factory=list)
    storages: dict[tuple[str, int], int] = field(default_factory=dict)
    outside_storages: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    records: bool = True
    nodes: int = 0

    def __post_init__(self) -> None:
        for label, value in self.outside.items():
            for leaf in flatten(value):
                key = _storage_key(leaf.value) if isinstance(leaf.value, torch.Tensor) else None
                if key is not None:
                    self.outside_storages.setdefault(key, []).append(f"{label}{leaf.path}")

    def node(self, value: Any, path: str, depth: int = 0) -> dict[str, Any]:
        if depth > MAX_DEPTH:
            raise TreeError(f"a value in it is nested more than {MAX_DEPTH} levels deep ({path[:80]}...)")
        self.nodes += 1
        if self.nodes > Limits().leaves:
            raise TreeError(f"it has more than {Limits().leaves} parts")
        if isinstance(value, torch.Tensor):
            return self.tensor(value, path).to_json()
        if self.records and dataclasses.is_dataclass(value) and not isinstance(value, type):
            value = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
        if isinstance(value, Mapping):
            pairs = [
                [_scalar_node(key, path), self.node(item, f"{path}[{key!r}]", depth + 1)]
                for key, item in value.items()
            ]
            return {"kind": "dict", "items": pairs}
        if isinstance(value, (tuple, list)):
            kind = "tuple" if isinstance(value, tuple) else "list"
            items = [self.node(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(value)]
            return {"kind": kind, "items": items}
        return _scalar_node(value, path)

    def tensor(self, value: torch.Tensor, path: str) -> TensorInfo:
        plain = _plain_tensor(value, path)
        key = _storage_key(plain)
        # An empty storage has no address of its own, so it never counts as shared.
        number = len(self.storages)
        self.storages.setdefault(key or ("", -number - 1), number)
        stored = compact(plain)
        info = TensorInfo(
            path=path,
            name=f"t{len(self.infos)}",
            dtype=str(plain.dtype).removeprefix("torch."),
            shape=tuple(plain.shape),
            stored_shape=tuple(stored.shape),
            stride=tuple(plain.stride()),
            storage_offset=int(plain.storage_offset()),
            storage=self.storages[key] if key else number,
            storage_bytes=plain.untyped_storage().nbytes(),
            device=str(plain.device),
            aliases=tuple(self.outside_storages.get(key, ())) if key else (),
        )
        self.tensors.append((info.name, stored))
        self.infos.append(info)
        return info


def flatten(value: Any, path: str = "") -> list[Leaf]:
    """List the leaves of ``value`` (or of a :class:`Tree`) with their paths, in order.

    Raises :class:`TreeError` when the nesting is deeper than 64 levels.
    """
    if isinstance(value, Tree):
        devices = {info.path: info.device for info in value.tensors}
        return [Leaf(leaf.path, leaf.value, devices.get(leaf.path)) for leaf in flatten(value.value, path)]
    return list(_walk(value, path, 0))


def _walk(value: Any, path: str, depth: int) -> Iterator[Leaf]:
    if depth > MAX_DEPTH:
        raise TreeError(f"the value at {path or 'the root'} is nested more than {MAX_DEPTH} levels deep")
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _walk(item, f"{path}[{key!r}]", depth + 1)
    elif isinstance(value, (tuple, list)):
        for i, item in enumerate(value):
            yield from _walk(item, f"{path}[{i}]", depth + 1)
    else:
        yield Leaf(path, value, str(value.device) if isinstance(value, torch.Tensor) else None)


def _plain_tensor(value: torch.Tensor, path: str) -> torch.Tensor:
    where = path or "the root"
    if type(value) not in (torch.Tensor, torch.nn.Parameter):
        raise TreeError(
            f"the value at {where} is a {type(value).__name__}, a subclass of torch.Tensor",
            "return plain tensors: a subclass may compute its values whenever it is looked at",
        )
    if value.layout != torch.strided or value.is_quantized or value.device.type == "meta":
        raise TreeError(f"the tensor at {where} has no plain strided values ({value.layout}, {value.device})")
    return value.detach()


def _storage_key(value: torch.Tensor) -> tuple[str, int] | None:
    if value.layout != torch.strided or value.device.type == "meta":
        return None
    storage = value.untyped_storage()
    return (str(value.device), storage.data_ptr()) if storage.nbytes() else None


def _scalar_node(value: Any, path: str) -> dict[str, Any]:
    if value is None:
        return {"kind": "none"}
    if isinstance(value, bool):
        return {"kind": "bool", "value": value}
    if isinstance(value, int):
        return {"kind": "int", "value": hex(value)}
    if isinstance(value, float):
        return {"kind": "float", "value": value.hex()}
    if isinstance(value, complex):
        return {"kind": "complex", "value": [value.real.hex(), value.imag.hex()]}
    if isinstance(value, str):
        return {"kind": "str", "value": str(value)}
    raise TreeError(
        f"the value at {path or 'the root'} is a {type(value).__name__}: neither a tensor nor plain data",
        "return tensors, dicts, tuples, lists, None or Python numbers and strings",
    )


def save_tree(
    value: Any, path: Path, *, outside: Mapping[str, Any] | None = None, records: bool = True
) -> tuple[TensorInfo, ...]:
    """Write ``value`` to ``path`` atomically and return what was recorded about its tensors.

    ``outside`` maps labels to other values (``{"inputs": inputs}``) whose storages are looked for among the
    leaves. A dataclass is written as a dict of its fields; without ``records`` it is refused. Memory beyond
    the value itself stays under 64 MiB, on any device.
    Raises :class:`TreeError` for a leaf that is not plain data, and ``OSError``.
    """
    encoder = _Encoder(outside or {}, records=records)
    root = encoder.node(value, "")
    text = json.dumps({"version": VERSION, "root": root}, separators=(",", ":"))
    # As text in the header, quotes are escaped; the header also names every tensor.
    if 2 * len(text) > Limits().header_bytes:
        raise TreeError(f"its numbers, texts and structure take {len(text)} bytes beside the tensors")
    metadata = {METADATA_KEY: text}
    write_tensors(path, encoder.tensors, metadata)
    return tuple(encoder.infos)


def load_tree(path: Path, *, limits: Limits | None = None, mmap: bool = False, strides: bool = False) -> Tree:
    """Read what :func:`save_tree` wrote; safe on any bytes.

    ``mmap`` maps the file instead of reading it: only for files that no other process can
    shorten, since touching a page past a shortened file's end kills the process (SIGBUS).
    ``strides`` rebuilds each storage with the recorded strides, offsets and aliasing, gaps
    filled with 0xFF bytes (NaN in every float format); otherwise tensors are row-major and
    broadcast dimensions stay views. Raises :class:`TreeError` for whatever is not a sound tree
    file, before allocating more than the file's own size or ``limits`` permit.
    """
    limits = limits or Limits()
    with Reader(path, limits, mmap=mmap) as reader:
        text = reader.metadata.get(METADATA_KEY)
        if text is None:
            raise TreeError(f"{path.name} is a safetensors file but not a kernel-lint tree")
        decoder = _Decoder(reader, limits)
        try:
            document = json.loads(text)
            if not isinstance(document, dict) or document.get("version") != VERSION:
                raise TreeError(f"{path.name} has another tree version than {VERSION}")
            value = decoder.value(document.get("root"), "", 0)
        except (ValueError, TypeError, KeyError, RecursionError, OverflowError, AttributeError) as error:
            raise TreeError(f"{path.name} holds a malformed tree: {error}") from error
        rebuilt = rebuilt_storages(decoder.infos, decoder.tensors, limits) if strides else None
        return (
            Tree(placed(value, rebuilt), tuple(decoder.infos))
            if rebuilt
            else Tree(value, tuple(decoder.infos))
        )


@dataclass(slots=True)
class _Decoder:
    reader: Reader
    limits: Limits
    infos: list[TensorInfo] = field(default_factory=list)
    tensors: list[torch.Tensor] = field(default_factory=list)
    leaves: int = 0

    def value(self, node: Any, path: str, depth: int) -> Any:
        self.leaves += 1
        if depth > MAX_DEPTH or self.leaves > self.limits.leaves:
            raise TreeError(f"the tree is nested or branched beyond the limits at {path or 'the root'}")
        kind = node["kind"]
        if kind == "tensor":
            return self.tensor(node, path)
        if kind == "dict":
            keys = [_scalar(key) for key, _ in node["items"]]
            items = [item for _, item in node["items"]]
            if len(set(keys)) != len(keys):
                raise TreeError(f"a key appears twice in the dict at {path or 'the root'}")
            return {
                key: self.value(item, f"{path}[{key!r}]", depth + 1)
                for key, item in zip(keys, items, strict=True)
            }
        if kind in ("tuple", "list"):
            values = [self.value(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(node["items"])]
            return tuple(values) if kind == "tuple" else values
        return _scalar(node)

    def tensor(self, node: Any, path: str) -> torch.Tensor:
        info = _parse_info(node, path)
        dtype = DTYPES.get(info.dtype)
        if dtype is None:
            raise TreeError(f"unknown dtype {info.dtype!r} at {path or 'the root'}")
        stored = self.reader.tensor(info.name, dtype, info.stored_shape)
        value = stored.expand(info.shape)
        self.infos.append(info)
        self.tensors.append(value)
        return value


def _parse_info(node: Any, path: str) -> TensorInfo:
    shape, stored, stride = (_sizes(node[key]) for key in ("shape", "stored_shape", "stride"))
    if not len(shape) == len(stored) == len(stride) <= MAX_DEPTH:
        raise TreeError(f"shape and stride disagree at {path or 'the root'}")
    if any(kept not in (1, size) for kept, size in zip(stored, shape, strict=True)):
        raise TreeError(f"stored shape {stored} does not broadcast to {shape} at {path or 'the root'}")
    if math.prod(size or 1 for size in shape) >= 2**62:
        raise TreeError(f"shape {shape} is impossibly large at {path or 'the root'}")
    offset, storage, size = _sizes([node["storage_offset"], node["storage"], node["storage_bytes"]])
    texts = [node["name"], node["dtype"], node["device"], *node["aliases"]]
    if not all(isinstance(text, str) for text in texts):
        raise TreeError(f"a name is not text at {path or 'the root'}")
    name, dtype, device, *aliases = texts
    return TensorInfo(path, name, dtype, shape, stored, stride, offset, storage, size, device, tuple(aliases))


def _sizes(values: Any) -> tuple[int, ...]:
    if not isinstance(values, list) or not all(type(v) is int and 0 <= v < 2**62 for v in values):
        raise TreeError(f"expected a list of sizes, found {str(values)[:80]}")
    return tuple(values)


def _scalar(node: Any) -> Any:
    kind, value = node["kind"], node.get("value")
    if kind == "none":
        return None
    if kind == "bool" and isinstance(value, bool):
        return value
    if kind == "int":
        return int(value, 16)
    if kind == "float":
        return float.fromhex(value)
    if kind == "complex":
        return complex(float.fromhex(value[0]), float.fromhex(value[1]))
    if kind == "str" and isinstance(value, str):
        return value
    raise TreeError(f"unknown node kind {str(kind)[:40]!r}")
