"""Poison and guard bands: what was never written, and what was written out of bounds."""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import pytest
import torch

from kernel_lint.verify.inputs import digest
from kernel_lint.verify.memory import (
    GUARD_BYTES,
    POISONS,
    MemoryWatch,
    changed,
    guarded_inputs,
    snapshots,
    unwritten,
    watched_memory,
)


def scribble(tensor: torch.Tensor, offset: int, size: int, value: int = 0) -> None:
    """Write bytes at an offset from the first element's address."""
    ctypes.memset(tensor.data_ptr() + offset, value, size)


ALLOCATIONS: dict[str, Any] = {
    "empty": lambda x: torch.empty(4, 6),
    "empty_like": torch.empty_like,
    "new_empty": lambda x: x.new_empty(4, 6),
    "empty_strided": lambda x: torch.empty_strided((4, 6), (6, 1)),
    "new_empty_strided": lambda x: x.new_empty_strided((4, 6), (6, 1)),
}
FILLED: dict[str, Any] = {
    "zeros": (lambda x: torch.zeros(4, 6), 0.0),
    "zeros_like": (torch.zeros_like, 0.0),
    "new_zeros": (lambda x: x.new_zeros(4, 6), 0.0),
    "ones": (lambda x: torch.ones(4, 6), 1.0),
    "full": (lambda x: torch.full((4, 6), 3.0), 3.0),
    "full_like": (lambda x: torch.full_like(x, 3.0), 3.0),
    "new_full": (lambda x: x.new_full((4, 6), 3.0), 3.0),
}


@pytest.mark.parametrize("allocate", ALLOCATIONS.values(), ids=ALLOCATIONS)
def test_uninitialised_tensors_are_poisoned(allocate: Any) -> None:
    x = torch.zeros(4, 6)
    with watched_memory() as watch:
        y = allocate(x)
    assert torch.isnan(y).all()
    assert (y.shape, y.stride(), y.storage_offset(), watch.allocations) == ((4, 6), (6, 1), 0, 1)
    # Nothing about the tensor shows that it is watched.
    assert type(y) is torch.Tensor
    assert y.untyped_storage().nbytes() == 96
    assert y.data_ptr() % 512 == 0


@pytest.mark.parametrize(("allocate", "value"), FILLED.values(), ids=FILLED)
def test_initialised_tensors_keep_their_values(allocate: Any, value: float) -> None:
    x = torch.zeros(4, 6)
    with watched_memory() as watch:
        y = allocate(x)
        scribble(y, 96, 1)
        assert len(watch.violations()) == 1
    assert (y == value).all()


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2], ids=str
)
def test_the_first_poison_is_nan_in_float_formats(dtype: torch.dtype) -> None:
    with watched_memory():
        assert torch.isnan(torch.empty(8, dtype=dtype).float()).all()


def test_column_major_allocations_keep_their_strides() -> None:
    with watched_memory():
        y = torch.empty_like(torch.zeros(4, 6).t())
    assert y.stride() == (1, 6)


def test_nothing_is_watched_outside() -> None:
    with watched_memory() as watch:
        pass
    torch.zeros(3)
    assert watch.allocations == 0


def test_empty_tensors_need_no_guard() -> None:
    with watched_memory() as watch:
        assert torch.empty(0, 3).shape == (0, 3)
    assert watch.violations() == ()


@pytest.mark.parametrize(
    ("offset", "size", "side", "first", "last"),
    [
        (96, 4, "after", 0, 3),
        (100, 8, "after", 4, 11),
        (-4, 4, "before", 0, 3),
        (-GUARD_BYTES, 1, "before", 4095, 4095),
    ],
)
def test_writes_out_of_bounds_are_found(offset: int, size: int, side: str, first: int, last: int) -> None:
    with watched_memory() as watch:
        y = torch.empty(4, 6)
        scribble(y, 0, 96)
        assert watch.violations() == ()
        scribble(y, offset, size)
    (found,) = watch.violations()
    assert (found.side, found.first, found.last, found.shape) == (side, first, last, (4, 6))
    assert f"bytes {first} to {last} {side} the data of a tensor (float32, shape (4, 6))" in found.describe()


