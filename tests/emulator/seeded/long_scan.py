"""Running sums of a whole line by one workgroup, tile by tile, with a carry, a tail and a while."""

import flydsl.compiler as flyc
import flydsl.expr as fx
import torch

BLOCK, WAVES = 256, 4


@fx.struct
class Shared:
    sums: fx.Array[fx.Int32, WAVES, 16]


@flyc.kernel(known_block_size=[BLOCK, 1, 1])
def running_sum(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32):
    tid = fx.thread_idx.x
    sums = fx.SharedAllocator().allocate(Shared).peek().sums.view(fx.make_layout(WAVES, 1))
    lane, wave = tid % 64, tid // 64
    carry, base = fx.Int32(0), fx.Int32(0)
    while base < n:
        i = base + tid
        v = fx.Int32(0)
        if i < n:
            v = X[i]
        for k in fx.range_constexpr(6):
            other = fx.shuffle_up(v, 1 << k, 64)
            v = (lane >= (1 << k)).select(v + other, v)
        if lane == 63:
            sums[wave] = v
        fx.gpu.barrier()
        before, total = carry, carry
        for w in fx.range_constexpr(WAVES):
            before = before + (wave > w).select(sums[w], 0)
            total = total + sums[w]
        if i < n:
            Y[i] = v + before
        carry = total
        fx.gpu.barrier()
        base = base + BLOCK


@flyc.jit
def launch(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32):
    running_sum(X, Y, n).launch(grid=(1, 1, 1), block=(BLOCK, 1, 1))


def case(n):
    x = torch.randint(-9, 9, (n,), dtype=torch.int32)
    y = torch.zeros_like(x)
    launch(x, y, n)
    return y, x.cumsum(0)
