"""What is known about integers and pointers before a launch: a power of two that divides them, their range.

A wide access needs an aligned address on NVIDIA GPUs, and a buffer access a bounds check; both can be left
out where the operands show that they are met. Kernels are compiled for the alignment of the arguments at
hand and for their block size, so much is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flydsl._mlir import ir

# More than the widest access is of no use.
MOST = 1 << 20
_DEPTH = 24


@dataclass(frozen=True, slots=True)
class Fact:
    """``divisor`` is a power of two; ``low`` and ``high`` bound the value, None is unknown."""

    divisor: int = 1
    low: int | None = None
    high: int | None = None


UNKNOWN = Fact()


def defining(value: Any) -> Any:
    """Return the operation that defines a value, or None for an argument of a block."""
    owner = value.owner
    return owner.operation if hasattr(owner, "operation") else None


def constant(value: Any) -> int | None:
    """Return the number of a value that an operation defines as a constant, or None."""
    op = defining(value)
    number = getattr(op.attributes["value"], "value", None) if op and "value" in op.attributes else None
    return int(number) if isinstance(number, int) else None


def is_argument(value: Any) -> bool:
    """Return whether a value is an argument of a kernel."""
    return defining(value) is None and value.owner.owner.operation.name == "gpu.func"


def power(value: int) -> int:
    """Return the largest power of two, up to :data:`MOST`, that divides ``value``."""
    return MOST if value == 0 else min(value & -value, MOST)


def exactly(value: int) -> Fact:
    """Return the fact of a constant."""
    return Fact(power(value), value, value)


@dataclass(frozen=True, slots=True)
class Known:
    """What a launch fixes: the block's size, and the divisors of arguments' leaves.

    ``divisors`` maps (argument, path inside its struct) to a power of two. ``target`` is the AMD GPU that the
    kernel was lowered for.
    """

    block: tuple[int, int, int]
    divisors: Mapping[tuple[int, tuple[int, ...]], int]
    target: str = "gfx942"


class Facts:
    """Derives facts of SSA values of one kernel; see the module's docstring."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._memo: dict[Any, Fact] = {}

    @property
    def target(self) -> str:
        """The AMD GPU that the kernel was lowered for."""
        return self._known.target

    def forget(self) -> None:
        """Drop what was derived: after a rewrite, values may be gone and their addresses used again."""
        self._memo.clear()

    def of(self, value: Any, depth: int = 0) -> Fact:
        """Return what is known about a value."""
        found = self._memo.get(value)
        if found is None:
            found = self._derive(value, depth) if depth < _DEPTH else UNKNOWN
            self._memo[value] = found
        return found

    def _derive(self, value: Any, depth: int) -> Fact:
        owner = defining(value)
        if owner is None:
            return self._argument(value)
        rule = _RULES.get(owner.name)
        return UNKNOWN if rule is None else rule(self, owner, depth + 1)

    def _argument(self, value: Any) -> Fact:
        if not is_argument(value):
            return UNKNOWN
        return Fact(self._known.divisors.get((ir.BlockArgument(value).arg_number, ()), 1))

    def _operands(self, op: Any, depth: int) -> list[Fact]:
        return [self.of(operand, depth) for operand in op.operands]


def _constant(_facts: Facts, op: Any, _depth: int) -> Fact:
    value = getattr(op.attributes["value"], "value", None)
    return exactly(value) if isinstance(value, int) and not isinstance(value, bool) else UNKNOWN


def _same(facts: Facts, op: Any, depth: int) -> Fact:
    return facts.of(op.operands[0], depth)


def _same_bits(facts: Facts, op: Any, depth: int) -> Fact:
    """Cut or extended with zeros: numbers that 31 bits do not hold become others."""
    found = facts.of(op.operands[0], depth)
    return _range(found.low, found.high, found.divisor)


def _range(low: int | None, high: int | None, divisor: int) -> Fact:
    """Return a fact, unless the range leaves 31 bits: then the operation may have wrapped."""
    if low is None or high is None or low < 0 or high >= 1 << 31:
        return Fact(divisor)
    return Fact(divisor, low, high)


