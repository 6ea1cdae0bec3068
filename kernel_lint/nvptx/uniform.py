"""Which values all threads of a wave share, so that a condition made of them divides no wave.

What depends on thread numbers and constants alone is worked out for every thread of the block; what also
depends on arguments, block numbers and the like is shared where everything else in it is. Loads count as
different: another wave may write between the reads of two warps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, TypeAlias

import numpy as np
from flydsl._mlir import ir

from kernel_lint.nvptx.facts import defining

_DEPTH = 200
# Compared by number in arith.cmpi: eq ne slt sle sgt sge ult ule ugt uge.
_SIGNED = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)
_PREDICATES = (*_SIGNED, *_SIGNED[2:])


class Shared(Enum):
    """How a value may differ from thread to thread where the numbers are not known."""

    BY_ALL = "the same in all threads of the group"
    UNKNOWN = "it may differ"
    OPEN = "not known yet"


# A number for every thread of the block where they are known.
_Value: TypeAlias = "Shared | np.ndarray[Any, Any]"
_OPEN = Shared.OPEN


class Uniformity:
    """Answers for one kernel and one block size, before the kernel is rewritten.

    ``group`` is the number of threads, in order, that must agree.
    """

    def __init__(self, block: tuple[int, int, int], group: int) -> None:
        self._block = block
        self.group = group
        self._memo: dict[Any, _Value] = {}
        # Of values that depend on themselves, by way of a loop: those taken for shared, those that are not.
        self._assumed: set[Any] = set()
        self._differing: dict[Any, _Value] = {}

    def reached_together(self, op: Any) -> bool:
        """Return whether the threads of a group get to an operation together or not at all."""
        while op.name != "gpu.func":
            above = op.parent.operation
            if any(len(region.blocks) != 1 for region in above.regions if len(region.blocks)):
                return False
            if not self._decided_alike(above):
                return False
            op = above
        return True

    def _decided_alike(self, op: Any) -> bool:
        """Return whether the threads of a group take the same way into the regions of an operation."""
        if op.name == "gpu.func":
            return True
        if op.name in ("scf.if", "scf.index_switch"):
            return self.same(op.operands[0])
        if op.name == "scf.for":
            return all(self.same(operand) for operand in list(op.operands)[:3])
        if op.name == "scf.while":
            return self.same(_last(op.regions[0]).operands[0])
        return False

    def same(self, value: Any) -> bool:
        """Return whether the threads of a group have the same value."""
        while True:
            differing = len(self._differing)
            found = self._of(value, 0)
            if len(self._differing) == differing:
                return self._agree(found)
            # Something was taken for shared that is not: what followed from it is void.
            self._memo = dict(self._differing)

    def _agree(self, found: _Value) -> bool:
        if isinstance(found, Shared):
            return found is Shared.BY_ALL
        count = -(-len(found) // self.group) * self.group
        # The last group may be short.
        groups = np.pad(found, (0, count - len(found)), mode="edge").reshape(-1, self.group)
        return bool((groups == groups[:, :1]).all())

    def _of(self, value: Any, depth: int) -> _Value:
        known = self._memo.get(value)
        if known is not None:
            if known is _OPEN:
                self._assumed.add(value)
                return Shared.BY_ALL
            return known
        if depth > _DEPTH:
            return Shared.UNKNOWN
        self._memo[value] = _OPEN
        op = defining(value)
        found = self._argument(value, depth) if op is None else self._result(op, value, depth)
        self._memo[value] = found
        if value in self._assumed and found is Shared.UNKNOWN:
            self._differing[value] = found
        return found

    def _all(self, values: Sequence[Any], depth: int) -> _Value:
        """Return whether all of some values are shared, without their numbers."""
        if all(self._agree(self._of(value, depth + 1)) for value in values):
            return Shared.BY_ALL
        return Shared.UNKNOWN

    def _argument(self, value: Any, depth: int) -> _Value:
        block, number = value.owner, ir.BlockArgument(value).arg_number
        op = block.owner.operation
        if op.name == "gpu.func":
            return Shared.BY_ALL
        if op.name == "scf.for":
            return self._carried(op, number - 1, depth)
        if op.name == "scf.while":
            condition = _last(op.regions[0])
            if block == op.regions[0].blocks[0]:
                sources = [op.operands[number], _last(op.regions[1]).operands[number]]
            else:
                sources = [condition.operands[number + 1]]
            return self._all([condition.operands[0], *sources], depth)
        return Shared.UNKNOWN

    def _carried(self, op: Any, number: int, depth: int) -> _Value:
        """Return what a loop's counter (-1) or one of the values that it carries is."""
        sources = list(op.operands)[:3]
        if number >= 0:
            sources += [op.operands[3 + number], _last(op.regions[0]).operands[number]]
        return self._all(sources, depth)

    def _result(self, op: Any, value: Any, depth: int) -> _Value:
        name = op.name
        if name == "gpu.thread_id":
            return self._thread(str(op.attributes["dimension"]).rstrip(">").split(" ")[-1][-1])
        if name in ("arith.constant", "llvm.mlir.constant"):
            number = getattr(op.attributes["value"], "value", None)
            return np.array([number] * self._threads) if isinstance(number, int) else Shared.BY_ALL
        number = list(op.results).index(value)
        if name == "scf.for":
            return self._carried(op, number, depth)
        if name == "scf.if":
            return self._all(
                [op.operands[0], *(_last(region).operands[number] for region in op.regions)], depth
            )
        if name == "scf.while":
            condition = _last(op.regions[0])
            return self._all([condition.operands[0], condition.operands[number + 1]], depth)
        if name in _EVERYWHERE or (name == "rocdl.readfirstlane" and self.group <= 64):
            return Shared.BY_ALL
        if not name.startswith(_PURE) and name not in _PURE_NAMES:
            return Shared.UNKNOWN
        return self._computed(op, [self._of(operand, depth + 1) for operand in op.operands], depth)

    def _computed(self, op: Any, parts: list[_Value], depth: int) -> _Value:
        rule = _ARITHMETIC.get(op.name)
        numbers = [part for part in parts if not isinstance(part, Shared)]
        if rule is None or len(numbers) != len(parts):
            return self._all(list(op.operands), depth)
        with np.errstate(all="ignore"):
            return _wrapped(rule(op, *numbers), str(op.results[0].type))

    @property
    def _threads(self) -> int:
        return self._block[0] * self._block[1] * self._block[2]

    def _thread(self, axis: str) -> np.ndarray:
        x, y, _ = self._block
        linear = np.arange(self._threads)
        return {"x": linear % x, "y": linear // x % y, "z": linear // (x * y)}[axis]


def _last(region: Any) -> Any:
    operations = list(region.blocks[0].operations)
    return operations[-1].operation


def _wrapped(numbers: np.ndarray, mtype: str) -> np.ndarray:
    """Return numbers as an integer of a type's width holds them, signed; i1 as 0 and 1."""
    if mtype == "i1":
        return numbers.astype(np.int64) & 1
    width = int(mtype[1:]) if mtype[1:].isdigit() else 64
    if width >= 64:
        return numbers.astype(np.int64)
    half = 1 << (width - 1)
    return (numbers.astype(np.int64) + half) % (1 << width) - half


def _unsigned(numbers: np.ndarray, mtype: str) -> np.ndarray:
    width = int(mtype[1:]) if mtype[1:].isdigit() else 64
    return numbers.astype(np.uint64) if width >= 64 else numbers.astype(np.int64) % (1 << width)


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda _op, *parts: function(*parts)


def _of_unsigned(function: Callable[..., Any]) -> Callable[..., Any]:
    def rule(op: Any, *parts: np.ndarray) -> Any:
        text = str(op.operands[0].type)
        return function(*(_unsigned(part, text) for part in parts))

    return rule


def _compare(op: Any, a: np.ndarray, b: np.ndarray) -> Any:
    number = op.attributes["predicate"].value
    if number < len(_SIGNED):
        return _PREDICATES[number](a, b)
    return _of_unsigned(_PREDICATES[number])(op, a, b)


def _divided(a: np.ndarray, b: np.ndarray) -> Any:
    """Divide towards zero, as hardware does; by zero gives zero."""
    quotient = np.abs(a) // np.where(b == 0, 1, np.abs(b))
    return np.where(b == 0, 0, np.sign(a) * np.sign(b) * quotient)


def _remainder(a: np.ndarray, b: np.ndarray) -> Any:
    return a - _divided(a, b) * b


def _floor(a: np.ndarray, b: np.ndarray) -> Any:
    return np.where(b == 0, 0, a // np.where(b == 0, 1, b))


_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "arith.addi": _plain(np.add),
    "arith.subi": _plain(np.subtract),
    "arith.muli": _plain(np.multiply),
    "arith.divsi": _plain(_divided),
    "arith.remsi": _plain(_remainder),
    "arith.floordivsi": _plain(_floor),
    "arith.divui": _of_unsigned(_floor),
    "arith.remui": _of_unsigned(lambda a, b: a - _floor(a, b) * b),
    "arith.shli": _plain(np.left_shift),
    "arith.shrsi": _plain(np.right_shift),
    "arith.shrui": _of_unsigned(np.right_shift),
    "arith.andi": _plain(np.bitwise_and),
    "arith.ori": _plain(np.bitwise_or),
    "arith.xori": _plain(np.bitwise_xor),
    "arith.minsi": _plain(np.minimum),
    "arith.maxsi": _plain(np.maximum),
    "arith.minui": _of_unsigned(np.minimum),
    "arith.maxui": _of_unsigned(np.maximum),
    "arith.cmpi": _compare,
    "arith.select": _plain(lambda condition, a, b: np.where(condition != 0, a, b)),
    "arith.index_cast": _plain(lambda a: a),
    "arith.extsi": lambda op, a: -a if str(op.operands[0].type) == "i1" else a,
    "arith.trunci": _plain(lambda a: a),
    **dict.fromkeys(("arith.extui", "arith.index_castui"), _of_unsigned(lambda a: a)),
}
_PURE = ("arith.", "math.")
_PURE_POINTERS = (
    "extractvalue insertvalue bitcast ptrtoint inttoptr addrspacecast getelementptr mlir.addressof"
)
_PURE_VECTORS = (
    "broadcast bitcast extract extract_strided_slice from_elements insert reduction shape_cast shuffle splat "
    "to_elements"
)
_PURE_NAMES = frozenset(
    [f"llvm.{name}" for name in _PURE_POINTERS.split()] + [f"vector.{name}" for name in _PURE_VECTORS.split()]
)
_EVERYWHERE = frozenset(
    {"gpu.block_id", "gpu.grid_dim", "gpu.block_dim", "llvm.mlir.zero", "llvm.mlir.undef", "llvm.mlir.poison"}
)
