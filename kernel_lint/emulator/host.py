"""Runs a host function: reads the packed arguments, computes the grid and launches."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any

from kernel_lint.emulator.ir import DecodedModule, Function, MType, Op
from kernel_lint.emulator.memory import GlobalMemory
from kernel_lint.emulator.registry import Env, Run, op
from kernel_lint.emulator.values import Value

_LETTERS = {"i8": "b", "i16": "h", "i32": "i", "i64": "q", "index": "q", "f32": "f", "f64": "d", "f16": "e"}


def read_value(data: bytes, mtype: MType, memory: GlobalMemory) -> Value:
    """One argument of ``mtype`` from its bytes in memory; pointers are looked up among the live tensors."""
    if mtype.kind == "struct":
        offsets, _ = mtype.struct_layout()
        return tuple(
            read_value(data[o : o + t.size], t, memory) for o, t in zip(offsets, mtype.fields, strict=True)
        )
    if mtype.kind == "array":
        step = mtype.fields[0].size
        return tuple(
            read_value(data[i * step : (i + 1) * step], mtype.fields[0], memory) for i in range(mtype.count)
        )
    if mtype.kind == "ptr":
        return memory.pointer(int.from_bytes(data[:8], "little"))
    if mtype.name == "i1":
        return bool(data[0] & 1)
    if mtype.name == "bf16":
        return float(struct.unpack("<f", b"\0\0" + data[:2])[0])
    if (mtype.kind == "float" and mtype.bits == 8) or mtype.name not in _LETTERS:
        return int.from_bytes(data[: mtype.size], "little", signed=True)
    value: Value = struct.unpack("<" + _LETTERS[mtype.name], data[: mtype.size])[0]
    return value


def read_arguments(function: Function, packed: Any, memory: GlobalMemory) -> list[Value]:
    """The arguments of a host function from FlyDSL's packed array: one address for each, of its storage."""
    pointers = ctypes.cast(packed, ctypes.POINTER(ctypes.c_void_p))
    out: list[Value] = []
    for i, mtype in enumerate(function.body.arg_types):
        if mtype.kind == "other":
            out.append(0)
            continue
        address = pointers[i]
        data = ctypes.string_at(address, mtype.size) if address else bytes(mtype.size)
        out.append(read_value(data, mtype, memory))
    return out


class HostMachine:
    """Stands for the machine while a host function runs: it only launches.

    With ``streams``, ``launch`` also gets the handle of the launch's stream.
    """

    def __init__(self, module: DecodedModule, launch: Callable[..., None], streams: bool = False) -> None:
        self.module, self.launch, self.streams = module, launch, streams
        self.device = "cpu"
        self.tracer = None


@op("gpu.launch_func", context=True)
def launch_func(o: Op, env: Env) -> Run:
    """Launch a kernel: three grid sizes, three block sizes, dynamic LDS bytes, arguments."""
    sizes = o.attrs["operandSegmentSizes"]
    kernel = str(o.attrs["kernel"]).split(".")[-1]
    # asyncDependencies, gridSize xyz, blockSize xyz, clusterSize xyz, dynamicSharedMemorySize,
    # kernelOperands, asyncObject
    starts = [sum(sizes[:i]) for i in range(len(sizes) + 1)]

    def group(operands: tuple[Value, ...], i: int) -> tuple[Value, ...]:
        return operands[starts[i] : starts[i + 1]]

    def run(host: HostMachine, mask: Any, *operands: Value) -> Value:
        flat = [group(operands, i) for i in range(len(sizes))]
        grid, block = tuple(v[0] for v in flat[1:4]), tuple(v[0] for v in flat[4:7])
        dynamic = flat[10][0] if flat[10] else 0
        # Without an asynchronous dependency a launch is on the default stream, whose handle is 0.
        stream = flat[0][0] if flat[0] else 0
        host.launch(kernel, grid, block, dynamic, flat[11], *((stream,) if host.streams else ()))
        return stream

    return run
