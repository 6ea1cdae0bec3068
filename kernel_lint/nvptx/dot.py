"""AMD's matrix instructions (MFMA) of float32 and of 8-bit integers, worked out lane by lane.

NVIDIA's tensor cores have no float32, and order 8-bit items in another way. The lanes of a wave put their
items of A and of B into shared memory, and each works out the items of D that it has: by fused
multiply-adds, or by ``dp4a`` (PTX ISA), four products of 8 bits at once.

Lane l holds row (column) l mod m, and of the depth the items from l / m on (:mod:`mfma_table`'s formulas; the
tests check what is used here against them).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flydsl._mlir import ir

from kernel_lint.emulator.numerics.mfma_table import MFMA_SPECS, WAVE, MfmaSpec
from kernel_lint.nvptx.build import Builder, replace

_BYTES = {"f32": 4, "i8": 1}
NAMES = frozenset(
    spec.name
    for spec in MFMA_SPECS.values()
    if spec.blocks == 1 and spec.a_type in _BYTES and spec.items * _BYTES[spec.a_type] % 4 == 0
)


def lane_bytes(spec: MfmaSpec) -> int:
    """Return the size of one lane's items of A, or of B."""
    return spec.items * _BYTES[spec.a_type]


def bytes_of(name: str) -> int:
    """Return how much of the buffer a wave needs for one instruction of :data:`NAMES`."""
    return 2 * WAVE * lane_bytes(MFMA_SPECS[name])


def first_row(spec: MfmaSpec, lane: int) -> int:
    """Return the row of D that is a lane's item 0."""
    return 4 * (lane // spec.m)


def further_rows(item: int) -> int:
    """Return how many rows an item of D lies below the lane's first."""
    return 8 * (item // 4) + item % 4


class Dot:
    """Rewrites one instruction of :data:`NAMES`.

    ``base`` is the wave's part of the buffer, ``lane`` the number in the wave, ``wait`` inserts a wave's
    barrier.
    """

    def __init__(self, op: Any, build: Builder, base: Any, lane: Any, wait: Callable[[], None]) -> None:
        self._op, self._build, self._base, self._lane, self._wait = op, build, base, lane, wait
        self._spec = MFMA_SPECS[op.name]
        self._size = lane_bytes(self._spec)
        self._words = self._size // 4

    def rewrite(self) -> None:
        """Put the product in the operation's place."""
        spec, build = self._spec, self._build
        a, b, c = list(self._op.operands)[:3]
        right = WAVE * self._size
        own = build.times(self._lane, self._size)
        for value, start in ((a, 0), (b, right)):
            build.store(build.cast(value, self._items_type()), self._at(own, start), self._size)
        self._wait()
        column = build.times(build.low(self._lane, spec.m), self._size)
        row = build.times(build.shifted(self._lane, spec.m.bit_length() - 1), 4 * self._size)
        groups = [group * spec.m * self._size for group in range(spec.k_groups)]
        columns = [self._load(column, right + group) for group in groups]
        element = c.type.element_type
        found = []
        for item in range(spec.acc_items):
            total = build.value("vector.extract", element, c, static_position=f"array<i64: {item}>")
            for group, other in zip(groups, columns, strict=True):
                total = self._add(total, self._load(row, further_rows(item) * self._size + group), other)
            found.append(total)
        self._wait()
        replace(self._op, [build.value("vector.from_elements", self._op.results[0].type, *found)])

    def _items_type(self) -> Any:
        word = "f32" if self._spec.a_type == "f32" else "i32"
        return ir.Type.parse(word if self._words == 1 else f"vector<{self._words}x{word}>")

    def _add(self, total: Any, left: list[Any], right: list[Any]) -> Any:
        build = self._build
        for one, other in zip(left, right, strict=True):
            if self._spec.a_type == "f32":
                total = build.call("llvm.fma.f32", build.f32, one, other, total)
            else:
                total = build.call("llvm.nvvm.idp4a.s.s", build.i32, one, other, total)
        return total

    def _load(self, place: Any, constant: int) -> list[Any]:
        """Return the words of one lane's items."""
        build = self._build
        value = build.load(self._items_type(), self._at(place, constant), self._size)
        if self._words == 1:
            return [value]
        return [
            build.value("vector.extract", build.i32, value, static_position=f"array<i64: {index}>")
            for index in range(self._words)
        ]

    def _at(self, bytes_: Any, constant: int) -> Any:
        return self._build.offset(self._build.offset(self._base, self._build.wide(bytes_)), constant)
