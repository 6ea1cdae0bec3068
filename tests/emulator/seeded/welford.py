"""Variance of rows by Welford's method: a butterfly of three registers, four waves joined in LDS."""

import flydsl.compiler as flyc
import flydsl.expr as fx
import torch

BLOCK, WAVES = 256, 4


@fx.struct
class Shared:
    means: fx.Array[fx.Float32, WAVES, 16]
    squares: fx.Array[fx.Float32, WAVES, 16]
    counts: fx.Array[fx.Float32, WAVES, 16]


@flyc.kernel(known_block_size=[BLOCK, 1, 1])
def welford(X: fx.Tensor, V: fx.Tensor, cols: fx.Int32):
    tid, row = fx.thread_idx.x, fx.block_idx.x
    shared = fx.SharedAllocator().allocate(Shared).peek()
    means = shared.means.view(fx.make_layout(WAVES, 1))
    squares = shared.squares.view(fx.make_layout(WAVES, 1))
    counts = shared.counts.view(fx.make_layout(WAVES, 1))
    n, mean, m2 = fx.Float32(0.0), fx.Float32(0.0), fx.Float32(0.0)
    for i in range(tid, cols, BLOCK):
        x = X[row, i]
        n = n + 1.0
        d = x - mean
        mean = mean + d / n
        m2 = m2 + d * (x - mean)
    for k in fx.range_constexpr(6):
        other_n = fx.shuffle_xor(n, 1 << k, 64)
        d = fx.shuffle_xor(mean, 1 << k, 64) - mean
        other_m2 = fx.shuffle_xor(m2, 1 << k, 64)
        total = n + other_n
        safe = (total > 0.0).select(total, 1.0)
        mean = mean + d * other_n / safe
        m2 = m2 + other_m2 + d * d * n * other_n / safe
        n = total
    if tid % 64 == 0:
        means[tid // 64] = mean
        squares[tid // 64] = m2
        counts[tid // 64] = n
    fx.gpu.barrier()
    if tid == 0:
        n, mean, m2 = counts[0], means[0], squares[0]
        for w in fx.range_constexpr(1, WAVES):
            total = n + counts[w]
            safe = (total > 0.0).select(total, 1.0)
            d = means[w] - mean
            m2 = m2 + squares[w] + d * d * n * counts[w] / safe
            mean = mean + d * counts[w] / safe
            n = total
        V[row] = m2 / n


@flyc.jit
def launch(X: fx.Tensor, V: fx.Tensor, rows: fx.Int32, cols: fx.Int32):
    welford(X, V, cols).launch(grid=(rows, 1, 1), block=(BLOCK, 1, 1))


def case(rows, cols):
    x, v = torch.randn(rows, cols) + 10, torch.zeros(rows)
    launch(x, v, rows, cols)
    return v, x.double().var(1, unbiased=False)
