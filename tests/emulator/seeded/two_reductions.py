"""exp(x - max) / sum for each row: two reductions over the workgroup through the same LDS slots."""

import flydsl.compiler as flyc
import flydsl.expr as fx
import torch

BLOCK, WAVE = 256, 64
WAVES = BLOCK // WAVE


@fx.struct
class Shared:
    slots: fx.Array[fx.Float32, WAVES, 16]


def wave_max(value):
    for step in (32, 16, 8, 4, 2, 1):
        value = fx.max(value, fx.shuffle_xor(value, step, WAVE))
    return value


def wave_sum(value):
    for step in (32, 16, 8, 4, 2, 1):
        value = value + fx.shuffle_xor(value, step, WAVE)
    return value


@flyc.kernel(known_block_size=[BLOCK, 1, 1])
def softmax(X: fx.Tensor, Y: fx.Tensor):
    tid = fx.thread_idx.x
    row = fx.block_idx.x
    slots = fx.SharedAllocator().allocate(Shared).peek().slots.view(fx.make_layout(WAVES, 1))
    x = X[row, tid]
    peak = wave_max(x)
    if tid % WAVE == 0:
        slots[tid // WAVE] = peak
    fx.gpu.barrier()  # maxima are there
    peak = fx.max(fx.max(slots[0], slots[1]), fx.max(slots[2], slots[3]))
    fx.gpu.barrier()  # maxima have been read
    e = fx.exp2((x - peak) * 1.4426950408889634)
    total = wave_sum(e)
    if tid % WAVE == 0:
        slots[tid // WAVE] = total  # second use
    fx.gpu.barrier()  # sums are there
    total = slots[0] + slots[1] + slots[2] + slots[3]
    Y[row, tid] = e / total


@flyc.jit
def launch(X: fx.Tensor, Y: fx.Tensor, rows: fx.Int32):
    softmax(X, Y).launch(grid=(rows, 1, 1), block=(BLOCK, 1, 1))


def case(rows):
    x = torch.randn(rows, BLOCK) * 3
    y = torch.zeros(rows, BLOCK)
    launch(x, y, rows)
    return y, torch.softmax(x, 1)
