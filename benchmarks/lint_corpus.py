"""Text to lint: candidates of any length, all different, all clean, written by a generator; real files."""

from __future__ import annotations

import shutil
from pathlib import Path

_HEAD = """\
import functools

import torch
import torch.nn as nn

import flydsl.compiler as flyc
import flydsl.expr as fx

"""
_STEP = """
@flyc.kernel
def _kernel_{n}(X: fx.Tensor, Y: fx.Tensor, n: fx.Constexpr[int]):
    tid = fx.thread_idx.x
    i = fx.block_idx.x * {block} + tid
    lane = tid % 64
    scale = {scale} * (1.0 + 1.0 / {block})
    if i < n:
        value = X[i] * scale
        for step in fx.range_constexpr(4):
            value = value + X[i] * (step + {n})
        Y[i] = value


@flyc.jit
def _launch_{n}(X: fx.Tensor, Y: fx.Tensor, n: fx.Constexpr[int], stream: fx.Stream = fx.Stream(None)):
    blocks = (n + {block} - 1) // {block}
    _kernel_{n}(X, Y, n).launch(grid=(blocks, 1, 1), block=({block}, 1, 1), stream=stream)


@functools.lru_cache(maxsize=None)
def _plan_{n}(rows: int, columns: int):
    tiles = [(row, column) for row in range(0, rows, {block}) for column in range(0, columns, 64)]
    if not tiles:
        raise ValueError(f"nothing to do for {{rows}} x {{columns}}")
    return len(tiles), rows * columns

"""
_MODEL = """
class Model(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        y = torch.empty_like(x)
        stream = torch.cuda.current_stream()
{calls}
        return y
"""


def kernel_file(lines: int, seed: int = 0) -> str:
    """Return a clean candidate of about ``lines`` lines; another ``seed`` gives another text."""
    per_step = len(_STEP.splitlines())
    steps = max(1, (lines - 25) // (per_step + 2))
    parts = [_HEAD]
    calls = []
    for n in range(steps):
        parts.append(_STEP.format(n=n, block=64 * (1 + (n + seed) % 4), scale=f"{1 + n + seed}.5"))
        calls.append(
            f"        _plan_{n}(x.shape[0], x.numel())\n        _launch_{n}(x, y, x.numel(), stream=stream)"
        )
    parts.append(_MODEL.format(calls="\n".join(calls)))
    return "".join(parts)


def write_tree(folder: Path, files: int, lines: int) -> list[Path]:
    """Write ``files`` candidates of about ``lines`` lines each and return their paths."""
    paths = []
    for number in range(files):
        path = folder / f"part_{number // 100}" / f"kernel_{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(kernel_file(lines, number), encoding="utf-8")
        paths.append(path)
    return paths


def copy_tree(checkout: Path, folder: Path) -> list[Path]:
    """Copy the Python files of a checkout, which no tool's settings or ignored files come with."""
    paths = []
    for source in sorted(checkout.rglob("*.py")):
        if source.is_file():
            path = folder / source.relative_to(checkout)
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, path)
            paths.append(path)
    return paths
