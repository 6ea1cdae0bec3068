"""Inline assembly that reaches memory, M0 or the matrix units, on a machine of one wave."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kernel_lint.emulator.analysis import facts
from kernel_lint.emulator.checks import NoChecks
from kernel_lint.emulator.decode import parse_type
from kernel_lint.emulator.findings import Findings
from kernel_lint.emulator.ir import Function, Op, Place, Region
from kernel_lint.emulator.machine import Grid, Machine
from kernel_lint.emulator.memory import GlobalMemory, Ptr, Resource
from kernel_lint.emulator.registry import Env, UnknownOperationError, lookup

ENV = Env("cpu", "gfx950", 64, frozenset(), "kernel")
LANES = torch.arange(64, dtype=torch.int32).reshape(1, 64)


def assembly(text: str, constraints: str, operands: list[str], results: list[str]) -> Op:
    """An ``llvm.inline_asm``; operands are numbered from 0, the result is 99."""
    types = tuple(parse_type(t) for t in operands)
    attrs = {"asm_string": text, "constraints": constraints}
    numbers, made = tuple(range(len(types))), tuple(99 for _ in results)
    return Op(
        "llvm.inline_asm", numbers, made, types, tuple(map(parse_type, results)), attrs, (), Place("k.py", 1)
    )


def run(m: Machine, op: Op, *values: Any, mask: Any = None) -> Any:
    """Build the operation and run it once."""
    return lookup(op, ENV).build(op, ENV)(m, mask, *values)


def machine(*tensors: torch.Tensor) -> tuple[Machine, list[Ptr]]:
    """A machine of one wave with 4 KiB of LDS, and a pointer to each tensor."""
    memory = GlobalMemory("cpu")
    memory.add(tensors)
    m = Machine(ENV, Grid((1, 1, 1), (64, 1, 1), 4096), 0, 1, memory, Findings(), NoChecks())
    m.place_lds({})
    return m, [memory.pointer(t.data_ptr()) for t in tensors]


def lds(m: Machine, count: int) -> list[int]:
    """The first dwords of LDS."""
    assert m.lds is not None
    return m.lds.views[4][:count].tolist()


def test_global_store_writes_the_registers_of_each_active_lane() -> None:
    tensor = torch.zeros(64 * 4)
    m, (base,) = machine(tensor)
    value = torch.arange(256, dtype=torch.float32).reshape(1, 64, 4)
    op = assembly("global_store_dwordx4 $0, $1, off sc0 sc1", "v,v", ["!llvm.ptr<1>", "vector<4xf32>"], [])

    run(m, op, Ptr(base.region, LANES * 16), value, mask=LANES < 3)

    assert tensor[:12].tolist() == list(range(12))
    assert not tensor[12:].any()


def test_global_store_adds_its_immediate_offset_and_takes_an_address_as_a_number() -> None:
    tensor = torch.zeros(64, dtype=torch.int32)
    m, (base,) = machine(tensor)
    op = assembly("global_store_dword $0, $1, off offset:8 nt", "v,v", ["i64", "i32"], [])

    run(m, op, torch.full((1, 1), base.address), LANES + 7, mask=LANES < 1)

    assert tensor[:4].tolist() == [0, 0, 7, 0]


def test_global_load_reads_pairs() -> None:
    m, (base,) = machine(torch.arange(128, dtype=torch.int32))
    op = assembly("global_load_dwordx2 $0, $1, off", "=v,v", ["!llvm.ptr<1>"], ["vector<2xi32>"])

    assert run(m, op, Ptr(base.region, LANES * 8))[0, :2].tolist() == [[0, 1], [2, 3]]


def test_lds_goes_round_through_assembly() -> None:
    m, _ = machine()
    write = assembly("ds_write_b32 $0, $1 offset:4", "v,v", ["i32", "i32"], [])
    read = assembly("ds_read_b32 $0, $1 offset:4", "=v,v", ["i32"], ["i32"])

    run(m, write, LANES * 4, LANES * 10)

    assert lds(m, 4) == [-1, 0, 10, 20]
    assert run(m, read, (63 - LANES) * 4)[0, :2].tolist() == [630, 620]


def test_buffer_load_to_lds_takes_its_base_from_m0_which_stays() -> None:
    m, (base,) = machine(torch.arange(256, dtype=torch.int32))
    resource = Resource(base, 0, 1024, 0)
    types = ["i32", "i32", "!llvm.ptr<8>", "i32"]
    first = assembly("s_mov_b32 m0, $0\nbuffer_load_dword $1, $2, $3 offen lds", "s,v,s,s", types, [])
    second = assembly("s_add_u32 m0, 256, m0\nbuffer_load_dword $0, $1, $2 offen lds", "v,s,s", types[1:], [])

    run(m, first, torch.full((1, 1), 16, dtype=torch.int32), LANES * 4, resource, 4)
    run(m, second, LANES * 0, resource, 8)

    assert lds(m, 4 + 64 + 2) == [-1] * 4 + list(range(1, 65)) + [2, 2]


def test_buffer_load_to_lds_adds_its_immediate_offset_on_both_sides() -> None:
    m, (base,) = machine(torch.arange(256, dtype=torch.int32))
    op = assembly(
        "s_mov_b32 m0, $0\ns_nop 0\nbuffer_load_dword $1, $2, 0 offen offset:8 lds",
        "s,v,s",
        ["i32", "i32", "!llvm.ptr<8>"],
        [],
    )

    run(m, op, torch.zeros((1, 1), dtype=torch.int32), LANES * 4, Resource(base, 0, 1024, 0))

    assert lds(m, 4) == [-1, -1, 2, 3]


def scaled(text: str, op_sel: tuple[int, int], with_c: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """The assembly's product and that of ``rocdl.mfma.scale`` on the same fp4 registers."""
    generator = torch.Generator().manual_seed(5)
    a, b = (torch.randint(-(2**31), 2**31 - 1, (1, 64, 4), generator=generator).int() for _ in range(2))
    sa, sb = (torch.randint(120, 134, (1, 64, 4), generator=generator).byte() for _ in range(2))
    c = torch.randn(1, 64, 4, generator=generator)
    left, right = (s.view(torch.int32).squeeze(-1) for s in (sa, sb))
    quad = "vector<4xi32>"
    m, _ = machine()
    operands = [quad, quad, "i32", "i32", *(["vector<4xf32>"] if with_c else [])]
    got = run(
        m,
        assembly(text, "=a,v,v,v,v" + (",0" if with_c else ""), operands, ["vector<4xf32>"]),
        *(a, b, left, right),
        *([c] if with_c else []),
    )
    direct = Op(
        "rocdl.mfma.scale.f32.16x16x128.f8f6f4",
        (0, 1, 2, 3, 4),
        (99,),
        tuple(map(parse_type, (quad, quad, "vector<4xf32>", "i32", "i32"))),
        (parse_type("vector<4xf32>"),),
        {"cbsz": 4, "blgp": 4, "opselA": op_sel[0], "opselB": op_sel[1]},
        (),
        Place("k.py", 1),
    )
    return got, run(m, direct, a, b, c if with_c else torch.zeros_like(c), left, right)


