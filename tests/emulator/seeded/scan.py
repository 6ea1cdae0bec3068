"""Running sums within each group of 64 by a wave, without LDS."""

import flydsl.compiler as flyc
import flydsl.expr as fx
import torch

WAVE, BLOCK = 64, 128


@flyc.kernel(known_block_size=[BLOCK, 1, 1])
def running_sum(X: fx.Tensor, Y: fx.Tensor):
    i = fx.block_idx.x * BLOCK + fx.thread_idx.x
    lane = fx.thread_idx.x % WAVE
    value = X[i]
    for step in fx.range_constexpr(6):
        other = fx.shuffle_up(value, 1 << step, WAVE)
        value = (lane >= (1 << step)).select(value + other, value)
    Y[i] = value


@flyc.jit
def launch(X: fx.Tensor, Y: fx.Tensor, blocks: fx.Int32):
    running_sum(X, Y).launch(grid=(blocks, 1, 1), block=(BLOCK, 1, 1))


def case(blocks):
    x = torch.randint(-8, 8, (blocks * BLOCK,)).to(torch.float32)
    y = torch.zeros_like(x)
    launch(x, y, blocks)
    return y, x.reshape(-1, WAVE).cumsum(1).reshape(-1)