def test_violations_outlive_the_tensor() -> None:
    with watched_memory() as watch:
        y = torch.empty(4, 6)
        scribble(y, 96, 4)
        del y
        gc.collect()
        assert len(watch.violations()) == 1
        for _ in range(20):
            torch.empty(100, 100)
    assert len(watch.violations()) == 1


def test_views_keep_the_allocation_alive() -> None:
    with watched_memory() as watch:
        y = torch.empty(4, 6)[1:].t()
        gc.collect()
        y.fill_(2)
        assert (y == 2).all()
    assert watch.violations() == ()


def test_inputs_are_guarded_where_they_lie() -> None:
    watch = MemoryWatch()
    base = torch.arange(100.0)
    inputs = {"x": base[3:27].view(4, 6).t(), "s": [base[1::2]], "e": torch.ones(1).expand(3), "n": 1}
    guarded = guarded_inputs(inputs, watch)
    assert digest(guarded) == digest(inputs)
    assert guarded["x"].stride() == (1, 6)
    assert guarded["x"].data_ptr() % 512 == 12
    scribble(guarded["s"][0], -12, 4)
    scribble(guarded["x"], 96, 2)
    sides = {found.label: (found.side, found.first) for found in watch.violations()}
    # The second tensor starts one element into its storage: 12 bytes back is 8 beyond it.
    assert sides == {"input ['s'][0]": ("before", 4), "input ['x']": ("after", 0)}


# unwritten outputs ------------------------------------------------------------------------


def two_runs(model: Any) -> tuple[Any, Any]:
    outputs = []
    for poison in POISONS:
        with watched_memory(poison):
            outputs.append(model())
    return outputs[0], outputs[1]


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.bfloat16, torch.int8, torch.int64, torch.bool, torch.complex128],
    ids=str,
)
def test_unwritten_elements_are_found(dtype: torch.dtype) -> None:
    def model() -> Any:
        y = torch.empty(8, 64, dtype=dtype)
        y[:, :60] = 1
        return {"y": y}

    (found,) = unwritten(*two_runs(model))
    assert (found.path, found.count, found.numel) == ("['y']", 32, 512)
    assert found.first[0] == (0, 60)
    assert found.describe() == (
        "output['y']: 32 of 512 elements were never written: in columns 60-63: the tail of each row"
    )


def test_an_output_that_only_empty_made_is_unwritten() -> None:
    (found,) = unwritten(*two_runs(lambda: torch.empty(3, 3)))
    assert (found.count, found.pattern) == (9, "everywhere: no element is right")


def test_values_that_look_like_one_poison_are_written() -> None:
    for value in (-1, 0x5A):
        assert unwritten(*two_runs(lambda value=value: torch.full((9,), value, dtype=torch.int8))) == ()
    assert unwritten(*two_runs(lambda: torch.empty(9).fill_(float("nan")))) == ()


def test_scalars_and_differing_outputs_are_left_to_the_comparison() -> None:
    assert unwritten([1, torch.ones(2)], [1, torch.ones(3)]) == ()
    (found,) = unwritten(*two_runs(lambda: torch.empty(())))
    assert found.first == ((),)


# input hashes ----------------------------------------------------------------------------------


def test_changes_of_inputs_are_found_also_in_gaps() -> None:
    base = torch.zeros(10)
    inputs = {"x": base[::2], "y": torch.ones(3, dtype=torch.float8_e5m2), "n": 3}
    before = snapshots(inputs)
    assert list(before) == ["['x']", "['y']"]
    assert changed(before, inputs) == ()
    base[1] = 5
    assert changed(before, inputs) == ("['x']",)
    assert changed(before, {}) == ("['x']", "['y']")
