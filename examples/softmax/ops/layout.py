"""How a row is spread over the threads of one workgroup."""

# Bytes that one lane moves with the widest buffer instruction (buffer_load_dwordx4).
VECTOR_BYTES = 16

# A row stays in registers between the passes: at most this many fp32 values a thread,
# half of the 128 VGPRs that a thread of a 1024-thread workgroup can have.
MAX_VALUES = 64

MAX_COLS = 1024 * MAX_VALUES


def _ceil_div(a, b):
    """Smallest integer not below a / b, for positive ints on the host."""
    return -(-a // b)


def vector_width(cols, elem_bytes):
    """Elements that one lane moves at once: 16 bytes when every row starts and ends on
    such a boundary, else a single element."""
    wide = VECTOR_BYTES // elem_bytes
    return wide if cols % wide == 0 else 1


def threads(cols):
    """Workgroup size: four waves for short rows, sixteen when the row would fill the registers."""
    return 256 if cols <= 256 * MAX_VALUES // 2 else 1024


def tiles(cols, width, block):
    """Strips of `block` vectors of `width` elements that cover a row; the last may be partial."""
    return _ceil_div(cols, width * block)


def describe(cols, elem_bytes):
    """One line about the plan for a row length, for a person at a prompt."""
    width, block = vector_width(cols, elem_bytes), threads(cols)
    return f"{cols} columns: {tiles(cols, width, block)} strips of {block} x {width}"
