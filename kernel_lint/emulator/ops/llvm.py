"""``llvm``: pointers, memory, structs, atomics. https://llvm.org/docs/LangRef.html"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from kernel_lint.emulator import access, atomics
from kernel_lint.emulator.accesses import Site
from kernel_lint.emulator.ir import MType, Op
from kernel_lint.emulator.machine import Machine, Mask
from kernel_lint.emulator.memory import Ptr
from kernel_lint.emulator.registry import Env, Run, op, unknown
from kernel_lint.emulator.values import Tensor, Value, is_uniform, to_tensor

_DYNAMIC = -(2**31)


@op("llvm.extractvalue")
def extractvalue(o: Op, env: Env) -> Run:
    """A member of a struct."""
    position = o.attrs["position"]

    def run(a: Value) -> Value:
        for p in position:
            a = a[p]
        return a

    return run


@op("llvm.insertvalue")
def insertvalue(o: Op, env: Env) -> Run:
    """A copy of a struct with one member replaced."""
    position = o.attrs["position"]

    def put(a: Any, value: Value, path: tuple[int, ...]) -> Any:
        if not path:
            return value
        members = list(a)
        members[path[0]] = put(members[path[0]], value, path[1:])
        return tuple(members)

    return lambda a, value: put(a, value, position)


@op("llvm.getelementptr")
def getelementptr(o: Op, env: Env) -> Run:
    """Pointer arithmetic: the first index counts elements of the type, later ones go into it."""
    element, indices = o.attrs["elem_type"], o.attrs["rawConstantIndices"]
    steps: list[tuple[int, int | None]] = []
    constant, current = 0, element
    for number, index in enumerate(indices):
        if number == 0:
            scale = current.size
        elif current.kind == "struct":
            constant += current.struct_layout()[0][index]
            current = current.fields[index]
            continue
        else:
            current = current.fields[0] if current.kind == "array" else current.element
            scale = current.size
        if index == _DYNAMIC:
            steps.append((scale, None))
        else:
            constant += scale * index
    scales = [scale for scale, _ in steps]
    global_space = o.operand_types[0].space not in (3, 5)

    def run(base: Value, *dynamic: Value) -> Ptr:
        region, off = (base.region, base.off) if isinstance(base, Ptr) else (None, base)
        if constant:
            off = off + constant
        for scale, index in zip(scales, dynamic, strict=True):
            if global_space and isinstance(index, Tensor):
                index = index.to(torch.int64)
            off = off + (index * scale if scale != 1 else index)
        return Ptr(region, off)

    return run


@op("llvm.ptrtoint")
def ptrtoint(o: Op, env: Env) -> Run:
    """The address as a number (an offset in LDS and private memory)."""
    bits = o.result_type.bits

    def run(a: Value) -> Value:
        if isinstance(a, Ptr) and a.region is not None and a.region.parent is not None:
            a.region.parent.open = True
        address = a.address if isinstance(a, Ptr) else a
        if isinstance(address, Tensor) and bits == 32:
            return address.to(torch.int32)
        return address.to(torch.int64) if isinstance(address, Tensor) else address

    return run


@op("llvm.inttoptr")
def inttoptr(o: Op, env: Env) -> Run:
    """A pointer made of a number; its tensor is looked up when it is used."""
    return lambda a: Ptr(None, a)


@op("llvm.addrspacecast")
def addrspacecast(o: Op, env: Env) -> Run:
    """The same memory through another address space; a buffer resource becomes one over all of the tensor."""
    return lambda a: a


@op("llvm.mlir.addressof", context=True)
def addressof(o: Op, env: Env) -> Run:
    """The address of an LDS variable or of a constant."""
    name = str(o.attrs["global_name"]).split(".")[-1]

    def run(m: Machine, mask: Mask) -> Ptr:
        region = m.variables[name]
        return Ptr(region, region.lo)

    return run


@op("llvm.alloca", context=True)
def alloca(o: Op, env: Env) -> Run:
    """A private array for each lane."""
    size = o.attrs["elem_type"].size

    def run(m: Machine, mask: Mask, count: Value) -> Ptr:
        if not is_uniform(count):
            raise unknown(o, env, "a size that differs between lanes")
        return m.private(size * int(count))

    return run


@op("llvm.load", context=True)
def load(o: Op, env: Env) -> Run:
    """Load; the alignment is the stated or the natural one."""
    align = int(o.attrs.get("alignment", o.result_type.alignment))
    site = Site(o.result_type, o.place, o.operand_types[0].space, align)
    return lambda m, mask, ptr: access.load(m, mask, ptr, site)


@op("llvm.store", context=True)
def store(o: Op, env: Env) -> Run:
    """Store; the alignment is the stated or the natural one."""
    value_type, pointer_type = o.operand_types[:2]
    align = int(o.attrs.get("alignment", value_type.alignment))
    site = Site(value_type, o.place, pointer_type.space, align)
    return lambda m, mask, value, ptr: access.store(m, mask, ptr, value, site)


_BIN_OPS = (
    "xchg",
    "add",
    "sub",
    "and",
    "nand",
    "or",
    "xor",
    "max",
    "min",
    "umax",
    "umin",
    "fadd",
    "fsub",
    "fmax",
    "fmin",
    "uinc_wrap",
    "udec_wrap",
    "usub_cond",
    "usub_sat",
    "fmaximum",
    "fminimum",
)


@op("llvm.atomicrmw", context=True)
def atomicrmw(o: Op, env: Env) -> Run:
    """Atomic read-modify-write; lanes that hit one address are served in lane order."""
    site = Site(o.operand_types[1], o.place, o.operand_types[0].space)
    kind = _BIN_OPS[int(o.attrs["bin_op"])]
    atomic = atomics.atomic_of(kind, site.mtype)
    if atomic is None:
        raise unknown(o, env, kind)

    def run(m: Machine, mask: Mask, ptr: Value, value: Value) -> Value:
        return atomics.read_modify_write(m, mask, ptr, (value,), site, atomic)

    return run


@op("llvm.cmpxchg", context=True)
def cmpxchg(o: Op, env: Env) -> Run:
    """Atomic compare and exchange: the old value, and whether it was exchanged."""
    site = Site(o.operand_types[1], o.place, o.operand_types[0].space)

    def run(m: Machine, mask: Mask, ptr: Value, expected: Value, new: Value) -> tuple[Value, Value]:
        old = atomics.read_modify_write(m, mask, ptr, (expected, new), site, atomics.EXCHANGE_IF_EQUAL)
        return old, old == to_tensor(expected, site.mtype, env.device)

    return run


@op("llvm.fence", "memref.assume_alignment")
def fence(o: Op, env: Env) -> Run:
    """A memory fence: in lockstep every store is visible at once."""
    return lambda *_: None


@op(
    "llvm.intr.assume",
    "llvm.intr.prefetch",
    "llvm.intr.lifetime.start",
    "llvm.intr.lifetime.end",
    "llvm.intr.invariant.start",
)
def hint(o: Op, env: Env) -> Run:
    """A hint to the optimiser; no effect on values."""
    return lambda *_: None


@op("llvm.intr.expect", "llvm.intr.ssa.copy", "llvm.freeze")
def same(o: Op, env: Env) -> Run:
    """The first operand itself."""
    return lambda a, *_: a


def _saturating(kind: str) -> Callable[[Op, Env], Run]:
    def build(o: Op, env: Env) -> Run:
        mtype: MType = o.result_type
        if mtype.bits > 32:
            raise unknown(o, env, "64-bit operands")
        is_unsigned = kind[0] == "u"
        low = 0 if is_unsigned else -(1 << (mtype.bits - 1))
        high = (1 << mtype.bits) - 1 if is_unsigned else (1 << (mtype.bits - 1)) - 1
        mask = (1 << mtype.bits) - 1

        def run(a: Value, b: Value) -> Value:
            a, b = (to_tensor(x, mtype.element, env.device).to(torch.int64) for x in (a, b))
            if is_unsigned:
                a, b = a & mask, b & mask
            out = a + b if kind.endswith("add") else a - b
            return out.clamp(low, high).to(torch.int64).to(to_tensor(0, mtype.element, env.device).dtype)

        return run

    return build


for _name in ("sadd", "uadd", "ssub", "usub"):
    op(f"llvm.intr.{_name}.sat")(_saturating(_name))


@op("llvm.intr.fshl", "llvm.intr.fshr")
def funnel(o: Op, env: Env) -> Run:
    """Funnel shift of the pair a:b, by c modulo the width."""
    mtype = o.result_type
    bits = mtype.bits
    if bits > 32:
        raise unknown(o, env, "64-bit operands")
    left = o.name.endswith("fshl")

    def run(a: Value, b: Value, c: Value) -> Value:
        ta, tb, tc = (to_tensor(x, mtype.element, env.device).to(torch.int64) for x in (a, b, c))
        pair = (ta << bits) | (tb & ((1 << bits) - 1))
        amount = tc % bits
        out = pair >> (bits - amount) if left else pair >> amount
        return out.to(to_tensor(0, mtype.element, env.device).dtype)

    return run
