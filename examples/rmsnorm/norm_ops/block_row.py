"""Long rows: four waves a row, joined through LDS."""

import flydsl.compiler as flyc
import flydsl.expr as fx

from .body import normalize_row
from .sums import WAVE, block_sum

BLOCK_THREADS = 256
WAVES = BLOCK_THREADS // WAVE

# At most 64 fp32 of the row in each thread's registers.
MAX_COLS = 64 * BLOCK_THREADS


@fx.struct
class Shared:
    sums: fx.Array[fx.Float32, WAVES, 16]


@flyc.kernel(known_block_size=[BLOCK_THREADS, 1, 1])
def rmsnorm_block(
    X: fx.Tensor,
    residual: fx.Tensor,
    weight: fx.Tensor,
    Y: fx.Tensor,
    summed: fx.Tensor,
    eps: fx.Float32,
    cols: fx.Constexpr[int],
):
    slots = fx.SharedAllocator().allocate(Shared).peek().sums.view(fx.make_layout(WAVES, 1))

    def total_of(value):
        return block_sum(value, slots, WAVES)

    normalize_row(X, residual, weight, Y, summed, eps, cols, BLOCK_THREADS, total_of)


@flyc.jit
def launch_block(
    X: fx.Tensor,
    residual: fx.Tensor,
    weight: fx.Tensor,
    Y: fx.Tensor,
    summed: fx.Tensor,
    eps: fx.Float32,
    rows: fx.Int32,
    cols: fx.Constexpr[int],
    stream: fx.Stream,
):
    rmsnorm_block(X, residual, weight, Y, summed, eps, cols).launch(
        grid=(rows, 1, 1), block=(BLOCK_THREADS, 1, 1), stream=stream
    )
