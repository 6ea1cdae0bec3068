"""Loops whose trip counts differ between lanes, with a branch inside, in a workgroup of 100 threads."""

import flydsl.compiler as flyc
import flydsl.expr as fx
import torch

BLOCK = 100


@flyc.kernel(known_block_size=[BLOCK, 1, 1])
def count(C: fx.Tensor):
    t = fx.thread_idx.x
    total = fx.Int32(0)
    for i in range(t % 7):
        if i % 2 == 0:
            total = total + i
        else:
            total = total - 1
    n = t
    digits = fx.Int32(0)
    while n > 0:
        digits = digits + n % 3
        n = n // 2
    C[fx.block_idx.x * BLOCK + t] = total + digits * 100


@flyc.jit
def launch(C: fx.Tensor, blocks: fx.Int32):
    count(C).launch(grid=(blocks, 1, 1), block=(BLOCK, 1, 1))


def expected(t):
    total = sum(i if i % 2 == 0 else -1 for i in range(t % 7))
    digits = 0
    while t > 0:
        digits += t % 3
        t //= 2
    return total + digits * 100


def case(blocks):
    c = torch.zeros(blocks * BLOCK, dtype=torch.int32)
    launch(c, blocks)
    return c, torch.tensor([expected(t) for t in range(BLOCK)] * blocks)