@pytest.mark.parametrize("low", [(0, 0), (1, 0), (0, 1)])
@pytest.mark.parametrize("high", [0, 1])
def test_scaled_product_takes_the_scale_bytes_that_op_sel_names(low: tuple[int, int], high: int) -> None:
    text = (
        f"v_mfma_scale_f32_16x16x128_f8f6f4 $0, $1, $2, $0, $3, $4 op_sel:[{low[0]},{low[1]},0] "
        f"op_sel_hi:[{high},{high},0] cbsz:4 blgp:4"
    )

    got, expected = scaled(text, (low[0] + 2 * high, low[1] + 2 * high), with_c=True)

    assert torch.equal(got, expected)


def test_scaled_product_starts_at_a_literal() -> None:
    text = "v_mfma_scale_f32_16x16x128_f8f6f4 $0, $1, $2, 0, $3, $4 op_sel:[0,0,0] cbsz:4 blgp:4"

    got, expected = scaled(text, (0, 0), with_c=False)

    assert torch.equal(got, expected)


@pytest.mark.parametrize(
    "text",
    [
        "global_store_dword $0, $1, s[2:3]",
        "global_store_dword $0, v7, off",
        "buffer_load_dword $0, $1, 0 offen",
        "s_add_u32 s4, s4, 1",
        "ds_write_b32 $0, $1 gds",
        "v_made_up_f32 $0, $1",
    ],
)
def test_assembly_of_another_form_stops_with_its_text(text: str) -> None:
    op = assembly(text, "v,v", ["i32", "i32"], [])

    with pytest.raises(UnknownOperationError, match="assembly"):
        lookup(op, ENV).build(op, ENV)


def test_a_store_in_assembly_counts_as_a_store_through_its_argument() -> None:
    op = assembly("global_store_dword $0, $1, off", "v,v", ["!llvm.ptr<1>", "i32"], [])
    pointer, number = parse_type("!llvm.ptr<1>"), parse_type("i32")
    body = Region((0, 1), (pointer, number), (op,))

    assert facts(Function("kernel", body, {}, Place("k.py", 1), 2)).stored_arguments == frozenset({0})
