"""The softmax kernel: one workgroup a row, the row kept in registers, three passes over it."""

import functools
import math

import flydsl.compiler as flyc
import flydsl.expr as fx

from . import common, layout
from .reduce import added, block_reduce, larger, wave_slots

LOG2_E = math.log2(math.e)


@functools.lru_cache(maxsize=128)
def build_softmax(cols, dtype):
    """The launcher for rows of `cols` elements of torch type `dtype`.

    Raises ValueError for a dtype or a row length that the kernel does not cover.
    """
    if dtype not in common.ELEM_TYPES:
        raise ValueError(f"softmax: dtype {dtype} is not one of float32, float16, bfloat16")
    if not 0 < cols <= layout.MAX_COLS:
        raise ValueError(f"softmax: rows of 1 to {layout.MAX_COLS} elements, not {cols}")

    elem = common.ELEM_TYPES[dtype]
    width = layout.vector_width(cols, elem.width // 8)
    block = layout.threads(cols)
    strips = layout.tiles(cols, width, block)
    vectors = cols // width
    waves = wave_slots(block)

    @fx.struct
    class Shared:
        maxima: fx.Array[fx.Float32, waves, 16]
        sums: fx.Array[fx.Float32, waves, 16]

    @flyc.kernel(known_block_size=[block, 1, 1])
    def softmax_rows(X: fx.Tensor, Y: fx.Tensor):
        row = fx.block_idx.x
        tid = fx.thread_idx.x
        shared = fx.SharedAllocator().allocate(Shared).peek()
        maxima = shared.maxima.view(fx.make_layout(waves, 1))
        sums = shared.sums.view(fx.make_layout(waves, 1))
        source = common.row_view(X, row, cols, width)
        target = common.row_view(Y, row, cols, width)
        atom = common.copy_atom(elem, width)
        lowest = fx.Float32(float("-inf"))

        values = []
        peak = lowest
        for strip in fx.range_constexpr(strips):
            index = tid + strip * block
            if fx.const_expr((strip + 1) * block <= vectors):
                x = common.load(atom, source, index, elem, width)
            else:
                inside = index < vectors
                x = common.load(atom, source, inside.select(index, 0), elem, width)
                x = inside.select(x, fx.Vector.filled(width, float("-inf"), fx.Float32))
            values.append(x)
            peak = fx.max(peak, x.reduce(fx.ReductionOp.MAX))
        peak = block_reduce(peak, larger, maxima, waves)

        total = fx.Float32(0.0)
        for strip in fx.range_constexpr(strips):
            values[strip] = fx.exp2((values[strip] - peak) * LOG2_E, fastmath=fx.arith.FastMathFlags.afn)
            total = total + values[strip].reduce(fx.ReductionOp.ADD)
        scale = 1.0 / block_reduce(total, added, sums, waves)

        for strip in fx.range_constexpr(strips):
            index = tid + strip * block
            y = values[strip] * scale
            if fx.const_expr((strip + 1) * block <= vectors):
                common.store(atom, target, index, y, elem, width)
            else:
                if index < vectors:
                    common.store(atom, target, index, y, elem, width)

    @flyc.jit
    def launch_softmax(X: fx.Tensor, Y: fx.Tensor, rows: fx.Int32, stream: fx.Stream):
        softmax_rows(X, Y).launch(grid=(rows, 1, 1), block=(block, 1, 1), stream=stream)

    return launch_softmax
