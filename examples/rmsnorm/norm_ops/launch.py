"""Choice of the kernel for a row length, and its launch."""

import flydsl.expr as fx
import torch

from . import block_row, wave_row
from .block_row import launch_block
from .wave_row import launch_wave

DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def launch_stream(tensor):
    """The stream that a launch on `tensor` belongs to: the device's current one, and the
    default one for a host tensor."""
    return torch.cuda.current_stream(tensor.device) if tensor.is_cuda else fx.Stream(None)


def add_rmsnorm(x, residual, weight, y, summed, eps):
    """Write x + residual into `summed` and its weighted RMS norm into `y`.

    All but `weight` (cols) are contiguous (rows, cols); all share one dtype. Raises ValueError
    for shapes that do not fit together, and for a dtype or a row length that the kernels do not cover.
    """
    rows, cols = x.shape
    if residual.shape != x.shape or weight.shape != (cols,):
        sizes = f"{tuple(x.shape)}, {tuple(residual.shape)} and {tuple(weight.shape)}"
        raise ValueError(f"rmsnorm: the shapes of rows, residual and weight do not fit: {sizes}")
    if x.dtype not in DTYPES or weight.dtype != x.dtype or residual.dtype != x.dtype:
        raise ValueError(f"rmsnorm: one of float32, float16, bfloat16 for all inputs, not {x.dtype}")
    if not 0 < cols <= block_row.MAX_COLS:
        raise ValueError(f"rmsnorm: rows of 1 to {block_row.MAX_COLS} elements, not {cols}")
    launch = launch_wave if cols <= wave_row.MAX_COLS else launch_block
    launch(x, residual, weight, y, summed, eps, rows, cols, launch_stream(x))


def test_dtypes():
    assert torch.float64 not in DTYPES
