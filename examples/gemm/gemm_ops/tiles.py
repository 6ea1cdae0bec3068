"""The tile of C that one workgroup computes, and how its threads share the work."""

import flydsl.expr as fx

BLOCK_M = 128
BLOCK_N = 128
BLOCK_K = 32

# Four waves of 64 lanes, two along each side of the tile.
BLOCK_THREADS = 256

# Elements of padding after each row of a tile in LDS: 16 bytes, so that rows start in
# different banks and 16-byte accesses stay aligned.
LDS_PAD = 8


def _ceil_div(a, b):
    return -(-a // b)


def grid(rows, cols):
    """Workgroups that cover a rows x cols result: along its columns, then its rows."""
    return _ceil_div(cols, BLOCK_N), _ceil_div(rows, BLOCK_M)


def copy_width(extent, most):
    """Elements that one instruction moves along rows of `extent`: the largest power of two up
    to `most` that divides it, so that no access straddles the end of a row."""
    width = most
    while extent % width:
        width //= 2
    return width


def tiled_mma():
    """256 threads as 2 x 2 waves of v_mfma_f32_16x16x16_bf16, which gfx942 and gfx950 both have.

    The K permutation hands each lane eight neighbouring elements of a row, one 16-byte LDS read,
    for two instructions; both operands are permuted alike, so the sum is the same.
    """
    atom = fx.make_mma_atom(fx.rocdl.MFMA(16, 16, 16, fx.BFloat16))
    waves = fx.make_layout((2, 2, 1), (1, 2, 0))
    return fx.make_tiled_mma(atom, waves, fx.make_tile(None, None, fx.make_layout((4, 4, 2), (1, 8, 4))))


def starts(thread_copy, numbering):
    """The number that `numbering` gives to the first element of each of a thread's copies."""
    numbers = fx.make_view(fx.make_int_tuple(0), numbering)
    return thread_copy.partition_S(numbers)[(0, None), None, None]


def count(tensor):
    """Elements of a tensor whose shape is known at compile time."""
    return fx.size(tensor.shape).unpack()


def number(coordinates, index):
    """Entry `index` of a tensor of coordinates, as an Int32 or an int."""
    return fx.get_scalar(coordinates[index])


def flops(rows, cols, depth):
    """Floating point operations of the product, for a roofline by hand."""
    return 2 * rows * cols * depth


def test_copy_width():
    assert [copy_width(extent, 8) for extent in (512, 200, 36, 45)] == [8, 8, 4, 1]
