"""Trees: what goes in comes out, and no bytes can do harm."""

from __future__ import annotations

import contextlib
import json
import math
import os
import struct
from collections import OrderedDict
from pathlib import Path
from typing import Any, NamedTuple

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from safetensors import safe_open
from safetensors.torch import save_file

from kernel_lint.verify.trees import Limits, TreeError, flatten, load_tree, save_tree
from kernel_lint.verify.trees_io import SAFETENSORS_NAMES, bytes_of, pieces

WIDE = (torch.float64, torch.float32, torch.int64, torch.complex128, torch.complex64, torch.uint64)
NARROW = (torch.float16, torch.bfloat16, torch.int16, torch.uint16, torch.int8, torch.uint8)
PACKED = (
    *(
        torch.float8_e4m3fn,
        torch.float8_e5m2,
        torch.float8_e4m3fnuz,
        torch.float8_e5m2fnuz,
        torch.float8_e8m0fnu,
    ),
    *(torch.float4_e2m1fn_x2, torch.uint4, torch.int4, torch.bits8, torch.bits16, torch.complex32),
)


def of_bytes(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """A tensor of any dtype with distinct, arbitrary bytes."""
    size = math.prod(shape) * dtype.itemsize
    data = torch.arange(7, 7 + 5 * size, 5).to(torch.uint8)
    return torch.empty(0, dtype=dtype).set_(data.untyped_storage(), 0, shape)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        facts = a.dtype == b.dtype and a.shape == b.shape
        return facts and torch.equal(bytes_of(a.contiguous()), bytes_of(b.contiguous()))
    if isinstance(a, dict):
        return type(b) is dict and list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and (a == b or (a != a and b != b))


@pytest.mark.parametrize("mode", [{}, {"mmap": True}, {"strides": True}])
@pytest.mark.parametrize("dtype", [*WIDE, *NARROW, *PACKED, torch.bool, torch.int32, torch.uint32], ids=str)
@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_every_dtype_comes_back_bit_for_bit(
    tmp_path: Path, dtype: torch.dtype, mode: dict[str, bool]
) -> None:
    value = [of_bytes(dtype, 3, 4), of_bytes(dtype), of_bytes(dtype, 2, 0)]
    if dtype == torch.bool:
        value = [tensor.view(torch.uint8).fmod(2).bool() for tensor in value]
    save_tree(value, tmp_path / "t")
    assert same(load_tree(tmp_path / "t", **mode).value, value)


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.complex_numbers()
)
tensors = st.builds(
    lambda dtype, shape, flip: (
        of_bytes(dtype, *shape).mT if flip and len(shape) > 1 else of_bytes(dtype, *shape)
    ),
    st.sampled_from([torch.float32, torch.bfloat16, torch.int8, torch.float64]),
    st.lists(st.integers(0, 4), max_size=3),
    st.booleans(),
)
values = st.recursive(
    scalars | tensors,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3),
    ),
    max_leaves=8,
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=values, mode=st.sampled_from(["plain", "mmap", "strides"]))
def test_nested_values_come_back(tmp_path: Path, value: Any, mode: str) -> None:
    save_tree(value, tmp_path / "t")
    tree = load_tree(tmp_path / "t", **({mode: True} if mode != "plain" else {}))
    assert same(value, tree.value)
    assert [leaf.path for leaf in flatten(tree)] == [leaf.path for leaf in flatten(value)]


class Pair(NamedTuple):
    left: int
    right: torch.Tensor


def test_named_tuples_and_ordered_dicts_become_plain(tmp_path: Path) -> None:
    save_tree(OrderedDict(a=Pair(1, torch.ones(2))), tmp_path / "t")
    assert same(load_tree(tmp_path / "t").value, {"a": (1, torch.ones(2))})


def test_strides_offsets_and_aliasing_are_recorded_and_rebuilt(tmp_path: Path) -> None:
    base = torch.arange(60.0).reshape(6, 10)
    inputs = {"x": base}
    value = {
        "t": base.t()[2:, ::3],
        "same": base[1:],
        "wide": torch.ones(1).expand(4),
        "windows": base[0].unfold(0, 4, 2),
    }
    infos = save_tree(value, tmp_path / "t", outside={"inputs": inputs})
    assert [info.aliases for info in infos] == [("inputs['x']",), ("inputs['x']",), (), ("inputs['x']",)]
    assert infos[0].stride == (1, 30)
    assert infos[0].storage_offset == 2
    tree = load_tree(tmp_path / "t", strides=True)
    assert same(value, tree.value)
    assert [t.value.stride() for t in flatten(tree)] == [t.stride() for t in value.values()]
    # Changing one view changes the other: they share a storage again.
    tree.value["same"][0, 2] = -1
    assert tree.value["t"][0, 0] != -1
    tree.value["same"][2, 2] = -1
    assert tree.value["t"][0, 1] == -1


