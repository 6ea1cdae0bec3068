"""Pieces that every row kernel needs: element types, the row view, vector moves, the stream."""

import flydsl.expr as fx
import torch

ELEM_TYPES = {
    torch.float32: fx.Float32,
    torch.float16: fx.Float16,
    torch.bfloat16: fx.BFloat16,
}


def launch_stream(tensor):
    """The stream that a launch on `tensor` belongs to: the device's current one, and the
    default one for a host tensor."""
    return torch.cuda.current_stream(tensor.device) if tensor.is_cuda else fx.Stream(None)


def row_view(tensor, row, cols, width):
    """Row `row` of a row-major tensor, as a buffer split into vectors of `width` elements.

    The descriptor starts at the row and ends with it, so no access can leave the row; the
    start is a 64-bit offset, so tensors above 4 GiB work.
    """
    start = fx.add_offset(fx.get_iter(tensor), fx.Int64(row) * cols)
    line = fx.make_view(start, fx.make_layout(cols, 1))
    buffer = fx.rocdl.make_buffer_tensor(line, max_size=False)
    return fx.logical_divide(buffer, fx.make_layout(width, 1))


def copy_atom(elem, width):
    """The buffer instruction that moves `width` elements of type `elem`."""
    return fx.make_copy_atom(fx.rocdl.BufferCopy(elem.width * width), elem)


def load(atom, view, index, elem, width):
    """Vector number `index` of `view`, as fp32."""
    fragment = fx.make_rmem_tensor(width, elem)
    fx.copy(atom, fx.slice(view, (None, index)), fragment)
    return fragment.load().to(fx.Float32)


def store(atom, view, index, values, elem, width):
    """Round the fp32 vector `values` to `elem` and write it as vector number `index`."""
    fragment = fx.make_rmem_tensor(width, elem)
    fragment.store(values.to(elem))
    fx.copy(atom, fragment, fx.slice(view, (None, index)))


def show_lane(values):
    """Print a lane's registers from inside a kernel while debugging it."""
    fx.printf("tid={} first={}", fx.thread_idx.x, values[0])
