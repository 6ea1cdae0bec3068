"""Makes MLIR operations at a place: the few that the rewrites need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flydsl._mlir import ir


class Builder:
    """Inserts before ``op``, at its source location."""

    def __init__(self, op: Any) -> None:
        self.location = op.location
        self._point = ir.InsertionPoint(op)
        self.i1, self.i32, self.i64 = (ir.IntegerType.get_signless(n) for n in (1, 32, 64))
        self.f32 = ir.F32Type.get()

    def make(
        self, name: str, results: Sequence[Any], operands: Sequence[Any], regions: int = 0, **attrs: Any
    ) -> Any:
        """Create an operation; attributes may be given as MLIR text."""
        with self.location, self._point:
            parsed = {k: ir.Attribute.parse(v) if isinstance(v, str) else v for k, v in attrs.items()}
            return ir.Operation.create(
                name, list(results), list(operands), attributes=parsed, regions=regions
            )

    def value(self, name: str, result: Any, *operands: Any, **attrs: Any) -> Any:
        """Create an operation of one result and return that."""
        return self.make(name, [result], operands, **attrs).results[0]

    def call(self, intrinsic: str, result: Any, *operands: Any) -> Any:
        """Call one of LLVM's intrinsics by its full name (``llvm.fma.f32``) and return its result."""
        sizes = f"array<i32: {len(operands)}, 0>"
        return self.value(
            "llvm.call_intrinsic", result, *operands,
            intrin=f'"{intrinsic}"', operandSegmentSizes=sizes, op_bundle_sizes="array<i32>",
        )  # fmt: skip

    def constant(self, number: int, mtype: Any) -> Any:
        """Return an integer constant."""
        return self.value("arith.constant", mtype, value=ir.IntegerAttr.get(mtype, number))

    def zero(self, mtype: Any) -> Any:
        """Return zeros of any scalar or vector type."""
        return self.value("llvm.mlir.zero", mtype)

    def offset(self, pointer: Any, bytes_: Any) -> Any:
        """Return ``pointer`` plus a number of bytes, an i64 value or an int."""
        if isinstance(bytes_, int):
            if bytes_ == 0:
                return pointer
            bytes_ = self.constant(bytes_, self.i64)
        return self.value(
            "llvm.getelementptr", pointer.type, pointer, bytes_,
            rawConstantIndices=f"array<i32: {-(1 << 31)}>", elem_type="i8",
        )  # fmt: skip

    def load(self, mtype: Any, pointer: Any, alignment: int) -> Any:
        """Load a value."""
        return self.value("llvm.load", mtype, pointer, alignment=f"{alignment} : i64")

    def store(self, value: Any, pointer: Any, alignment: int) -> None:
        """Store a value."""
        self.make("llvm.store", [], [value, pointer], alignment=f"{alignment} : i64")

    def compare(self, predicate: int, a: Any, b: Any) -> Any:
        """Return ``arith.cmpi``; predicates by number: 0 eq, 1 ne, 2 slt, 6 ult, 7 ule."""
        return self.value("arith.cmpi", self.i1, a, b, predicate=f"{predicate} : i64")

    def either(
        self,
        condition: Any,
        results: Sequence[Any],
        then: Callable[[], list[Any]],
        other: Callable[[], list[Any]],
    ) -> list[Any]:
        """Create an ``scf.if``; the two functions build its sides and return what they yield."""
        op = self.make("scf.if", results, [condition], regions=2)
        before = self._point
        for region, side in zip(op.regions, (then, other), strict=True):
            if region is op.regions[1] and not results:
                continue
            block = region.blocks.append()
            self._point = ir.InsertionPoint(block)
            self.make("scf.yield", [], side())
        self._point = before
        return list(op.results)

    def add(self, a: Any, b: Any) -> Any:
        """Return the sum of two i32."""
        return self.value("arith.addi", self.i32, a, b)

    def times(self, a: Any, factor: int) -> Any:
        """Return a multiple of an i32."""
        return self.value("arith.muli", self.i32, a, self.constant(factor, self.i32))

    def shifted(self, a: Any, bits: int) -> Any:
        """Return an i32 divided by a power of two, without its sign."""
        return self.value("arith.shrui", self.i32, a, self.constant(bits, self.i32))

    def low(self, a: Any, count: int) -> Any:
        """Return an i32 modulo a power of two."""
        return self.value("arith.andi", self.i32, a, self.constant(count - 1, self.i32))

    def cast(self, value: Any, mtype: Any) -> Any:
        """Return the bits of a value as another type of the same size."""
        return value if value.type == mtype else self.value("llvm.bitcast", mtype, value)

    def wide(self, value: Any) -> Any:
        """Return an unsigned i32 as i64; an i64 as it is."""
        if value.type == self.i64:
            return value
        return self.value("arith.extui", self.i64, value)


def replace(op: Any, results: Sequence[Any]) -> None:
    """Put values in the place of an operation's results, and remove it."""
    for old, new in zip(op.results, results, strict=True):
        old.replace_all_uses_with(new)
    op.erase()
