"""Matrix instructions of float32 and of 8-bit integers: where items lie, and, on a GPU, the products."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("flydsl")

from test_nvptx_matrix import kernel, launched

from kernel_lint.emulator.numerics import mfma_table
from kernel_lint.emulator.numerics.mfma import mfma
from kernel_lint.nvptx import dot, waves
from kernel_lint.nvptx.apart import compile_apart
from kernel_lint.nvptx.facts import Known

SPECS = [mfma_table.MFMA_SPECS[name] for name in sorted(dot.NAMES)]


def test_which_instructions_there_are() -> None:
    current = {spec.name for spec in SPECS if {"gfx942", "gfx950"} & {*spec.gfx}}
    assert {name.removeprefix("rocdl.mfma.") for name in current} == {
        "f32.32x32x2f32", "f32.16x16x4f32",
        "i32.32x32x16.i8", "i32.16x16x32.i8", "i32.16x16x64.i8", "i32.32x32x32.i8",
    }  # fmt: skip


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_items_lie_where_lanes_put_them(spec: mfma_table.MfmaSpec) -> None:
    bits = spec.operand_bits("a")
    assert dot.lane_bytes(spec) * 8 == spec.items * bits
    for index in range(spec.m):
        for k in range(spec.k):
            group, item = divmod(k, spec.items)
            assert mfma_table.input_place(spec, 0, index, k, bits) == (index + group * spec.m, item)
    for lane in range(64):
        for item in range(spec.acc_items):
            row = dot.first_row(spec, lane) + dot.further_rows(item)
            assert mfma_table.output_place(spec, 0, row, lane % spec.m) == (lane, item)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_each_becomes_multiply_adds_of_a_lane(spec: mfma_table.MfmaSpec) -> None:
    text = compile_apart(kernel(spec), "k", Known((128, 1, 1), {}), "sm_90").text
    steps = spec.acc_items * spec.k
    if spec.a_type == "f32":
        assert text.count("fma.rn.f32") == steps
    else:
        assert text.count("dp4a.s32.s32") == steps // 4
    assert f"{waves.MATRICES}[{2 * dot.bytes_of(spec.name)}]" in text


TARGETS = [(spec, target) for spec in SPECS for target in spec.gfx if target in ("gfx942", "gfx950")]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")
@pytest.mark.parametrize(("spec", "target"), TARGETS, ids=[f"{spec.name}-{t}" for spec, t in TARGETS])
def test_the_products_are_those_of_the_emulator(spec: mfma_table.MfmaSpec, target: str) -> None:
    lanes = 256
    torch.manual_seed(4)
    dtype, bound = (torch.float32, 999) if spec.a_type == "f32" else (torch.int8, 128)
    a, b = (torch.randint(-bound, bound, (lanes, spec.items)).to(dtype) for _ in range(2))
    c = torch.randint(-99, 100, (lanes, spec.acc_items))
    c = c.float() if spec.acc_type == "f32" else c.int()
    assert torch.equal(launched(spec, target, a, b, c), mfma(spec, a, b, c, gfx=target, lanes=lanes))
