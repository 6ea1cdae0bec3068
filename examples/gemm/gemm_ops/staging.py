"""Bring tiles of a row-major operand from memory to LDS, through registers."""

import flydsl.expr as fx

from . import tiles

# Rows of 32 elements, padded: 40.
LDS_STRIDE = tiles.BLOCK_K + tiles.LDS_PAD


class Stage:
    """One operand's way from memory through registers to LDS.

    The operand has `rows` rows of `depth` elements; the workgroup needs `block` of them from row
    `first` on. Rows past the last are not read: their place takes copies of the last
    row, and what is computed from them is never stored.
    """

    def __init__(self, operand, first, rows, block, depth, storage):
        self.width = tiles.copy_width(depth, 8)
        self.tile = fx.make_view(storage.ptr, fx.make_layout((block, tiles.BLOCK_K), (LDS_STRIDE, 1)))
        self.to_registers = fx.make_copy_atom(fx.rocdl.BufferCopy(16 * self.width), fx.BFloat16)
        self.to_lds = fx.make_copy_atom(fx.UniversalCopy(16 * self.width), fx.BFloat16)
        self.thread = _thread_copy(self.to_lds, self.width)

        self.target = self.thread.partition_D(self.tile)
        self.registers = fx.make_fragment_like(self.target)
        # 64-bit start and a descriptor of just these rows: operands above 4 GiB work.
        here = fx.min(rows - first, block)
        start = fx.add_offset(fx.get_iter(operand), fx.Int64(first) * depth)
        self.source = fx.rocdl.make_buffer_ptr(start, num_records_bytes=fx.Int64(here) * (2 * depth))

        row = tiles.starts(self.thread, _layout(block, (1, 0)))
        self.columns = tiles.starts(self.thread, _layout(block, (0, 1)))
        self.offsets = fx.make_fragment_like(row, dtype=fx.Int32)
        for i in range(tiles.count(row)):
            self.offsets[i] = fx.min(tiles.number(row, i), here - 1) * depth + tiles.number(self.columns, i)

    def fetch(self, k):
        """Start loading the tile whose first column is `k` into registers."""
        fx.gather(self.to_registers, self.source + k, self.offsets, self.registers)

    def fetch_last(self, k, left):
        """The same for a tile of which only `left` columns exist; the others become zero."""
        exists = fx.make_fragment_like(self.columns, dtype=fx.Boolean)
        for i in range(tiles.count(self.columns)):
            exists[i] = tiles.number(self.columns, i) < left
        self.registers.fill(0)
        fx.gather(self.to_registers, self.source + k, self.offsets, self.registers, pred=exists)

    def commit(self):
        """Write the registers to LDS."""
        fx.copy(self.to_lds, self.registers, self.target)


def _thread_copy(atom, width):
    """This thread's share of a tile: `width` neighbours of a row at a time, rows in turn."""
    along = tiles.BLOCK_K // width
    down = tiles.BLOCK_THREADS // along
    threads = fx.make_layout((down, along), (along, 1))
    return fx.make_tiled_copy_tv(atom, threads, fx.make_layout((1, width), (1, 1))).get_slice(fx.thread_idx.x)


def _layout(block, stride):
    """Numbers of the rows (stride (1, 0)) or columns ((0, 1)) of a tile."""
    return fx.make_layout((block, tiles.BLOCK_K), stride)


def show_tile(stage):
    """Print the corner of a tile in LDS from inside a kernel while debugging it."""
    fx.printf("tid={} corner={}", fx.thread_idx.x, fx.memref_load(stage.tile, (0, 0)))
