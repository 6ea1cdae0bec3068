"""Short rows: one wave a row, no LDS and no barrier."""

import flydsl.compiler as flyc
import flydsl.expr as fx

from .body import normalize_row
from .sums import wave_sum

BLOCK_THREADS = 64

# Above this many elements four waves finish a row sooner than one.
MAX_COLS = 8 * BLOCK_THREADS


@flyc.kernel(known_block_size=[BLOCK_THREADS, 1, 1])
def rmsnorm_wave(
    X: fx.Tensor,
    residual: fx.Tensor,
    weight: fx.Tensor,
    Y: fx.Tensor,
    summed: fx.Tensor,
    eps: fx.Float32,
    cols: fx.Constexpr[int],
):
    normalize_row(X, residual, weight, Y, summed, eps, cols, BLOCK_THREADS, wave_sum)


@flyc.jit
def launch_wave(
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
    rmsnorm_wave(X, residual, weight, Y, summed, eps, cols).launch(
        grid=(rows, 1, 1), block=(BLOCK_THREADS, 1, 1), stream=stream
    )
