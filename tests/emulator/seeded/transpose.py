"""The transpose of a matrix by 32 x 32 tiles through LDS, rows padded to 33."""

import flydsl.compiler as flyc
import flydsl.expr as fx
import torch

TILE, PITCH, BLOCK = 32, 33, 256


@fx.struct
class Shared:
    tile: fx.Array[fx.Float32, TILE * PITCH, 16]


@flyc.kernel(known_block_size=[BLOCK, 1, 1])
def transpose(X: fx.Tensor, Y: fx.Tensor, rows: fx.Int32, cols: fx.Int32):
    tid = fx.thread_idx.x
    tile = fx.SharedAllocator().allocate(Shared).peek().tile.view(fx.make_layout(TILE * PITCH, 1))
    r0, c0 = fx.block_idx.y * TILE, fx.block_idx.x * TILE
    column, row = tid % TILE, tid // TILE
    for k in fx.range_constexpr(TILE * TILE // BLOCK):
        r = row + k * (BLOCK // TILE)
        if (r0 + r < rows) & (c0 + column < cols):
            tile[r * PITCH + column] = X[r0 + r, c0 + column]
    fx.gpu.barrier()  # the tile is there
    for k in fx.range_constexpr(TILE * TILE // BLOCK):
        r = row + k * (BLOCK // TILE)
        if (c0 + r < cols) & (r0 + column < rows):
            value = tile[column * PITCH + r]
            Y[c0 + r, r0 + column] = value


@flyc.jit
def launch(X: fx.Tensor, Y: fx.Tensor, rows: fx.Int32, cols: fx.Int32):
    transpose(X, Y, rows, cols).launch(
        grid=((cols + TILE - 1) // TILE, (rows + TILE - 1) // TILE, 1), block=(BLOCK, 1, 1)
    )


def case(rows, cols):
    x, y = torch.randn(rows, cols), torch.zeros(cols, rows)
    launch(x, y, rows, cols)
    return y, x.t()
