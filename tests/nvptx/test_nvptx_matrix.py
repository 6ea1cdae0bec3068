"""Matrix instructions of AMD's on NVIDIA's tensor cores: where items lie, and, on a GPU, the products."""

from __future__ import annotations

import struct

import pytest
import torch

pytest.importorskip("flydsl")

from kernel_lint.emulator.numerics import mfma_table
from kernel_lint.emulator.numerics.formats import decode
from kernel_lint.emulator.numerics.mfma import mfma, operand_format
from kernel_lint.nvptx import matrix, waves

ALL_CODES = torch.arange(256, dtype=torch.uint8)
_SMALL = ("fp8", "bf8")
SPECS = [mfma_table.MFMA_SPECS[name] for name in sorted(matrix.NAMES)]


def test_which_instructions_there_are() -> None:
    assert {name.removeprefix("rocdl.mfma.f32.") for name in matrix.NAMES} == {
        "16x16x16f16", "16x16x16bf16.1k", "32x32x8f16", "32x32x8bf16.1k",
        "16x16x32.f16", "16x16x32.bf16", "32x32x16.f16", "32x32x16.bf16",
        *(f"{shape}.{a}.{b}" for shape in ("16x16x32", "32x32x16") for a in _SMALL for b in _SMALL),
    }  # fmt: skip


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_pairs_lie_where_lanes_put_them(spec: mfma_table.MfmaSpec) -> None:
    plan = matrix.plan_of(spec)
    for index in range(spec.m):
        for k in range(0, spec.k, 2):
            for step in (0, 1):
                lane, item = mfma_table.input_place(spec, 0, index, k + step, spec.operand_bits("a"))
                assert plan.pair(index, k) + 2 * step == lane * plan.stride + 2 * item


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_each_warp_has_the_rows_of_its_lanes(spec: mfma_table.MfmaSpec) -> None:
    plan = matrix.plan_of(spec)
    for warp in (0, 1):
        rows = [plan.own_row(warp, row) for row in range(spec.m // 2)]
        for row in rows:
            lanes = {mfma_table.output_place(spec, 0, row, column)[0] for column in range(spec.n)}
            assert all(lane // 32 == warp for lane in lanes)
        assert rows == sorted(set(rows))
    # Items of a lane are rows of its warp, in order.
    for column in range(spec.n):
        for row in range(spec.m // 2):
            lane, item = mfma_table.output_place(spec, 0, plan.own_row(0, row), column)
            first = 4 * (lane // 16) if spec.m == 16 else 0
            assert (lane % spec.m, first + item) == (column, row)


def kernel(spec: mfma_table.MfmaSpec) -> str:
    """A kernel that loads a lane's items, multiplies, and stores what the lane has."""
    kind = "i16" if spec.name.endswith("1k") else spec.a_type
    operand = "i64" if spec.a_type in _SMALL else f"vector<{spec.items}x{kind}>"
    if spec.a_type == "i8":
        operand = {4: "i32", 8: "i64", 16: "vector<4xi32>"}[spec.items]
    elif spec.items == 1:
        operand = kind
    sums = f"vector<{spec.acc_items}x{spec.acc_type}>"

    def load(name: str, mtype: str) -> str:
        return (
            f"%p{name} = llvm.getelementptr %{name}[%t] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, {mtype}\n"
            f"%v{name} = llvm.load %p{name} : !llvm.ptr<1> -> {mtype}\n"
        )

    return f"""module attributes {{gpu.container_module}} {{ gpu.module @m {{
      gpu.func @k(%a: !llvm.ptr<1>, %b: !llvm.ptr<1>, %c: !llvm.ptr<1>, %d: !llvm.ptr<1>) kernel {{
        %x = gpu.thread_id x
        %t = arith.index_cast %x : index to i64
        {load("a", operand)}{load("b", operand)}{load("c", sums)}
        %r = {spec.name} %va, %vb, %vc, 0, 0, none : ({operand}, {operand}, {sums}) -> {sums}
        %pd = llvm.getelementptr %d[%t] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, {sums}
        llvm.store %r, %pd : {sums}, !llvm.ptr<1>
        gpu.return }} }} }}"""


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_each_becomes_products_of_the_tensor_cores(spec: mfma_table.MfmaSpec) -> None:
    from kernel_lint.nvptx.apart import compile_apart
    from kernel_lint.nvptx.facts import Known

    text = compile_apart(kernel(spec), "k", Known((128, 1, 1), {}), "sm_90").text
    tiles = spec.m * spec.n * spec.k // (2 * matrix.TILE_N * matrix.TILE_M * matrix.TILE_K)
    assert (
        text.count(f"mma.sync.aligned.m16n8k8.row.col.f32.{'bf16' if spec.a_type == 'bf16' else 'f16'}")
        == tiles
    )
    assert f"{waves.MATRICES}[{2 * matrix.plan_of(spec).size}]" in text


def test_half_a_wave_and_shared_operands_are_refused() -> None:
    from kernel_lint.nvptx.apart import compile_apart
    from kernel_lint.nvptx.errors import NvptxRefusalError
    from kernel_lint.nvptx.facts import Known

    text = kernel(SPECS[0])
    with pytest.raises(NvptxRefusalError, match="some lanes of its last wave are missing"):
        compile_apart(text, "k", Known((96, 1, 1), {}), "sm_90")
    with pytest.raises(NvptxRefusalError, match="its cbsz is 1"):
        compile_apart(text.replace("0, 0, none", "1, 0, none"), "k", Known((64, 1, 1), {}), "sm_90")


def operands(spec: mfma_table.MfmaSpec, target: str, lanes: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Items of A and B whose products sum exactly, in any order."""
    torch.manual_seed(3)
    a, b = (torch.randint(-8, 9, (lanes, spec.items)).float() for _ in range(2))
    found = []
    for which, values in (("a", a), ("b", b)):
        small = operand_format(spec, which, target)
        if small is None:
            found.append(values.to(torch.float16 if spec.a_type == "f16" else torch.bfloat16))
        else:
            codes = {value: code for code, value in enumerate(decode(ALL_CODES, small).tolist())}
            # What the format does not hold becomes 1.
            found.append(
                torch.tensor(
                    [[codes.get(v, codes[1.0]) for v in row] for row in values.tolist()], dtype=torch.uint8
                )
            )
    return found[0], found[1]


TARGETS = [(spec, target) for spec in SPECS for target in spec.gfx if target in ("gfx942", "gfx950")]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")
@pytest.mark.parametrize(("spec", "target"), TARGETS, ids=[f"{spec.name}-{t}" for spec, t in TARGETS])
def test_the_products_are_those_of_the_emulator(spec: mfma_table.MfmaSpec, target: str) -> None:
    lanes = 256
    a, b = operands(spec, target, lanes)
    c = torch.randint(-99, 100, (lanes, spec.acc_items)).float()
    assert torch.equal(launched(spec, target, a, b, c), mfma(spec, a, b, c, gfx=target, lanes=lanes))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")
@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
@pytest.mark.parametrize("kind", _SMALL)
def test_every_code_of_eight_bits_means_what_it_should(kind: str, target: str) -> None:
    spec = mfma_table.MFMA_SPECS[f"rocdl.mfma.f32.16x16x32.{kind}.{kind}"]
    small = operand_format(spec, "a", target)
    assert small is not None
    one = decode(ALL_CODES, small).tolist().index(1.0)
    # Row i of A holds code 16 n + i at k = 0 and nothing else; B is 1: D[i] is what the code means.
    for n in range(16):
        a, b = (
            torch.zeros(64, spec.items, dtype=torch.uint8),
            torch.full((64, spec.items), one, dtype=torch.uint8),
        )
        for row in range(16):
            lane, item = mfma_table.input_place(spec, 0, row, 0, 8)
            a[lane, item] = 16 * n + row
        out = launched(spec, target, a, b, torch.zeros(64, spec.acc_items))
        for row in range(16):
            lane, item = mfma_table.output_place(spec, 0, row, 5)
            meant = decode(ALL_CODES, small)[16 * n + row]
            assert out[lane, item] == meant or (meant.isnan() and out[lane, item].isnan()), 16 * n + row


def launched(
    spec: mfma_table.MfmaSpec, target: str, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor
) -> torch.Tensor:
    """What the kernel gives on the GPU, one lane after another."""
    from kernel_lint.nvptx.apart import compile_apart
    from kernel_lint.nvptx.driver import CudaDriver
    from kernel_lint.nvptx.facts import Known

    places = [tensor.cuda() for tensor in (a, b, c)]
    out = torch.zeros_like(c, device="cuda")
    ptx = compile_apart(kernel(spec), "k", Known((len(c), 1, 1), {}, target), "sm_90")
    driver = CudaDriver()
    parameters = [struct.pack("<Q", tensor.data_ptr()) for tensor in (*places, out)]
    driver.launch(driver.load(ptx), (1, 1, 1), (len(c), 1, 1), 0, 0, parameters)
    torch.cuda.synchronize()
    return out.cpu()
