"""Memory instructions of inline assembly: global, LDS and buffer-to-LDS accesses, and the register M0.

Sources: "AMD Instinct MI300 (CDNA3) Instruction Set Architecture", chapters 9 "Vector Memory Operations"
(buffer loads to LDS take their base from M0), 10 "Flat Memory Instructions" and 11 "Data Share Operations";
the CDNA4 guide adds copies of 96 and 128 bits. ``sc0``, ``sc1``, ``nt`` choose caches, which the emulator
does not have.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch

from kernel_lint.emulator import access
from kernel_lint.emulator.accesses import BufferAddress, Site
from kernel_lint.emulator.ir import MType, Op
from kernel_lint.emulator.machine import Machine, Mask
from kernel_lint.emulator.memory import Ptr, Resource
from kernel_lint.emulator.ops.rocdl_buffer import lds_site, store_to_lds
from kernel_lint.emulator.registry import Env, unknown
from kernel_lint.emulator.values import Tensor, Value

State = dict[str, Value]
Step = Callable[[Machine, Mask, State], None]
Builder = Callable[[list[str], Op, Env], Step]

_GLOBAL, _LDS = 1, 3
_MODIFIERS = re.compile(r"(?:\s+(?:offset:\S+|sc0|sc1|nt|off|offen|lds))*$")
SIZES = {"": 4, "x2": 8, "x3": 12, "x4": 16, "_b32": 4, "_b64": 8, "_b96": 12, "_b128": 16}


def dwords(size: int) -> MType:
    """The type of ``size`` bytes as dwords."""
    return MType("int", "i32", 32, (size // 4,) if size > 4 else ())


def _modifiers(args: list[str], o: Op, env: Env) -> tuple[list[str], int, set[str]]:
    """The operands without their modifiers, the immediate offset in bytes, and the modifiers' names."""
    head, *rest = args[-1].split()
    words = [*([head] if head in ("off", "offen") else []), *rest]
    if not _MODIFIERS.fullmatch("".join(f" {word}" for word in words)):
        raise unknown(o, env, f"assembly modifiers {' '.join(words)!r}")
    offset = next((int(word.split(":")[1], 0) for word in words if word.startswith("offset:")), 0)
    return [*args[:-1], head], offset, set(words)


def _pointer(value: Value) -> Ptr:
    return value if isinstance(value, Ptr) else Ptr(None, value)


def _as_dwords(value: Value, size: int) -> Tensor:
    """A register tuple as dwords, whatever the type it was written with."""
    tensor: Tensor = value.address if isinstance(value, Ptr) else value
    flat = tensor.contiguous()
    if flat.ndim == 2:
        flat = flat.unsqueeze(-1)
    words = flat.view(torch.int32)
    return words.squeeze(-1) if size == 4 else words


def store(size: int, space: int) -> Builder:
    """GLOBAL_STORE_DWORD* (address, data, ``off``) and DS_WRITE_B* (address, data)."""

    def build(args: list[str], o: Op, env: Env) -> Step:
        operands, offset, _ = _modifiers(args, o, env)
        address, data = _pair(operands, space, o, env)
        site = Site(dwords(size), o.place, space)

        def run(m: Machine, mask: Mask, state: State) -> None:
            place = _pointer(state[address]).moved(offset)
            access.store(m, mask, place, _as_dwords(state[data], size), site)

        return run

    return build


def load(size: int, space: int) -> Builder:
    """GLOBAL_LOAD_DWORD* (destination, address, ``off``) and DS_READ_B* (destination, address)."""

    def build(args: list[str], o: Op, env: Env) -> Step:
        operands, offset, _ = _modifiers(args, o, env)
        target, address = _pair(operands, space, o, env)
        site = Site(dwords(size), o.place, space)

        def run(m: Machine, mask: Mask, state: State) -> None:
            place = _pointer(state[address]).moved(offset)
            state[target] = access.load(m, mask, place, site)

        return run

    return build


def _pair(operands: list[str], space: int, o: Op, env: Env) -> list[str]:
    """The two register operands of an access."""
    if space == _GLOBAL and operands[2:] != ["off"]:
        raise unknown(o, env, "assembly: a global access with a base in scalar registers")
    return _registers(operands[:2] if space == _GLOBAL else operands, o, env)


def _registers(names: list[str], o: Op, env: Env) -> list[str]:
    """The names, all of which must be operands of the assembly."""
    for name in names:
        if not re.fullmatch(r"\$\d+", name):
            raise unknown(o, env, f"assembly operand {name!r}")
    return names


def _scalar(name: str, m: Machine, state: State) -> Any:
    """A scalar source: an operand, M0 or a literal."""
    if name == "m0":
        return m.m0
    return state[name] if name.startswith("$") else int(name, 0)


def s_mov(args: list[str], o: Op, env: Env) -> Step:
    """S_MOV_B32 to M0 or an output. M0 keeps its value between pieces of assembly, as the register does."""
    target, source = args
    if target != "m0":
        _registers([target], o, env)

    def run(m: Machine, mask: Mask, state: State) -> None:
        value = _scalar(source, m, state)
        if target == "m0":
            m.m0 = value
        else:
            state[target] = value if isinstance(value, Tensor) else torch.full((1, 1), value, device=m.device)

    return run


def s_add(args: list[str], o: Op, env: Env) -> Step:
    """S_ADD_U32 into M0."""
    target, *sources = args
    if target != "m0":
        raise unknown(o, env, f"assembly s_add_u32 into {target}")

    def run(m: Machine, mask: Mask, state: State) -> None:
        first, second = (_scalar(name, m, state) for name in sources)
        if isinstance(second, Ptr):
            first, second = second, first
        m.m0 = first.moved(second) if isinstance(first, Ptr) else first + second

    return run


def buffer_load_lds(size: int) -> Builder:
    """BUFFER_LOAD_DWORD* with ``lds``: offset, resource, scalar offset; the destination is at M0."""

    def build(args: list[str], o: Op, env: Env) -> Step:
        operands, offset, words = _modifiers(args, o, env)
        if "lds" not in words or len(operands) != 3:
            raise unknown(o, env, "a buffer load in assembly that does not go to LDS")
        voffset, rsrc, soffset = operands
        _registers([rsrc], o, env)
        site, lds = Site(dwords(size), o.place), lds_site(size, o.place)

        def run(m: Machine, mask: Mask, state: State) -> None:
            resource = state[rsrc]
            assert isinstance(resource, Resource)
            moved = _scalar(voffset, m, state) if "offen" in words else 0
            where = BufferAddress(resource, moved, _scalar(soffset, m, state) + offset)
            store_to_lds(m, mask, m.m0, access.buffer_load(m, mask, where, site), offset, lds)

        return run

    return build


INSTRUCTIONS: dict[str, Builder] = {
    "s_mov_b32": s_mov,
    "s_add_u32": s_add,
    **{f"global_store_dword{n}": store(SIZES[n], _GLOBAL) for n in ("", "x2", "x3", "x4")},
    **{f"global_load_dword{n}": load(SIZES[n], _GLOBAL) for n in ("", "x2", "x3", "x4")},
    **{f"buffer_load_dword{n}": buffer_load_lds(SIZES[n]) for n in ("", "x3", "x4")},
    **{f"ds_write{n}": store(SIZES[n], _LDS) for n in ("_b32", "_b64", "_b96", "_b128")},
    **{f"ds_read{n}": load(SIZES[n], _LDS) for n in ("_b32", "_b64", "_b96", "_b128")},
}
