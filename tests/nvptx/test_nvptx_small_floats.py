"""Conversions between float32 and floats of 8 bits: on a GPU, bit for bit what the emulator gives."""

from __future__ import annotations

import struct

import pytest
import torch

pytest.importorskip("flydsl")

from kernel_lint.emulator.numerics.conversions import cvt_f32_f8, cvt_pk_f8_f32, cvt_pk_f32_f8
from kernel_lint.emulator.numerics.formats import fp8_formats
from kernel_lint.nvptx.apart import compile_apart
from kernel_lint.nvptx.compile import Ptx
from kernel_lint.nvptx.facts import Known

KINDS = ["fp8", "bf8"]
TARGETS = ["gfx942", "gfx950"]
BLOCK = 256
gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")
_TWO = "vector<2xf32>"


def kernel(source: str, body: str, result: str) -> str:
    """A kernel that loads ``%v``, runs ``body``, and stores the ``%r`` that it makes."""
    return f"""module attributes {{gpu.container_module}} {{ gpu.module @m {{
      gpu.func @k(%a: !llvm.ptr<1>, %d: !llvm.ptr<1>) kernel {{
        %x = gpu.thread_id x
        %b = gpu.block_id x
        %size = arith.constant {BLOCK} : index
        %start = arith.muli %b, %size : index
        %sum = arith.addi %start, %x : index
        %t = arith.index_cast %sum : index to i64
        %pa = llvm.getelementptr %a[%t] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, {source}
        %v = llvm.load %pa : !llvm.ptr<1> -> {source}
        {body}
        %pd = llvm.getelementptr %d[%t] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, {result}
        llvm.store %r, %pd : {result}, !llvm.ptr<1>
        gpu.return }} }} }}"""


def narrowing(kind: str, high: bool) -> str:
    body = f"""%low = vector.extract %v[0] : f32 from {_TWO}
        %top = vector.extract %v[1] : f32 from {_TWO}
        %old = arith.constant 0x5A5A5A5A : i32
        %r = rocdl.cvt.pk.{kind}.f32 %low, %top -> %old[{str(high).lower()}] : i32"""
    return kernel(_TWO, body, "i32")


def widening(kind: str, byte: int) -> str:
    return kernel("i32", f"%r = rocdl.cvt.f32.{kind} %v[{byte}] : f32", "f32")


def widening_two(kind: str, high: bool) -> str:
    return kernel("i32", f"%r = rocdl.cvt.pk.f32.{kind} %v[{str(high).lower()}] : {_TWO}", _TWO)


def compiled(text: str, target: str) -> Ptx:
    return compile_apart(text, "k", Known((BLOCK, 1, 1), {}, target), "sm_90")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", KINDS)
def test_each_becomes_arithmetic(kind: str, target: str) -> None:
    for text in (narrowing(kind, True), widening(kind, 3), widening_two(kind, False)):
        assert "call" not in compiled(text, target).text


def launched(text: str, target: str, source: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """What the kernel gives on the GPU for each row of ``source``."""
    from kernel_lint.nvptx.driver import CudaDriver

    places = source.cuda(), out.cuda()
    driver = CudaDriver()
    parameters = [struct.pack("<Q", tensor.data_ptr()) for tensor in places]
    driver.launch(
        driver.load(compiled(text, target)), (len(source) // BLOCK, 1, 1), (BLOCK, 1, 1), 0, 0, parameters
    )
    torch.cuda.synchronize()
    return places[1].cpu()


@pytest.mark.gpu
@gpu
@pytest.mark.parametrize("high", [False, True])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", KINDS)
def test_floats_are_rounded_as_the_emulator_rounds_them(kind: str, target: str, high: bool) -> None:
    fmt = fp8_formats(target)[KINDS.index(kind)]
    torch.manual_seed(1)
    # Every sign, exponent and first bits of the mantissa, with ties, what lies beside them, and anything.
    heads = torch.arange(1 << 16, dtype=torch.int32) << 16
    rests = torch.cat(
        [heads, heads + 1, heads - 1, heads + torch.randint(0, 1 << 16, heads.shape, dtype=torch.int32)]
    )
    values = rests.view(torch.float32).reshape(-1, 2)
    got = launched(narrowing(kind, high), target, values, torch.zeros(len(values), dtype=torch.int32))
    old = torch.full((len(values),), 0x5A5A5A5A, dtype=torch.int32)
    want = cvt_pk_f8_f32(values[:, 0], values[:, 1], old, high, fmt)
    assert torch.equal(got, want.to(torch.int32))


@pytest.mark.gpu
@gpu
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_code_becomes_the_float_that_it_stands_for(kind: str, target: str) -> None:
    fmt = fp8_formats(target)[KINDS.index(kind)]
    codes = torch.arange(256, dtype=torch.int32)
    words = codes | (255 - codes) << 8 | codes << 16 | (255 - codes) << 24
    for byte in range(4):
        got = launched(widening(kind, byte), target, words, torch.zeros(256))
        torch.testing.assert_close(got, cvt_f32_f8(words, byte, fmt), rtol=0, atol=0, equal_nan=True)
    for high in (False, True):
        got = launched(widening_two(kind, high), target, words, torch.zeros(256, 2))
        torch.testing.assert_close(got, cvt_pk_f32_f8(words, high, fmt), rtol=0, atol=0, equal_nan=True)
