"""``llvm.inline_asm``: the forms that FlyDSL kernels use, recognised instruction by instruction.

Operands are numbered outputs first, as LLVM does (LangRef, "Inline Asm Expressions"). An instruction that is
not in the table is an error that names it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch

from kernel_lint.emulator import masks
from kernel_lint.emulator.ir import MType, Op
from kernel_lint.emulator.machine import Machine, Mask
from kernel_lint.emulator.memory import Ptr, Resource
from kernel_lint.emulator.numerics import conversions, formats
from kernel_lint.emulator.numerics.lanes import ballot
from kernel_lint.emulator.numerics.mfma import MFMA_SPECS, mfma
from kernel_lint.emulator.ops import asm_memory
from kernel_lint.emulator.ops.rocdl_lanes import transposed_read
from kernel_lint.emulator.registry import Env, Run, op, unknown
from kernel_lint.emulator.values import Tensor, Value, bitcast, dtype_of, spread_all, to_tensor

_NOTHING = re.compile(
    r"(s_waitcnt\S*|s_nop|s_setprio|s_sleep|s_sched\w*|s_wait_\w+|;.*|buffer_wbl2|buffer_inv|s_icache_inv)\b.*"
)
_CONDITIONAL_BARRIER = re.compile(r"s_cmp_eq_u32 \$0, 0\s+s_cbranch_scc0 1f\s+s_barrier\s+1:\s*$")
State = dict[str, Value]


def _lines(text: str) -> list[str]:
    return [line.strip() for line in re.split(r"[\n;]", text) if line.strip()]


@op("llvm.inline_asm", context=True)
def inline_asm(o: Op, env: Env) -> Run:
    """Assembly text with operands."""
    text = str(o.attrs["asm_string"]).strip()
    constraints = [c for c in str(o.attrs.get("constraints", "")).split(",") if c and not c.startswith("~")]
    outputs = [c for c in constraints if c.startswith("=")]
    if not text:
        return _pin(o, env, len(outputs))
    if _CONDITIONAL_BARRIER.match(text):
        return _conditional_barrier(o)
    steps = [s for s in (_instruction(line, o, env) for line in _lines(text)) if s is not None]
    return _program(o, env, outputs, constraints[len(outputs) :], steps)


def _pin(o: Op, env: Env, outputs: int) -> Run:
    """An empty text that ties outputs to inputs: the values pass through."""
    if outputs == 0:
        return lambda m, mask, *values: None
    if outputs == 1:
        return lambda m, mask, *values: values[0]
    return lambda m, mask, *values: tuple(values[:outputs])


def _conditional_barrier(o: Op) -> Run:
    """``s_barrier`` in the waves whose operand is 0."""
    place = o.place

    def run(m: Machine, mask: Mask, value: Value) -> None:
        zero = value == 0
        if not isinstance(zero, Tensor):
            if zero:
                m.checker.wave_barrier(m, mask, place)
            return
        inside, _, go, _ = masks.split(m, mask, zero)
        if go:
            m.checker.wave_barrier(m, inside, place)

    return run


def _program(o: Op, env: Env, outputs: list[str], inputs: list[str], steps: list[Callable[..., None]]) -> Run:
    results = tuple(t for t in o.result_types if t.name != "void")
    types: tuple[MType, ...] = ()
    if results:
        types = results[0].fields if results[0].kind == "struct" else results

    def run(m: Machine, mask: Mask, *values: Value) -> Any:
        state: State = {}
        for number, (constraint, value) in enumerate(zip(inputs, values, strict=False)):
            tensor = (
                to_tensor(value, o.operand_types[number].element, m.device)
                if not isinstance(value, Ptr | Resource)
                else value
            )
            if constraint.isdigit():
                state[f"${constraint}"] = tensor
            state[f"${len(outputs) + number}"] = tensor
        for step in steps:
            step(m, mask, state)
        if any(f"${i}" not in state for i in range(len(types))):
            raise unknown(o, env, "assembly that sets none of its outputs")
        made = tuple(_shaped(m, state[f"${i}"], t, env) for i, t in enumerate(types))
        if not results:
            return None
        return made if results[0].kind == "struct" else made[0]

    return run


def _shaped(m: Machine, value: Tensor, mtype: MType, env: Env) -> Tensor:
    if value.dtype is torch.bool and mtype.bits == 64:
        return ballot(m.spread(value), None, m.wave)
    if value.dtype is dtype_of(mtype) and value.ndim == 2 + len(mtype.shape):
        return value
    kinds = {torch.int32: MType("int", "i32", 32), torch.float32: MType("float", "f32", 32)}
    source = kinds[value.dtype]
    shape = tuple(value.shape[2:])
    return bitcast(value, MType(source.kind, source.name, source.bits, shape), mtype, env.device)  # type: ignore[no-any-return]


def _instruction(line: str, o: Op, env: Env) -> Callable[..., None] | None:
    """One line as a function of the machine, the mask and the registers; None for what has no effect."""
    if _NOTHING.fullmatch(line):
        return None
    name, _, rest = line.partition(" ")
    args = [a.strip() for a in rest.split(",")]
    build = _INSTRUCTIONS.get(name)
    if build is None:
        raise unknown(o, env, f"assembly {line!r}")
    return build(args, o, env)


def _barrier(args: list[str], o: Op, env: Env) -> Callable[..., None]:
    """S_BARRIER."""
    return lambda m, mask, state: m.checker.wave_barrier(m, mask, o.place)


def _register(state: State, name: str, dtype: torch.dtype, device: str) -> Tensor:
    if name.startswith("$"):
        tensor: Tensor = state[name]
        return (
            tensor if tensor.dtype is dtype or tensor.dtype.itemsize != dtype.itemsize else tensor.view(dtype)
        )
    if name == "vcc":
        vcc: Tensor = state["vcc"]
        return vcc
    number = float(name) if dtype.is_floating_point else int(name, 0)
    return torch.full((1, 1), number, dtype=dtype, device=device)


def _cvt_pk_16(fmt: formats.FloatFormat) -> Callable[[list[str], Op, Env], Callable[..., None]]:
    def build(args: list[str], o: Op, env: Env) -> Callable[..., None]:
        """V_CVT_PK_BF16_F32, V_CVT_PK_F16_F32: two floats to one register."""

        def run(m: Machine, mask: Mask, state: State) -> None:
            a, b = spread_all([_register(state, x, torch.float32, env.device) for x in args[1:3]])
            state[args[0]] = conversions.cvt_pk_16_f32(a, b, fmt)

        return run

    return build


def _cvt_off_i4(args: list[str], o: Op, env: Env) -> Callable[..., None]:
    """V_CVT_OFF_F32_I4: a nibble over 16; SDWA selects the byte."""
    source, *modifiers = args[1].split()
    byte = next((int(x[-1]) for x in modifiers if x.startswith("src0_sel:BYTE_")), 0)

    def run(m: Machine, mask: Mask, state: State) -> None:
        state[args[0]] = conversions.cvt_off_f32_i4(_register(state, source, torch.int32, env.device), byte)

    return run


def _ds_read_tr(bits: int) -> Callable[[list[str], Op, Env], Callable[..., None]]:
    def build(args: list[str], o: Op, env: Env) -> Callable[..., None]:
        """DS_READ_B64_TR_B16 and _B8 with an immediate offset."""
        source, *modifiers = args[1].split()
        offset = next((int(x.split(":")[1], 0) for x in modifiers if x.startswith("offset:")), 0)
        pair = MType("int", "i32", 32, (2,))

        def run(m: Machine, mask: Mask, state: State) -> None:
            address = state[source]
            pointer = address if isinstance(address, Ptr) else Ptr(None, address)
            state[args[0]] = transposed_read(m, mask, pointer.moved(offset), bits, pair, o)

        return run

    return build


def _op_sel(text: str, name: str) -> tuple[int, int]:
    """The bits of a modifier such as ``op_sel:[1,0,0]`` for the first two operands."""
    found = re.search(rf"\b{name}:\[(\d),\s*(\d)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _mfma_f8f6f4(name: str) -> Callable[[list[str], Op, Env], Callable[..., None]]:
    def build(args: list[str], o: Op, env: Env) -> Callable[..., None]:
        """V_MFMA_F32_*_F8F6F4, and V_MFMA_SCALE_* with two more sources, the scales: cbsz and blgp choose the
        formats, op_sel (low bit) and op_sel_hi (high bit) the byte of each scale register (CDNA4 ISA, "Matrix
        Core Instructions")."""
        spec = MFMA_SPECS[name]
        text = ", ".join(args)
        modifiers = dict(re.findall(r"(cbsz|blgp):(\d)", text))
        low, high = _op_sel(text, "op_sel"), _op_sel(text, "op_sel_hi")
        sources = [x.strip() for x in re.split(r"\s(?:op_sel|cbsz|blgp)", text)[0].split(",")]

        def run(m: Machine, mask: Mask, state: State) -> None:
            a, b = (state[x] for x in sources[1:3])
            start = torch.full((1, 1, spec.acc_items), 0.0, device=m.device)
            c = state[sources[3]] if sources[3].startswith("$") else start + float(sources[3])
            scales = [m.spread(_register(state, x, torch.int32, env.device)) for x in sources[4:6]]
            first, second = scales or (None, None)
            state[args[0]] = mfma(
                spec,
                a,
                b,
                c,
                gfx=env.target,
                cbsz=int(modifiers.get("cbsz", 0)),
                blgp=int(modifiers.get("blgp", 0)),
                scale_a=first,
                scale_b=second,
                opsel_a=low[0] + 2 * high[0],
                opsel_b=low[1] + 2 * high[1],
                lanes=m.lanes,
            )

        return run

    return build


_CMP = {"lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge, "eq": torch.eq, "ne": torch.ne}


def _v_cmp(kind: str, dtype: torch.dtype) -> Callable[[list[str], Op, Env], Callable[..., None]]:
    def build(args: list[str], o: Op, env: Env) -> Callable[..., None]:
        """V_CMP: a lane mask into VCC or a scalar register pair."""

        def run(m: Machine, mask: Mask, state: State) -> None:
            a, b = (_register(state, x, dtype, env.device) for x in args[1:3])
            state[args[0]] = _CMP[kind](a, b)

        return run

    return build


def _v_cndmask(args: list[str], o: Op, env: Env) -> Callable[..., None]:
    """V_CNDMASK_B32: the second source where the mask holds, else the first."""

    def run(m: Machine, mask: Mask, state: State) -> None:
        a, b = (_register(state, x, torch.int32, env.device) for x in args[1:3])
        state[args[0]] = torch.where(state[args[3]], b, a)

    return run


_INSTRUCTIONS: dict[str, Callable[[list[str], Op, Env], Callable[..., None]]] = {
    "s_barrier": _barrier,
    "v_cvt_pk_bf16_f32": _cvt_pk_16(formats.BF16),
    "v_cvt_pk_f16_f32": _cvt_pk_16(formats.F16),
    "v_cvt_off_f32_i4": _cvt_off_i4,
    "v_cvt_off_f32_i4_sdwa": _cvt_off_i4,
    "ds_read_b64_tr_b16": _ds_read_tr(16),
    "ds_read_b64_tr_b8": _ds_read_tr(8),
    "v_mfma_f32_16x16x128_f8f6f4": _mfma_f8f6f4("rocdl.mfma.scale.f32.16x16x128.f8f6f4"),
    "v_mfma_f32_32x32x64_f8f6f4": _mfma_f8f6f4("rocdl.mfma.scale.f32.32x32x64.f8f6f4"),
    "v_mfma_scale_f32_16x16x128_f8f6f4": _mfma_f8f6f4("rocdl.mfma.scale.f32.16x16x128.f8f6f4"),
    "v_mfma_scale_f32_32x32x64_f8f6f4": _mfma_f8f6f4("rocdl.mfma.scale.f32.32x32x64.f8f6f4"),
    **asm_memory.INSTRUCTIONS,
    "v_cndmask_b32": _v_cndmask,
    "v_cndmask_b32_e64": _v_cndmask,
    **{f"v_cmp_{k}_i32{s}": _v_cmp(k, torch.int32) for k in _CMP for s in ("", "_e64")},
    **{f"v_cmp_{k}_f32{s}": _v_cmp(k, torch.float32) for k in _CMP for s in ("", "_e64")},
}
