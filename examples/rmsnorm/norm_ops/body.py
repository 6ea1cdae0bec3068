"""What one workgroup does with one row, whatever its size."""

import flydsl.compiler as flyc
import flydsl.expr as fx

from . import rows


def add_rows(one, other, index):
    """The sum of two rows at a vector, as the tensor will hold it: rounded to its type."""
    total = rows.load(one, index) + rows.load(other, index)
    return total.to(one.elem).to(fx.Float32)


@flyc.jit
def normalize_row(X, residual, weight, Y, summed, eps, cols, threads, total_of):
    """Add the residual, store the sum, scale it by its root mean square and the weight.

    The sum is rounded to the tensor's type before it is squared, as a separate addition would
    have left it. `total_of` adds one fp32 up over the `threads` threads of the workgroup.
    """
    width = rows.vector_width(cols, X.element_type)
    vectors = cols // width
    row, tid = fx.block_idx.x, fx.thread_idx.x
    x_row = rows.RowView(X, row, cols, width)
    residual_row = rows.RowView(residual, row, cols, width)
    summed_row = rows.RowView(summed, row, cols, width)
    y_row = rows.RowView(Y, row, cols, width)
    weight_row = rows.RowView(weight, 0, cols, width)

    kept = []
    squares = fx.Float32(0.0)
    for strip in fx.range_constexpr(rows.strips(cols, width, threads)):
        index = tid + strip * threads
        if fx.const_expr((strip + 1) * threads <= vectors):
            h = add_rows(x_row, residual_row, index)
            rows.store(summed_row, index, h)
        else:
            inside = index < vectors
            h = add_rows(x_row, residual_row, inside.select(index, 0))
            h = inside.select(h, fx.Vector.filled(width, 0.0, fx.Float32))
            if inside:
                rows.store(summed_row, index, h)
        kept.append(h)
        squares = squares + (h * h).reduce(fx.ReductionOp.ADD)

    mean = total_of(squares) / float(cols)
    scale = fx.rsqrt(mean + eps, fastmath=fx.arith.FastMathFlags.afn)

    for strip in fx.range_constexpr(rows.strips(cols, width, threads)):
        index = tid + strip * threads
        if fx.const_expr((strip + 1) * threads <= vectors):
            rows.store(y_row, index, kept[strip] * scale * rows.load(weight_row, index))
        else:
            if index < vectors:
                rows.store(y_row, index, kept[strip] * scale * rows.load(weight_row, index))
