"""A permutation of three dimensions by workgroups of 4 x 8 x 4 threads, with tails in all three."""

import flydsl.compiler as flyc
import flydsl.expr as fx
import torch


@flyc.kernel(known_block_size=[4, 8, 4])
def permute(X: fx.Tensor, Y: fx.Tensor, nx: fx.Int32, ny: fx.Int32, nz: fx.Int32):
    x = fx.block_idx.x * 4 + fx.thread_idx.x
    y = fx.block_idx.y * 8 + fx.thread_idx.y
    z = fx.block_idx.z * 4 + fx.thread_idx.z
    if (x < nx) & (y < ny) & (z < nz):
        Y[z, y, x] = X[x, y, z]


@flyc.jit
def launch(X: fx.Tensor, Y: fx.Tensor, nx: fx.Int32, ny: fx.Int32, nz: fx.Int32):
    grid = ((nx + 3) // 4, (ny + 7) // 8, (nz + 3) // 4)
    permute(X, Y, nx, ny, nz).launch(grid=grid, block=(4, 8, 4))


def case(nx, ny, nz):
    x, y = torch.randn(nx, ny, nz), torch.zeros(nz, ny, nx)
    launch(x, y, nx, ny, nz)
    return y, x.permute(2, 1, 0)
