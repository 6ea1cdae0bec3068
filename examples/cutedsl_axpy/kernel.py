import cutlass
import cutlass.cute as cute
import torch
import torch.nn as nn
from cuda.bindings import driver as cuda
from cutlass.cute.runtime import from_dlpack

THREADS = 256
VECTOR_BYTES = 16


@cute.kernel
def axpy_kernel(gX: cute.Tensor, gY: cute.Tensor, gOut: cute.Tensor, alpha: cutlass.Float32):
    tid, _, _ = cute.arch.thread_idx()
    bid, _, _ = cute.arch.block_idx()
    index = bid * THREADS + tid
    if index < cute.size(gOut, mode=[1]):
        x = gX[(None, index)].load().to(cutlass.Float32)
        y = gY[(None, index)].load().to(cutlass.Float32)
        gOut[(None, index)] = (x * alpha + y).to(gOut.element_type)


@cute.jit
def axpy(
    mX: cute.Tensor,
    mY: cute.Tensor,
    mOut: cute.Tensor,
    alpha: cutlass.Float32,
    width: cutlass.Constexpr,
    stream: cuda.CUstream,
):
    gX, gY, gOut = (cute.zipped_divide(tensor, (width,)) for tensor in (mX, mY, mOut))
    vectors = cute.size(gOut, mode=[1])
    axpy_kernel(gX, gY, gOut, alpha).launch(
        grid=((vectors + THREADS - 1) // THREADS, 1, 1), block=(THREADS, 1, 1), stream=stream
    )


def _view(tensor: torch.Tensor) -> cute.Tensor:
    return from_dlpack(tensor, assumed_align=VECTOR_BYTES)


class Model(nn.Module):
    def __init__(self, alpha: float = 2.0):
        super().__init__()
        self.alpha = alpha
        self.compiled = {}

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        first, second = x.reshape(-1).contiguous(), y.reshape(-1).contiguous()
        out = torch.empty_like(first)
        width = VECTOR_BYTES // first.element_size()
        if first.numel() % width:
            raise ValueError(f"axpy: the number of elements must be a multiple of {width}")
        stream = cuda.CUstream(torch.cuda.current_stream().cuda_stream)
        mX, mY, mOut = _view(first), _view(second), _view(out)
        key = (first.numel(), first.dtype)
        if key not in self.compiled:
            self.compiled[key] = cute.compile(axpy, mX, mY, mOut, self.alpha, width, stream)
        self.compiled[key](mX, mY, mOut, self.alpha, stream)
        return out.view(x.shape)
