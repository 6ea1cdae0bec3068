"""y = 2 x + 1 over a flat tensor, the last workgroup partial."""

import flydsl.compiler as flyc
import flydsl.expr as fx
import torch

BLOCK = 256


@flyc.kernel(known_block_size=[BLOCK, 1, 1])
def scale(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32):
    i = fx.block_idx.x * BLOCK + fx.thread_idx.x
    if i < n:
        x = X[i]
        Y[i] = x * fx.Float32(2.0) + fx.Float32(1.0)


@flyc.jit
def launch(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32):
    scale(X, Y, n).launch(grid=((n + BLOCK - 1) // BLOCK, 1, 1), block=(BLOCK, 1, 1))


def case(n):
    x, y = torch.randn(n), torch.zeros(n)
    launch(x, y, n)
    return y, 2 * x + 1
