"""D = A B + C for 16 x 16 tiles of f16 by one matrix instruction for each 16 of the depth."""

import flydsl.compiler as flyc
import flydsl.expr as fx
import torch


@flyc.kernel(known_block_size=[64, 1, 1])
def product(A: fx.Tensor, B: fx.Tensor, D: fx.Tensor, depth: fx.Constexpr[int]):
    lane = fx.thread_idx.x
    row, group = lane % 16, lane // 16
    tile = fx.block_idx.x * 16
    total = fx.make_rmem_tensor(4, fx.Float32)
    total.fill(0)
    atom = fx.make_mma_atom(fx.rocdl.MFMA(16, 16, 16, fx.Float16))
    for k in fx.range_constexpr(depth // 16):
        a = fx.make_rmem_tensor(4, fx.Float16)
        b = fx.make_rmem_tensor(4, fx.Float16)
        for j in fx.range_constexpr(4):
            a[j] = A[tile + row, k * 16 + group * 4 + j]
            b[j] = B[k * 16 + group * 4 + j, row]
        fx.gemm(atom, total, a, b, total)
    for j in fx.range_constexpr(4):
        D[tile + group * 4 + j, row] = total[j]


@flyc.jit
def launch(A: fx.Tensor, B: fx.Tensor, D: fx.Tensor, tiles: fx.Int32, depth: fx.Constexpr[int]):
    product(A, B, D, depth).launch(grid=(tiles, 1, 1), block=(64, 1, 1))


def case(tiles, depth):
    a, b = torch.randn(tiles * 16, depth).half(), torch.randn(depth, 16).half()
    d = torch.zeros(tiles * 16, 16)
    launch(a, b, d, tiles, depth)
    return d, a.float() @ b.float()
