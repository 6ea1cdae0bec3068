"""Text that rules' cases share: a complete small candidate to change in one place."""

from __future__ import annotations

CANDIDATE = """\
import torch
import torch.nn as nn

import flydsl.compiler as flyc
import flydsl.expr as fx
{imports}

@flyc.kernel
def _double_kernel(X: fx.Tensor, Y: fx.Tensor, n: fx.Constexpr[int]):
    i = fx.block_idx.x * 256 + fx.thread_idx.x
    if i < n:
        Y[i] = X[i] * 2.0


@flyc.jit
def _double(X: fx.Tensor, Y: fx.Tensor, n: fx.Constexpr[int], stream: fx.Stream = fx.Stream(None)):
    _double_kernel(X, Y, n).launch(grid=((n + 255) // 256, 1, 1), block=(256, 1, 1), stream=stream)

{top}
class Model(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim
{init}
    def forward(self, x):
        y = torch.empty_like(x)
{before}        _double(x, y, x.numel(), stream=torch.cuda.current_stream())
{after}        return y
"""


def candidate(*, imports: str = "", top: str = "", init: str = "", before: str = "", after: str = "") -> str:
    """Return a complete candidate with lines added.

    ``imports`` and ``top`` stand at module level; ``init``, ``before`` and ``after`` (the launch) are
    given without indentation and are indented to fit.
    """
    return CANDIDATE.format(
        imports=_lines(imports, ""), top=_lines(top, ""), init=_lines(init, " " * 8),
        before=_lines(before, " " * 8), after=_lines(after, " " * 8),
    )  # fmt: skip


def _lines(text: str, indent: str) -> str:
    return "".join(f"{indent}{line}\n" if line else "\n" for line in text.splitlines())


KERNEL = """\
import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr import const_expr, gpu, range_constexpr
{top}

@flyc.kernel
def _kernel(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32):
    tid = fx.thread_idx.x
    i = fx.block_idx.x * 256 + tid
{body}    Y[i] = X[i]


@flyc.jit
def _launch(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32, stream: fx.Stream = fx.Stream(None)):
{host}    _kernel(X, Y, n).launch(grid=(n, 1, 1), block=(256, 1, 1), stream=stream)
"""


def kernel(body: str = "", *, top: str = "", host: str = "") -> str:
    """Return a FlyDSL kernel with lines added to it, to the module or to its launcher."""
    return KERNEL.format(top=_lines(top, ""), body=_lines(body, "    "), host=_lines(host, "    "))
