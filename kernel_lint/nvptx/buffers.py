"""AMD's raw buffer accesses as loads and stores between bounds checks.

A raw buffer descriptor holds a base, and the number of bytes behind it; a dword that does not lie inside
reads as zero and is not written (AMD Instinct MI300 ISA, section 9.1.5 "Buffer Resource Descriptor", range
checking with ``STRIDE == 0``). Wide accesses become one instruction where the address is known to be aligned,
else several.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flydsl._mlir import ir

from kernel_lint.nvptx.build import Builder, replace
from kernel_lint.nvptx.errors import refuse
from kernel_lint.nvptx.facts import Fact, Facts, defining
from kernel_lint.nvptx.layout import element_bytes

LOAD, STORE = "rocdl.raw.ptr.buffer.load", "rocdl.raw.ptr.buffer.store"
DESCRIPTOR = "rocdl.make.buffer.rsrc"


@dataclass(frozen=True, slots=True)
class _Access:
    """One access: where, how wide, how aligned, and whether it can lie outside or across the end."""

    pointer: Any
    offset: Any
    records: Any
    size: int
    alignment: int
    inside: bool
    whole: bool


def load_buffer(op: Any, build: Builder, operands: list[Any], mtype: Any, facts: Facts) -> Any:
    """Return what a raw buffer access reads; ``operands`` are its descriptor and its two offsets."""
    access = _access(op, build, operands, mtype, facts)
    return build.cast(_load(build, access, _words(build, access.size)), mtype)


def rewrite_buffer(op: Any, facts: Facts) -> None:
    """Rewrite a raw buffer load or store; raises the refusal where its descriptor is not known."""
    load = op.name == LOAD
    operands = list(op.operands)
    value: Any = None if load else operands.pop(0)
    mtype = op.results[0].type if load else value.type
    build = Builder(op)
    access = _access(op, build, operands, mtype, facts)
    if load:
        replace(op, [build.cast(_load(build, access, _words(build, access.size)), mtype)])
    else:
        _store(build, access, build.cast(value, _words(build, access.size)))
        op.erase()


def _access(op: Any, build: Builder, operands: list[Any], mtype: Any, facts: Facts) -> _Access:
    descriptor = defining(operands[0])
    if descriptor is None or descriptor.name != DESCRIPTOR:
        raise refuse(op, "its buffer descriptor is chosen at run time, so its bounds are not known here")
    base, stride, records, _flags = descriptor.operands
    if facts.of(stride).high != 0:
        raise refuse(op, "its buffer descriptor has a stride (a swizzled or structured buffer)")
    size = element_bytes(mtype)
    if size is None or size not in (1, 2, 4, 8, 12, 16):
        raise refuse(op, f"it moves a {mtype}")
    voffset, soffset = operands[1], operands[2]
    v, s, n = facts.of(voffset), facts.of(soffset), facts.of(records)
    aligned = min(v.divisor, s.divisor)
    alignment = min(facts.of(base).divisor, aligned, 16)
    unit = size & -size
    inside = _inside((v, s), size, n)
    whole = size <= 4 or (aligned >= size == unit and n.divisor >= size)
    offset = build.wide(voffset)
    if s.high != 0:
        offset = build.value("arith.addi", build.i64, offset, build.wide(soffset))
    pointer = build.offset(base, offset)
    return _Access(pointer, offset, build.wide(records), size, alignment, inside, whole)


def _inside(offsets: tuple[Fact, ...], size: int, records: Fact) -> bool:
    """Return whether an access is known to lie inside; offsets below zero are huge ones to the hardware."""
    total = size
    for offset in offsets:
        if offset.low is None or offset.high is None or offset.low < 0:
            return False
        total += offset.high
    return records.low is not None and total <= records.low


def _words(build: Builder, size: int) -> Any:
    """Return the type in which ``size`` bytes move."""
    if size <= 4:
        return ir.IntegerType.get_signless(8 * size)
    return ir.Type.parse(f"vector<{size // 4}xi32>")


def _fits(build: Builder, access: _Access, start: int, size: int) -> Any:
    """Return whether the bytes from ``start`` lie inside the buffer."""
    end = build.value("arith.addi", build.i64, access.offset, build.constant(start + size, build.i64))
    return build.compare(7, end, access.records)


def _load(build: Builder, access: _Access, mtype: Any) -> Any:
    def direct() -> list[Any]:
        return [build.load(mtype, access.pointer, min(access.alignment, _natural(access.size)))]

    if access.inside:
        return direct()[0]
    if access.whole:
        return build.either(
            _fits(build, access, 0, access.size), [mtype], direct, lambda: [build.zero(mtype)]
        )[0]
    words = []
    for start in range(0, access.size, 4):
        place = build.offset(access.pointer, start)
        alignment = min(access.alignment, 4)
        words += build.either(
            _fits(build, access, start, 4),
            [build.i32],
            lambda place=place, alignment=alignment: [build.load(build.i32, place, alignment)],  # type: ignore[misc]
            lambda: [build.zero(build.i32)],
        )
    return build.value("vector.from_elements", mtype, *words)


def _store(build: Builder, access: _Access, value: Any) -> None:
    def direct() -> list[Any]:
        build.store(value, access.pointer, min(access.alignment, _natural(access.size)))
        return []

    if access.inside:
        direct()
        return
    if access.whole:
        build.either(_fits(build, access, 0, access.size), [], direct, list)
        return
    for number, start in enumerate(range(0, access.size, 4)):
        word = build.value("vector.extract", build.i32, value, static_position=f"array<i64: {number}>")
        place = build.offset(access.pointer, start)

        def put(word: Any = word, place: Any = place) -> list[Any]:
            build.store(word, place, min(access.alignment, 4))
            return []

        build.either(_fits(build, access, start, 4), [], put, list)


def _natural(size: int) -> int:
    """Return the alignment of the widest piece that moves at once."""
    return size & -size
