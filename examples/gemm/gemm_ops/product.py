"""The matrix instructions of one workgroup: operands from LDS, the result to memory."""

import flydsl.expr as fx

from . import tiles


class Product:
    """The workgroup's tile of the rows x cols result C, from (row, column) on, kept in registers.

    It is computed transposed: B is the left operand of the instructions and A the right one,
    so that a lane holds four neighbours of a row of C and stores them at once.
    """

    def __init__(self, a_tile, b_tile, C, row, column, rows, cols):
        self.mma = tiles.tiled_mma()
        self.limits = (cols - column, rows - row)
        self.width = tiles.copy_width(cols, 4)
        self.tile = _owned_tile(C, row, column, rows, cols)

        thread = self.mma.thr_slice(fx.thread_idx.x)
        self.atom = fx.make_copy_atom(fx.UniversalCopy128b(), fx.BFloat16)
        a_copy = fx.make_tiled_copy_B(self.atom, self.mma).get_slice(fx.thread_idx.x)
        b_copy = fx.make_tiled_copy_A(self.atom, self.mma).get_slice(fx.thread_idx.x)
        self.a = thread.make_fragment_B(a_tile)
        self.b = thread.make_fragment_A(b_tile)
        self.a_source, self.a_target = a_copy.partition_S(a_tile), a_copy.retile(self.a)
        self.b_source, self.b_target = b_copy.partition_S(b_tile), b_copy.retile(self.b)
        self.total = thread.make_fragment_C(self.tile)
        self.total.fill(0)

    def accumulate(self):
        """Add the product of the two tiles in LDS."""
        fx.copy(self.atom, self.b_source, self.b_target)
        fx.copy(self.atom, self.a_source, self.a_target)
        fx.gemm(self.mma, self.total, self.b, self.a, self.total)

    def store(self):
        """Round the tile to bf16 and write what lies inside the result."""
        atom = fx.make_copy_atom(fx.rocdl.BufferCopy(16 * self.width), fx.BFloat16)
        copy = fx.make_tiled_copy_C(atom, self.mma).get_slice(fx.thread_idx.x)
        n = tiles.starts(copy, _layout(1, 0))
        m = tiles.starts(copy, _layout(0, 1))
        inside = fx.make_fragment_like(n, dtype=fx.Boolean)
        for i in range(tiles.count(n)):
            # One comparison a store: two would keep twice as many masks in scalar registers.
            end = (tiles.number(m, i) < self.limits[1]).select(self.limits[0], 0)
            inside[i] = tiles.number(n, i) < end

        rounded = fx.make_fragment_like(self.total, fx.BFloat16)
        rounded.store(self.total.load().to(fx.BFloat16))
        fx.copy(atom, copy.retile(rounded), copy.partition_S(self.tile), pred=inside)


def _owned_tile(C, row, column, rows, cols):
    """The tile as a buffer of (n, m) that ends with the last element that exists of it."""
    start = fx.add_offset(fx.get_iter(C), fx.Int64(row) * cols + column)
    height, breadth = fx.min(rows - row, tiles.BLOCK_M), fx.min(cols - column, tiles.BLOCK_N)
    records = fx.Int64(height - 1) * cols + breadth
    return fx.make_view(fx.rocdl.make_buffer_ptr(start, num_records_bytes=records * 2), _layout(1, cols))


def _layout(n_stride, m_stride):
    """The transposed tile, (n, m), with these strides."""
    return fx.make_layout((tiles.BLOCK_N, tiles.BLOCK_M), (n_stride, m_stride))