def test_gaps_of_rebuilt_strides_are_nan(tmp_path: Path) -> None:
    save_tree(torch.ones(4, 2)[:, :1], tmp_path / "t")
    value = load_tree(tmp_path / "t", strides=True).value
    assert value.stride() == (2, 1)
    assert torch.isnan(value.as_strided((3,), (2,), 1)).all()


def test_what_fills_its_own_storage_is_not_copied_again(tmp_path: Path, monkeypatch: Any) -> None:
    value = {"rows": torch.arange(12.0).reshape(3, 4), "none": torch.empty(0, 3), "one": torch.tensor(7)}
    save_tree(value, tmp_path / "t")
    monkeypatch.setattr("kernel_lint.verify.trees_layout._assign", None)
    tree = load_tree(tmp_path / "t", strides=True)
    assert same(value, tree.value)
    tree.value["rows"].zero_()
    assert torch.equal(load_tree(tmp_path / "t", strides=True).value["rows"], value["rows"])


def test_misalignment_is_kept(tmp_path: Path) -> None:
    save_tree(torch.zeros(1000)[333:], tmp_path / "t")
    value = load_tree(tmp_path / "t", strides=True).value
    assert value.storage_offset() % 128 == 333 % 128


def test_broadcast_views_cost_what_their_storage_costs(tmp_path: Path) -> None:
    save_tree(torch.ones(3, 1).expand(3, 10**9), tmp_path / "t")
    assert (tmp_path / "t").stat().st_size < 1000
    assert load_tree(tmp_path / "t").value.shape == (3, 10**9)


def test_conjugate_and_negative_views_are_resolved(tmp_path: Path) -> None:
    value = torch.tensor([1 + 2j, 3 - 4j])
    save_tree([value.conj(), value.conj().imag], tmp_path / "t")
    assert same(load_tree(tmp_path / "t").value, [value.conj().resolve_conj(), torch.tensor([-2.0, 4.0])])


def test_files_are_safetensors(tmp_path: Path) -> None:
    value = {str(dtype): of_bytes(dtype, 3, 2) for dtype in SAFETENSORS_NAMES if dtype != torch.bool}
    infos = save_tree(value, tmp_path / "t")
    with safe_open(tmp_path / "t", "pt") as file:
        for info, tensor in zip(infos, value.values(), strict=True):
            assert same(file.get_tensor(info.name), tensor)


def test_pieces_cover_any_layout_in_row_major_order() -> None:
    value = torch.arange(4 * 6 * 5.0).reshape(4, 6, 5).permute(2, 0, 1)
    for limit in (4, 12, 40, 10**6):
        parts = list(pieces(value, limit))
        assert all(len(part) <= limit for part in parts)
        assert torch.equal(torch.cat(parts), bytes_of(value.contiguous()))


@pytest.mark.parametrize(
    "value",
    [
        {1, 2},
        object(),
        b"bytes",
        {"x": lambda: 0},
        {(1, 2): 3},
        torch.nn.Linear(1, 1),
        torch.eye(2).to_sparse(),
    ],
    ids=["set", "object", "bytes", "lambda", "tuple key", "module", "sparse"],
)
def test_what_is_not_plain_data_is_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises(TreeError):
        save_tree({"a": [value]}, tmp_path / "t")
    assert not list(tmp_path.iterdir())


def test_lazy_tensors_are_refused(tmp_path: Path) -> None:
    class Lazy(torch.Tensor):
        pass

    with pytest.raises(TreeError, match=r"\['y'\] is a Lazy, a subclass"):
        save_tree({"y": torch.ones(2).as_subclass(Lazy)}, tmp_path / "t")


def test_endless_nesting_is_refused(tmp_path: Path) -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(TreeError, match="64 levels"):
        save_tree(value, tmp_path / "t")


# hostile files ----------------------------------------------------------------


