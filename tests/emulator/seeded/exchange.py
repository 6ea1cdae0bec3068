"""A product modulo a prime by compare and exchange: each lane tries until nobody came in between."""

import flydsl.compiler as flyc
import flydsl.expr as fx
import torch

PRIME = 1000003


@flyc.kernel(known_block_size=[64, 1, 1])
def product(X: fx.Tensor, P: fx.Tensor, count: fx.Int32):
    i = fx.thread_idx.x
    if i < count:
        done = fx.Boolean(False)
        expected = fx.Int32(1)
        while ~done:
            wanted = expected * X[i] % fx.Int32(PRIME)
            old, swapped = fx.atomic_cas(fx.get_iter(P), expected, wanted)
            done = swapped
            expected = old


@flyc.jit
def launch(X: fx.Tensor, P: fx.Tensor, count: fx.Int32):
    product(X, P, count).launch(grid=(1, 1, 1), block=(64, 1, 1))


def case(count):
    x, p = torch.randint(1, 50, (count,), dtype=torch.int32), torch.ones(1, dtype=torch.int32)
    launch(x, p, count)
    expected = 1
    for value in x.tolist():
        expected = expected * value % PRIME
    return p, torch.tensor([expected])
