"""``gpu``: ids, barriers, shuffles. https://mlir.llvm.org/docs/Dialects/GPU/"""

from __future__ import annotations

import sys
from typing import Any

import torch

from kernel_lint.emulator.ir import Op
from kernel_lint.emulator.machine import Machine, Mask
from kernel_lint.emulator.registry import Env, Run, op, unknown
from kernel_lint.emulator.values import Tensor, Value, is_uniform, to_tensor


def _axis(o: Op) -> int:
    text = str(o.attrs["dimension"])
    return "xyz".index(text.removeprefix("#gpu<dim ").removesuffix(">")[0])


@op("gpu.thread_id", context=True)
def thread_id(o: Op, env: Env) -> Run:
    """The thread's number in its workgroup, along an axis."""
    axis = _axis(o)
    return lambda m, mask: m.thread_id(axis)


@op("gpu.block_id", context=True)
def block_id(o: Op, env: Env) -> Run:
    """The workgroup's number in the grid, along an axis."""
    axis = _axis(o)
    return lambda m, mask: m.block_id(axis)


@op("gpu.block_dim", context=True)
def block_dim(o: Op, env: Env) -> Run:
    """Threads of a workgroup along an axis."""
    axis = _axis(o)
    return lambda m, mask: m.grid.threads[axis]


@op("gpu.grid_dim", context=True)
def grid_dim(o: Op, env: Env) -> Run:
    """Workgroups of the grid along an axis."""
    axis = _axis(o)
    return lambda m, mask: m.grid.blocks[axis]


@op("gpu.lane_id", context=True)
def lane_id(o: Op, env: Env) -> Run:
    """The lane's number in its wave."""
    return lambda m, mask: m.thread % m.wave


@op("gpu.subgroup_id", context=True)
def subgroup_id(o: Op, env: Env) -> Run:
    """The wave's number in its workgroup."""
    return lambda m, mask: m.thread // m.wave


@op("gpu.subgroup_size", "gpu.wave_size")
def subgroup_size(o: Op, env: Env) -> Run:
    """Lanes of a wave."""
    return lambda: env.wave


@op("gpu.num_subgroups", context=True)
def num_subgroups(o: Op, env: Env) -> Run:
    """Waves of a workgroup."""
    return lambda m, mask: m.waves


@op("gpu.barrier", context=True)
def barrier(o: Op, env: Env) -> Run:
    """All threads of a workgroup wait for each other."""
    place = o.place
    return lambda m, mask: m.checker.barrier(m, mask, place)


@op("gpu.shuffle", context=True)
def shuffle(o: Op, env: Env) -> Run:
    """Read another lane's value: xor, up, down or idx within ``width`` lanes; lanes whose source is outside
    keep their own value and get false (the lowering of MLIR's GPUToROCDL, to ds_bpermute)."""
    mode = str(o.attrs["mode"]).removeprefix("#gpu<shuffle_mode ").removesuffix(">")
    mtype = o.operand_types[0]
    if mode not in ("xor", "up", "down", "idx"):
        raise unknown(o, env, mode)

    def run(m: Machine, mask: Mask, value: Value, offset: Value, width: Value) -> Any:
        tensor = to_tensor(value, mtype.element, m.device)
        lane = m.thread % m.wave
        if mode == "xor":
            source = lane ^ offset
        elif mode == "up":
            source = lane - offset
        else:
            source = lane + offset if mode == "down" else lane // width * width + _as_index(offset)
        low = lane // width * width
        valid = (source >= low) & (source < low + width)
        source = torch.where(valid, source, lane)
        m.checker.lanes_read(m, mask, source, o.place)
        return read_lanes(m, tensor, source), valid

    return run


def _as_index(offset: Value) -> Value:
    return offset if is_uniform(offset) else offset.to(torch.int64)


def read_lanes(m: Machine, value: Tensor, source: Tensor) -> Tensor:
    """Each lane's ``value`` of lane ``source`` of its wave."""
    if value.shape[1] == 1:
        return value
    if source.shape[0] == 1:
        index = (source + m.thread // m.wave * m.wave).reshape(-1)
        if index.numel() == m.lanes:
            return value.index_select(1, index.to(torch.int64))
    waves = m.by_wave(value)
    index = m.by_wave(source).to(torch.int64)
    if waves.ndim > 3:
        index = index.reshape(*index.shape, *(1,) * (waves.ndim - 3)).expand(*index.shape, *waves.shape[3:])
    return m.from_waves(torch.gather(waves, 2, index))


@op("gpu.all_reduce", "gpu.subgroup_reduce")
def reduce(o: Op, env: Env) -> Run:
    """Lowered before the emulator sees a kernel; not expected here."""
    raise unknown(o, env)


@op("gpu.wait")
def wait(o: Op, env: Env) -> Run:
    """Host-side wait for a queue: launches are finished when they return."""
    return lambda *_: 0


@op("gpu.printf", context=True)
def printf(o: Op, env: Env) -> Run:
    """Print one line for each active lane, in lane order, as the device does; at most 1,024 lines."""
    text = str(o.attrs["format"])

    def run(m: Machine, mask: Mask, *values: Value) -> None:
        active = (
            torch.ones((m.count, m.lanes), dtype=torch.bool)
            if mask is None
            else mask.expand(m.count, m.lanes)
        ).nonzero()
        columns = [m.spread(v) if isinstance(v, Tensor) else v for v in values]
        for row, lane in active[:1024].tolist():
            picked = tuple(c[row, lane].item() if isinstance(c, Tensor) else c for c in columns)
            sys.stdout.write(text % picked if picked else text)

    return run
