"""Copy rows of bf16 in vectors of eight and double them, the tail by a predicate."""

import flydsl.compiler as flyc
import flydsl.expr as fx
import torch

BLOCK, WIDTH = 64, 8


@flyc.kernel(known_block_size=[BLOCK, 1, 1])
def double(X: fx.Tensor, Y: fx.Tensor, vectors: fx.Int32):
    i = fx.block_idx.x * BLOCK + fx.thread_idx.x
    atom = fx.make_copy_atom(fx.UniversalCopy128b(), fx.BFloat16)
    source = fx.logical_divide(X, fx.make_layout(WIDTH, 1))
    target = fx.logical_divide(Y, fx.make_layout(WIDTH, 1))
    if i < vectors:
        values = fx.make_rmem_tensor(WIDTH, fx.BFloat16)
        fx.copy(atom, fx.slice(source, (None, i)), values)
        doubled = fx.make_rmem_tensor(WIDTH, fx.BFloat16)
        doubled.store((values.load().to(fx.Float32) * 2.0).to(fx.BFloat16))
        fx.copy(atom, doubled, fx.slice(target, (None, i)))


@flyc.jit
def launch(X: fx.Tensor, Y: fx.Tensor, vectors: fx.Int32):
    double(X, Y, vectors).launch(grid=((vectors + BLOCK - 1) // BLOCK, 1, 1), block=(BLOCK, 1, 1))


def case(vectors):
    x = torch.randn(vectors * WIDTH).bfloat16()
    y = torch.zeros_like(x)
    launch(x, y, vectors)
    return y, x * 2