def container(header: Any, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def tree(root: Any, entries: dict[str, Any] | None = None, data: bytes = b"") -> bytes:
    document = json.dumps({"version": 1, "root": root})
    return container({"__metadata__": {"kernel-lint-tree": document}, **(entries or {})}, data)


def tensor_node(**changes: Any) -> dict[str, Any]:
    node = {
        "kind": "tensor",
        "name": "t0",
        "dtype": "float32",
        "shape": [2],
        "stored_shape": [2],
        "stride": [1],
        "storage_offset": 0,
        "storage": 0,
        "storage_bytes": 8,
        "device": "cpu",
        "aliases": [],
    }
    return {**node, **changes}


ENTRY = {"t0": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
TWICE = {"kind": "list", "items": [tensor_node(), tensor_node()]}
OVERLAP = {**ENTRY, "t1": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}}

HOSTILE = {
    "empty": b"",
    "short": b"1234567",
    "huge header": struct.pack("<Q", 2**63) + b"{}",
    "header beyond the file": struct.pack("<Q", 100) + b"{}",
    "not JSON": container(b"\x80\x04pickle"),
    "not an object": container([1]),
    "deep JSON": container(b"[" * 100_000),
    "deep tree": tree(json.loads("[" * 500 + "]" * 500)),
    "no tree": container({"__metadata__": {}}),
    "no metadata": container(ENTRY, bytes(8)),
    "metadata not text": container({"__metadata__": {"kernel-lint-tree": 3}}),
    "metadata a list": container({"__metadata__": []}),
    "another version": container(
        {"__metadata__": {"kernel-lint-tree": '{"version": 2, "root": {"kind": "none"}}'}}
    ),
    "root missing": container({"__metadata__": {"kernel-lint-tree": '{"version": 1}'}}),
    "unknown kind": tree({"kind": "pickle", "value": "x"}),
    "kind not text": tree({"kind": [], "value": "x"}),
    "bool not a bool": tree({"kind": "bool", "value": "yes"}),
    "int not hex": tree({"kind": "int", "value": "__import__('os')"}),
    "int a number": tree({"kind": "int", "value": 3}),
    "float too large": tree({"kind": "float", "value": "0x1p+100000"}),
    "unhashable key": tree({"kind": "dict", "items": [[{"kind": "list", "items": []}, {"kind": "none"}]]}),
    "key twice": tree({"kind": "dict", "items": [[{"kind": "none"}, {"kind": "none"}]] * 2}),
    "offsets beyond the file": tree(tensor_node(), ENTRY, bytes(7)),
    "offsets negative": tree(tensor_node(), {"t0": {"data_offsets": [-8, 0]}}, bytes(8)),
    "offsets reversed": tree(tensor_node(), {"t0": {"data_offsets": [8, 0]}}, bytes(8)),
    "offsets floats": tree(tensor_node(), {"t0": {"data_offsets": [0.0, 8.0]}}, bytes(8)),
    "offsets missing": tree(tensor_node(), {"t0": {}}, bytes(8)),
    "overlap": tree(tensor_node(), OVERLAP, bytes(12)),
    "tensor used twice": tree(TWICE, ENTRY, bytes(8)),
    "tensor missing": tree(tensor_node(name="t9"), ENTRY, bytes(8)),
    "size differs": tree(tensor_node(stored_shape=[3], shape=[3]), ENTRY, bytes(8)),
    "shape negative": tree(tensor_node(shape=[-2], stored_shape=[-2]), ENTRY, bytes(8)),
    "shape a float": tree(tensor_node(shape=[2.0], stored_shape=[2.0]), ENTRY, bytes(8)),
    "shape overflows": tree(
        tensor_node(shape=[2**61, 2**61, 0], stored_shape=[1, 1, 0], stride=[0, 0, 1]), ENTRY
    ),
    "not broadcastable": tree(tensor_node(shape=[4]), ENTRY, bytes(8)),
    "strides too few": tree(tensor_node(stride=[]), ENTRY, bytes(8)),
    "dtype unknown": tree(tensor_node(dtype="object"), ENTRY, bytes(8)),
    "dtype a module member": tree(tensor_node(dtype="nn"), ENTRY, bytes(8)),
    "name not text": tree(tensor_node(name=["t0"]), ENTRY, bytes(8)),
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("mmap", [False, True])
def test_hostile_files_are_errors(tmp_path: Path, content: bytes, mmap: bool) -> None:
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(TreeError):
        load_tree(tmp_path / "t", mmap=mmap)


@pytest.mark.parametrize("stride", [[2**40], [2**61]])
def test_recorded_strides_cannot_claim_memory(tmp_path: Path, stride: list[int]) -> None:
    (tmp_path / "t").write_bytes(tree(tensor_node(stride=stride), ENTRY, bytes(8)))
    with pytest.raises(TreeError, match="recorded strides need"):
        load_tree(tmp_path / "t", strides=True)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_damage_is_an_error_or_a_value(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "t"
    save_tree({"x": torch.arange(6.0).reshape(2, 3).t(), "n": [1, None]}, path)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(len(content) // 2, len(content)))])
    for mode in ({}, {"mmap": True}, {"strides": True}):
        with contextlib.suppress(TreeError):
            load_tree(path, limits=Limits(storage_bytes=2**20), **mode)


def test_links_fifos_devices_and_folders_are_refused(tmp_path: Path) -> None:
    save_tree(1, tmp_path / "t")
    (tmp_path / "link").symlink_to(tmp_path / "t")
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "link", tmp_path / "fifo", tmp_path, Path("/dev/zero"), tmp_path / "missing"):
        with pytest.raises(TreeError):
            load_tree(path)


def test_limits_hold(tmp_path: Path) -> None:
    save_tree([torch.zeros(100)] * 5, tmp_path / "t")
    for limits in (Limits(file_bytes=500), Limits(header_bytes=50), Limits(leaves=3)):
        with pytest.raises(TreeError):
            load_tree(tmp_path / "t", limits=limits)


def test_foreign_safetensors_are_named_as_such(tmp_path: Path) -> None:
    save_file({"x": torch.ones(2)}, tmp_path / "t")
    with pytest.raises(TreeError, match="not a kernel-lint tree"):
        load_tree(tmp_path / "t")
