"""A one-kernel FlyDSL candidate for tests: y = 2 x, one fp32 element a lane."""

from __future__ import annotations

from verify_tasks import TaskText, task

DOUBLE: TaskText = task(
    "class Model(nn.Module):\n    def forward(self, x):\n        return x * 2\n",
    "def _make_inputs(count):\n    return {'x': torch.randn(count)}\n",
    {"even": {"count": 256}, "tail": {"count": 100}},
)

SOURCE = """
import flydsl.compiler as flyc
import flydsl.expr as fx
import torch
from torch import nn


@flyc.kernel
def double(source: fx.Tensor, target: fx.Tensor, count: fx.Int32):
    place = fx.block_idx.x * 64 + fx.thread_idx.x
    atom = fx.make_copy_atom(fx.rocdl.BufferCopy(32), fx.Float32)
    held = fx.make_rmem_tensor(1, fx.Float32)
    reading = fx.logical_divide(whole(source, count), fx.make_layout(1, 1))
    writing = fx.logical_divide(whole(target, count), fx.make_layout(1, 1))
    fx.copy(atom, fx.slice(reading, (None, place)), held)
    held.store(held.load() * 2.0)
    fx.copy(atom, held, fx.slice(writing, (None, place)))


def whole(tensor, count):
    line = fx.make_view(fx.get_iter(tensor), fx.make_layout(count, 1))
    return fx.rocdl.make_buffer_tensor(line, max_size=False)


@flyc.jit
def launch(source: fx.Tensor, target: fx.Tensor, count: fx.Int32, blocks: fx.Int32, stream: fx.Stream):
    double(source, target, count).launch(grid=(blocks, 1, 1), block=(64, 1, 1), stream=stream)


class Model(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        stream = torch.cuda.current_stream() if x.is_cuda else fx.Stream(None)
        launch(x, out, x.numel(), (x.numel() + 63) // 64, stream)
        return out
"""
