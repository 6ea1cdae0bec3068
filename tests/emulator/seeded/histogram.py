"""How often each of 32 numbers occurs: atomics in LDS, then in global memory."""

import flydsl.compiler as flyc
import flydsl.expr as fx
import torch

BLOCK, BINS = 128, 32


@fx.struct
class Shared:
    bins: fx.Array[fx.Int32, BINS, 16]


@flyc.kernel(known_block_size=[BLOCK, 1, 1])
def histogram(X: fx.Tensor, H: fx.Tensor, count: fx.Int32):
    tid = fx.thread_idx.x
    bins = fx.SharedAllocator().allocate(Shared).peek().bins.view(fx.make_layout(BINS, 1))
    if tid < BINS:
        bins[tid] = fx.Int32(0)
    fx.gpu.barrier()
    i = fx.block_idx.x * BLOCK + tid
    if i < count:
        place = fx.add_offset(fx.get_iter(bins), X[i])
        fx.atomic_add(place, fx.Int32(1), syncscope=fx.rocdl.SyncScope.Workgroup)
    fx.gpu.barrier()
    if tid < BINS:
        place = fx.add_offset(fx.get_iter(H), tid)
        fx.atomic_add(place, bins[tid], syncscope=fx.rocdl.SyncScope.Agent)


@flyc.jit
def launch(X: fx.Tensor, H: fx.Tensor, count: fx.Int32):
    histogram(X, H, count).launch(grid=((count + BLOCK - 1) // BLOCK, 1, 1), block=(BLOCK, 1, 1))


def case(count):
    x, h = torch.randint(0, BINS, (count,), dtype=torch.int32), torch.zeros(BINS, dtype=torch.int32)
    launch(x, h, count)
    return h, torch.bincount(x, minlength=BINS)
