"""A row as vectors: how wide they are, which thread holds which, and how they move."""

import flydsl.expr as fx

# Bytes that one lane moves with the widest buffer instruction (buffer_load_dwordx4).
VECTOR_BYTES = 16


def vector_width(cols, elem):
    """Elements of type `elem` that one lane moves at once: 16 bytes when every row starts and
    ends on such a boundary, else a single element."""
    wide = VECTOR_BYTES * 8 // elem.width
    return wide if cols % wide == 0 else 1


def strips(cols, width, threads):
    """Rounds in which `threads` threads cover a row, one vector each a round."""
    return _ceil_div(cols, width * threads)


def _ceil_div(a, b):
    return -(-a // b)


class RowView:
    """One row of a row-major tensor behind a buffer descriptor that ends with the row.

    It moves in vectors of `width` elements. What acts on it are functions: FlyDSL carries
    the owner of a method that is called under a run-time `if` through the branch, and can do so only
    for its own types.
    """

    def __init__(self, tensor, row, cols, width):
        self.elem = tensor.element_type
        self.width = width
        # 64-bit: a tensor may hold more elements than 32 bits count.
        start = fx.add_offset(fx.get_iter(tensor), fx.Int64(row) * cols)
        line = fx.make_view(start, fx.make_layout(cols, 1))
        buffer = fx.rocdl.make_buffer_tensor(line, max_size=False)
        self.vectors = fx.logical_divide(buffer, fx.make_layout(width, 1))
        self.atom = fx.make_copy_atom(fx.rocdl.BufferCopy(self.elem.width * width), self.elem)


def load(view, index):
    """Vector number `index` of the row, as fp32."""
    fragment = fx.make_rmem_tensor(view.width, view.elem)
    fx.copy(view.atom, fx.slice(view.vectors, (None, index)), fragment)
    return fragment.load().to(fx.Float32)


def store(view, index, values):
    """Round fp32 `values` to the row's type and write them as vector number `index`."""
    fragment = fx.make_rmem_tensor(view.width, view.elem)
    fragment.store(values.to(view.elem))
    fx.copy(view.atom, fragment, fx.slice(view.vectors, (None, index)))


def print_plan(cols, elem, threads):
    """For a person at a prompt: the plan for one row length."""
    width = vector_width(cols, elem)
    print(f"{cols} x {elem.__name__}: {strips(cols, width, threads)} strips of {threads} x {width}")  # noqa: T201