def _add(facts: Facts, op: Any, depth: int) -> Fact:
    a, b = facts._operands(op, depth)
    divisor = min(a.divisor, b.divisor)
    if None in (a.low, a.high, b.low, b.high):
        return Fact(divisor)
    return _range(a.low + b.low, a.high + b.high, divisor)  # type: ignore[operator]


def _mul(facts: Facts, op: Any, depth: int) -> Fact:
    a, b = facts._operands(op, depth)
    divisor = min(a.divisor * b.divisor, MOST)
    if None in (a.low, a.high, b.low, b.high) or min(a.low, b.low) < 0:  # type: ignore[type-var, operator]
        return Fact(divisor)
    return _range(a.low * b.low, a.high * b.high, divisor)  # type: ignore[operator]


def _shift(facts: Facts, op: Any, depth: int) -> Fact:
    a, b = facts._operands(op, depth)
    if b.low is None or b.low != b.high or not 0 <= b.low < 32:
        return UNKNOWN
    divisor = min(a.divisor << b.low, MOST)
    if a.low is None or a.high is None:
        return Fact(divisor)
    return _range(a.low << b.low, a.high << b.low, divisor)


def _remainder(facts: Facts, op: Any, depth: int) -> Fact:
    a, b = facts._operands(op, depth)
    divisor = min(a.divisor, b.divisor)
    if b.low is None or b.low != b.high or b.low <= 0 or a.low is None or a.high is None or a.low < 0:
        return Fact(divisor)
    return _range(0, min(b.low - 1, a.high), divisor)


def _quotient(facts: Facts, op: Any, depth: int) -> Fact:
    a, b = facts._operands(op, depth)
    if b.low is None or b.low != b.high or b.low <= 0 or a.low is None or a.high is None:
        return UNKNOWN
    return _range(a.low // b.low, a.high // b.low, 1)


def _either(facts: Facts, op: Any, depth: int) -> Fact:
    a, b = (facts.of(operand, depth) for operand in list(op.operands)[-2:])
    divisor = min(a.divisor, b.divisor)
    if None in (a.low, a.high, b.low, b.high):
        return Fact(divisor)
    return _range(min(a.low, b.low), max(a.high, b.high), divisor)  # type: ignore[type-var]


def _thread(facts: Facts, op: Any, _depth: int) -> Fact:
    axis = "xyz".index(str(op.attributes["dimension"]).rstrip(">").split(" ")[-1][-1])
    return Fact(1, 0, facts._known.block[axis] - 1)


def _pointer(facts: Facts, op: Any, depth: int) -> Fact:
    from kernel_lint.nvptx.layout import element_bytes

    size = element_bytes(op.attributes["elem_type"].value)
    if size is None:
        return UNKNOWN
    divisor = facts.of(op.operands[0], depth).divisor
    dynamic = iter(list(op.operands)[1:])
    indices = list(op.attributes["rawConstantIndices"])
    if len(indices) != 1:
        return UNKNOWN
    at = facts.of(next(dynamic), depth).divisor if int(indices[0]) == -(1 << 31) else power(int(indices[0]))
    return Fact(min(divisor, at * power(size), MOST))


def _member(facts: Facts, op: Any, _depth: int) -> Fact:
    source = op.operands[0]
    if not is_argument(source):
        return UNKNOWN
    path = tuple(int(i) for i in op.attributes["position"])
    return Fact(facts._known.divisors.get((ir.BlockArgument(source).arg_number, path), 1))


_RULES: dict[str, Callable[[Facts, Any, int], Fact]] = {
    "arith.constant": _constant,
    "llvm.mlir.constant": _constant,
    **dict.fromkeys(
        (
            "arith.index_cast",
            "arith.extsi",
            "llvm.bitcast",
        ),
        _same,
    ),
    **dict.fromkeys(("arith.index_castui", "arith.extui", "arith.trunci"), _same_bits),
    "arith.addi": _add,
    "arith.muli": _mul,
    "arith.shli": _shift,
    **dict.fromkeys(("arith.remsi", "arith.remui"), _remainder),
    **dict.fromkeys(("arith.divsi", "arith.divui", "arith.floordivsi"), _quotient),
    **dict.fromkeys(("arith.select", "arith.minsi", "arith.maxsi", "arith.minui", "arith.maxui"), _either),
    "gpu.thread_id": _thread,
    "llvm.getelementptr": _pointer,
    "llvm.extractvalue": _member,
}
