"""The sum of each row by one workgroup, as a tree in LDS."""

import flydsl.compiler as flyc
import flydsl.expr as fx
import torch

BLOCK = 256


@fx.struct
class Shared:
    parts: fx.Array[fx.Float32, BLOCK, 16]


@flyc.kernel(known_block_size=[BLOCK, 1, 1])
def row_sum(X: fx.Tensor, Y: fx.Tensor, cols: fx.Int32):
    tid = fx.thread_idx.x
    row = fx.block_idx.x
    parts = fx.SharedAllocator().allocate(Shared).peek().parts.view(fx.make_layout(BLOCK, 1))
    total = fx.Float32(0.0)
    for i in range(tid, cols, BLOCK):
        total = total + X[row, i]
    parts[tid] = total
    fx.gpu.barrier()  # all parts are there
    half = fx.Int32(BLOCK // 2)
    while half > 0:
        if tid < half:
            parts[tid] = parts[tid] + parts[tid + half]
        fx.gpu.barrier()  # this level is done
        half = half // 2
    if tid == 0:
        Y[row] = parts[0]


@flyc.jit
def launch(X: fx.Tensor, Y: fx.Tensor, rows: fx.Int32, cols: fx.Int32):
    row_sum(X, Y, cols).launch(grid=(rows, 1, 1), block=(BLOCK, 1, 1))


def case(rows, cols):
    x, y = torch.randn(rows, cols), torch.zeros(rows)
    launch(x, y, rows, cols)
    return y, x.sum(1)
