"""C = A @ B^T for row-major bf16 A (M, K) and B (N, K), accumulated in fp32."""

import flydsl.compiler as flyc
import flydsl.expr as fx
import torch

from . import tiles
from .product import Product
from .staging import LDS_STRIDE, Stage


@fx.struct
class Shared:
    a: fx.Array[fx.BFloat16, tiles.BLOCK_M * LDS_STRIDE, 16]
    b: fx.Array[fx.BFloat16, tiles.BLOCK_N * LDS_STRIDE, 16]


@flyc.kernel(known_block_size=[tiles.BLOCK_THREADS, 1, 1])
def gemm_tile(
    A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, M: fx.Int32, N: fx.Constexpr[int], K: fx.Constexpr[int]
):
    row = fx.block_idx.y * tiles.BLOCK_M
    column = fx.block_idx.x * tiles.BLOCK_N
    shared = fx.SharedAllocator().allocate(Shared).peek()
    a = Stage(A, row, M, tiles.BLOCK_M, K, shared.a)
    b = Stage(B, column, N, tiles.BLOCK_N, K, shared.b)
    product = Product(a.tile, b.tile, C, row, column, M, N)
    whole, left = K // tiles.BLOCK_K, K % tiles.BLOCK_K

    def fetch(k):
        a.fetch(k)
        b.fetch(k)

    def fetch_last():
        a.fetch_last(whole * tiles.BLOCK_K, left)
        b.fetch_last(whole * tiles.BLOCK_K, left)

    def publish():
        a.commit()
        b.commit()
        fx.gpu.barrier()

    def multiply():
        product.accumulate()

    # Every round publishes the tile in registers, starts loading the next, and multiplies. The barrier after
    # the product keeps the next round from overwriting LDS that another wave still reads.
    if fx.const_expr(whole > 0):
        fetch(0)
    else:
        fetch_last()
    for tile in range(1, whole):
        publish()
        fetch(tile * tiles.BLOCK_K)
        multiply()
        fx.gpu.barrier()
    if fx.const_expr(whole > 0 and left > 0):
        publish()
        fetch_last()
        multiply()
        fx.gpu.barrier()
    publish()
    multiply()
    product.store()


@flyc.jit
def launch_gemm(
    A: fx.Tensor,
    B: fx.Tensor,
    C: fx.Tensor,
    M: fx.Int32,
    N: fx.Constexpr[int],
    K: fx.Constexpr[int],
    grid_n: fx.Int32,
    grid_m: fx.Int32,
    stream: fx.Stream,
):
    gemm_tile(A, B, C, M, N, K).launch(
        grid=(grid_n, grid_m, 1), block=(tiles.BLOCK_THREADS, 1, 1), stream=stream
    )


def matmul_nt(a, b, out):
    """Write a @ b^T into `out`; all contiguous bf16, a (M, K), b (N, K), out (M, N).

    Raises ValueError for another dtype or for inner dimensions that differ.
    """
    if not a.dtype == b.dtype == out.dtype == torch.bfloat16:
        raise ValueError(f"gemm: bfloat16 operands, not {a.dtype} and {b.dtype}")
    (rows, depth), cols = a.shape, b.shape[0]
    if b.shape[1] != depth:
        raise ValueError(f"gemm: inner dimensions {depth} and {b.shape[1]} differ")
    stream = torch.cuda.current_stream(a.device) if a.is_cuda else fx.Stream(None)
    launch_gemm(a, b, out, rows, cols, depth, *tiles.grid(rows, cols), stream)
