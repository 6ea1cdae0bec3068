"""A workgroup reverses 16,384 numbers through 64 KiB of LDS, in two arrays, and waits by inline assembly."""

import flydsl.compiler as flyc
import flydsl.expr as fx
import torch
from flydsl._mlir.dialects import llvm

BLOCK, FIRST, SECOND = 256, 10240, 6144
TOTAL = FIRST + SECOND


@fx.struct
class Shared:
    first: fx.Array[fx.Float32, FIRST, 16]
    second: fx.Array[fx.Float32, SECOND, 16]


def build(static: bool):
    @flyc.kernel(known_block_size=[BLOCK, 1, 1])
    def reverse(X: fx.Tensor, Y: fx.Tensor):
        tid = fx.thread_idx.x
        shared = fx.SharedAllocator(static=static).allocate(Shared).peek()
        first = shared.first.view(fx.make_layout(FIRST, 1))
        second = shared.second.view(fx.make_layout(SECOND, 1))
        for k in fx.range_constexpr(FIRST // BLOCK):
            first[k * BLOCK + tid] = X[k * BLOCK + tid]
        for k in fx.range_constexpr(SECOND // BLOCK):
            second[k * BLOCK + tid] = X[FIRST + k * BLOCK + tid]
        llvm.InlineAsmOp(None, [], "s_waitcnt lgkmcnt(0)\n\ts_barrier", "", has_side_effects=True)
        for k in fx.range_constexpr(SECOND // BLOCK):
            Y[k * BLOCK + tid] = second[SECOND - 1 - (k * BLOCK + tid)]
        for k in fx.range_constexpr(FIRST // BLOCK):
            Y[SECOND + k * BLOCK + tid] = first[FIRST - 1 - (k * BLOCK + tid)]

    @flyc.jit
    def launch(X: fx.Tensor, Y: fx.Tensor):
        reverse(X, Y).launch(grid=(1, 1, 1), block=(BLOCK, 1, 1))

    return launch


def case(static: bool, device: str = "cpu"):
    x, y = torch.arange(TOTAL, dtype=torch.float32, device=device), torch.zeros(TOTAL, device=device)
    build(static)(x, y)
    return y, x.flip(0)
