"""Buffer resources, pointers and atomics on a machine of one wave."""

from __future__ import annotations

import pytest
import torch

from kernel_lint.emulator import access, atomics
from kernel_lint.emulator.accesses import BufferAddress, Site
from kernel_lint.emulator.checks import NoChecks
from kernel_lint.emulator.decode import parse_type
from kernel_lint.emulator.findings import Findings
from kernel_lint.emulator.ir import Place
from kernel_lint.emulator.machine import Grid, Machine
from kernel_lint.emulator.memory import GlobalMemory, Ptr, Resource
from kernel_lint.emulator.registry import Env

PLACE = Place("k.py", 1)
I32, QUAD, HALVES = (Site(parse_type(text), PLACE) for text in ("i32", "vector<4xi32>", "vector<8xi16>"))


def machine(tensor: torch.Tensor) -> tuple[Machine, Ptr]:
    """A machine of one wave, and a pointer to the tensor."""
    memory = GlobalMemory("cpu")
    memory.add([tensor])
    env = Env("cpu", "gfx942", 64, frozenset(), "kernel")
    m = Machine(env, Grid((1, 1, 1), (64, 1, 1)), 0, 1, memory, Findings(), NoChecks())
    m.place_lds({})
    return m, memory.pointer(tensor.data_ptr())


def offsets(*values: int) -> torch.Tensor:
    """A byte offset for each lane, the first ones given, the rest 0."""
    return torch.tensor([[*values, *[0] * (64 - len(values))]], dtype=torch.int32)


def test_buffer_load_checks_each_dword_against_num_records() -> None:
    tensor = torch.arange(1, 17, dtype=torch.int32)
    m, base = machine(tensor)

    got = access.buffer_load(
        m, None, BufferAddress(Resource(base, 0, 24, 0), offsets(0, 8, 16, 24, -4), 0), QUAD
    )

    assert got[0, :5].tolist() == [[1, 2, 3, 4], [3, 4, 5, 6], [5, 6, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]


def test_buffer_store_drops_each_dword_past_num_records() -> None:
    tensor = torch.zeros(16, dtype=torch.int32)
    m, base = machine(tensor)
    value = torch.arange(1, 5, dtype=torch.int32).reshape(1, 1, 4)

    access.buffer_store(m, m.thread < 1, BufferAddress(Resource(base, 0, 24, 0), offsets(16), 0), value, QUAD)

    assert tensor.tolist() == [0, 0, 0, 0, 1, 2, *[0] * 10]


def test_scalar_offset_counts_against_num_records() -> None:
    tensor = torch.arange(1, 17, dtype=torch.int32)
    m, base = machine(tensor)

    got = access.buffer_load(m, None, BufferAddress(Resource(base, 0, 24, 0), offsets(0, 4), 20), I32)

    assert got[0, :2].tolist() == [6, 0]


def test_dword_across_the_end_of_a_tensor_gives_the_bytes_that_exist() -> None:
    tensor = torch.tensor([1, 2, 3], dtype=torch.int16)
    m, base = machine(tensor)

    got = access.buffer_load(m, None, BufferAddress(Resource(base, 0, 2**32 - 1, 0), offsets(4), 0), I32)

    assert int(got[0, 0]) == 3


def test_vector_off_its_alignment_is_read_by_smaller_units() -> None:
    tensor = torch.arange(100, dtype=torch.int16)
    m, base = machine(tensor)

    got = access.load(m, None, Ptr(base.region, offsets(2, 6)), HALVES)

    assert got[0, :2].tolist() == [list(range(1, 9)), list(range(3, 11))]


def test_absolute_addresses_of_two_tensors_are_told_apart() -> None:
    first, second = torch.arange(4, dtype=torch.int32), torch.arange(10, 14, dtype=torch.int32)
    m, _ = machine(first)
    m.memory.add([second])
    addresses = torch.tensor([[first.data_ptr() + 4, second.data_ptr() + 8] * 32])

    got = access.load(m, None, Ptr(None, addresses), I32)

    assert got[0, :2].tolist() == [1, 12]


def test_masked_lanes_do_not_store() -> None:
    tensor = torch.zeros(64, dtype=torch.int32)
    m, base = machine(tensor)

    access.store(m, m.thread % 2 == 0, Ptr(base.region, m.thread * 4), 7, I32)

    assert tensor.tolist() == [7, 0] * 32


@pytest.mark.parametrize(
    ("kind", "values", "olds", "final"),
    [
        ("add", [1, 2, 3], [10, 11, 13], 16),
        ("max", [5, 20, 15], [10, 10, 20], 20),
        ("umin", [-1, 4, 6], [10, 10, 4], 4),
        ("xchg", [1, 2, 3], [10, 1, 2], 3),
    ],
)
def test_atomics_on_one_address_run_in_lane_order(
    kind: str, values: list[int], olds: list[int], final: int
) -> None:
    tensor = torch.tensor([10], dtype=torch.int32)
    m, base = machine(tensor)
    operand = offsets(*values)
    atomic = atomics.atomic_of(kind, I32.mtype)
    assert atomic is not None

    got = atomics.read_modify_write(m, m.thread < 3, base, (operand,), I32, atomic)

    assert got[0, :3].tolist() == olds
    assert tensor.tolist() == [final]


def chosen_per_wave() -> tuple[Machine, torch.Tensor, torch.Tensor, Resource]:
    """Two waves, the first with a descriptor of one tensor, the second with one of another."""
    first, second = torch.arange(1, 129, dtype=torch.int32), torch.arange(1001, 1129, dtype=torch.int32)
    memory = GlobalMemory("cpu")
    memory.add([first, second])
    env = Env("cpu", "gfx942", 64, frozenset(), "kernel")
    m = Machine(env, Grid((1, 1, 1), (128, 1, 1)), 0, 1, memory, Findings(), NoChecks())
    m.place_lds({})
    one, other = (Resource(memory.pointer(t.data_ptr()), 0, 512, 0) for t in (first, second))
    return m, first, second, one.merge(m.thread < 64, other)


def test_waves_may_load_through_descriptors_of_different_tensors() -> None:
    m, first, second, resource = chosen_per_wave()

    got = access.buffer_load(m, None, BufferAddress(resource, m.thread * 4), I32)
    part = access.buffer_load(m, m.thread >= 64, BufferAddress(resource, m.thread * 4), I32)

    assert got[0].tolist() == [*first[:64].tolist(), *second[64:].tolist()]
    assert part[0, 64:].tolist() == second[64:].tolist()


def test_waves_may_store_and_add_through_descriptors_of_different_tensors() -> None:
    m, first, second, resource = chosen_per_wave()
    atomic = atomics.atomic_of("add", I32.mtype)
    assert atomic is not None

    access.buffer_store(m, None, BufferAddress(resource, m.thread * 4), m.thread.int(), I32)
    assert first.tolist() == [*range(64), *range(65, 129)]
    assert second.tolist() == [*range(1001, 1065), *range(64, 128)]
    old = atomics.buffer_atomic(m, None, BufferAddress(resource, m.thread * 4), (1,), I32, atomic)
    assert old[0].tolist() == list(range(128))
    assert int(first[0]) == 1
    assert int(second[127]) == 128


def test_a_descriptor_that_no_active_lane_uses_loads_zero() -> None:
    m, _, _, resource = chosen_per_wave()

    assert not access.buffer_load(m, m.thread < 0, BufferAddress(resource, m.thread * 4), I32).any()
