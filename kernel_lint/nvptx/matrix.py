"""AMD's matrix instructions (MFMA) of 16-bit and 8-bit floats as products of NVIDIA's tensor cores.

A wave's product D = A B + C is split by the rows of D that each of its two warps holds. A warp computes the
transposed tiles of its rows with ``mma.sync.m16n8k8`` (PTX ISA, "Warp-level Matrix Fragments"): what is a
column of B for AMD is a row of the left operand there, and AMD's order of a lane's items is met by 4-byte
loads. Operands, and the tiles of C and D, change hands in shared memory. Floats of 8 bits are widened to 16
bits, which hold all of them exactly.

Where a lane's items lie is the emulator's to know (:mod:`kernel_lint.emulator.numerics.mfma_table`); what is
used here of it is checked against it by the tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from flydsl._mlir import ir

from kernel_lint.emulator.numerics.formats import FloatFormat, decode
from kernel_lint.emulator.numerics.mfma import operand_format
from kernel_lint.emulator.numerics.mfma_table import MFMA_SPECS, MfmaSpec
from kernel_lint.nvptx.build import Builder, replace

WARP = 32
# One product of the tensor cores: n by m by k of the transposed tile.
TILE_N, TILE_M, TILE_K = 16, 8, 8
_SMALL = ("fp8", "bf8")
NAMES = frozenset(
    spec.name
    for spec in MFMA_SPECS.values()
    if spec.blocks == 1 and spec.m in (16, 32)
    and (
        (spec.a_type in _SMALL and spec.items == 8)
        or (spec.a_type in ("f16", "bf16") and spec.items in (4, 8))
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Plan:
    """Where things lie in a wave's buffer, in bytes; ``m`` is also the number of columns.

    A lane's items of A and of B lie side by side, lane by lane, A first. Of C and D each warp has its rows,
    of float32, one after another.
    """

    m: int
    k: int
    items: int

    @property
    def stride(self) -> int:
        """From the items of one lane to those of the next."""
        return 2 * self.items

    @property
    def right(self) -> int:
        """Where the items of B begin."""
        return 64 * self.stride

    @property
    def warp(self) -> int:
        """From the tiles of the one warp to those of the other."""
        return self.m // 2 * self.m * 4

    @property
    def size(self) -> int:
        """What a wave needs."""
        return max(2 * self.right, 2 * self.warp)

    def pair(self, index: int, k: int) -> int:
        """Where the items of A (or B) for ``k`` and ``k + 1`` of one row (column) begin."""
        return (index + self.m * (k // self.items)) * self.stride + k % self.items * 2

    def own_row(self, warp: int, row: int) -> int:
        """Return the row of D that is a warp's row number ``row``."""
        return row + 8 * warp if self.m == 16 else row // 4 * 8 + 4 * warp + row % 4


def plan_of(spec: MfmaSpec) -> Plan:
    """Return the plan for one instruction of :data:`NAMES`."""
    return Plan(spec.m, spec.k, spec.items)


def bytes_of(name: str) -> int:
    """Return how much of the buffer a wave needs for one instruction of :data:`NAMES`."""
    return plan_of(MFMA_SPECS[name]).size


def _not_numbers(small: FloatFormat) -> list[int]:
    """Return the codes of an 8-bit format that are NaN."""
    values = decode(torch.arange(256, dtype=torch.uint8), small)
    return [code for code, value in enumerate(values.tolist()) if math.isnan(value)]


class Matrix:
    """Rewrites one matrix instruction.

    ``base`` is the wave's part of the buffer, ``lane`` the number in the wave, ``wait`` inserts a wave's
    barrier. ``target`` decides what 8-bit floats are.
    """

    def __init__(
        self, op: Any, build: Builder, base: Any, lane: Any, wait: Callable[[], None], target: str
    ) -> None:
        self._op, self._build, self._base, self._lane, self._wait = op, build, base, lane, wait
        self._target = target
        self._spec = MFMA_SPECS[op.name]
        self._plan = plan_of(self._spec)
        self._warp = build.shifted(lane, 5)
        inner = build.low(lane, WARP)
        self._inner = inner
        # A fragment's row, and its pair of items (PTX: groupID, threadID_in_group).
        self._group, self._member = build.shifted(inner, 2), build.low(inner, 4)
        self._tiles = build.offset(base, build.wide(build.times(self._warp, self._plan.warp)))

    def rewrite(self) -> None:
        """Put the product in the operation's place."""
        op, build, plan = self._op, self._build, self._plan
        a, b, c = list(op.operands)[:3]
        tiles = range(plan.m // 2 // TILE_M), range(plan.m // TILE_N)
        self._put_rows(self._floats(c))
        self._warp_waits()
        sums = {
            (u, t): [self._get(place) for place in self._corners(u, t)] for u in tiles[0] for t in tiles[1]
        }
        self._wait()
        for which, value, start in (("a", a, 0), ("b", b, plan.right)):
            slot = self._at(self._build.times(self._lane, plan.stride), start)
            build.store(self._halves(which, value), slot, plan.stride)
        self._wait()
        for k in range(0, plan.k, TILE_K):
            left = {t: [self._column(t, half, k) for half in (0, 8)] for t in tiles[1]}
            for u in tiles[0]:
                right = self._row(u, k)
                for t in tiles[1]:
                    sums[u, t] = self._multiply(left[t], right, sums[u, t])
        self._wait()
        for (u, t), values in sums.items():
            for place, value in zip(self._corners(u, t), values, strict=True):
                build.store(value, place, 4)
        self._warp_waits()
        found = [self._get(place) for place in self._places(len(sums) * 4)]
        self._warp_waits()
        result = op.results[0].type
        replace(op, [build.value("vector.from_elements", result, *found)])

    # -- C and D: rows of float32 ----------------------------------------------------

    def _floats(self, value: Any) -> list[Any]:
        build = self._build
        count = self._spec.acc_items
        return [
            build.value("vector.extract", build.f32, value, static_position=f"array<i64: {i}>")
            for i in range(count)
        ]

    def _places(self, count: int) -> list[Any]:
        """Return where the items of AMD's accumulator lie in the warp's rows."""
        plan = self._plan
        column = self._build.low(self._inner, plan.m)
        first = self._build.times(column, 4)
        if plan.m == 16:
            first = self._build.add(
                first, self._build.times(self._build.shifted(self._inner, 4), 4 * plan.m * 4)
            )
        return [self._within(first, row * plan.m * 4) for row in range(count)]

    def _put_rows(self, values: list[Any]) -> None:
        for place, value in zip(self._places(len(values)), values, strict=True):
            self._build.store(value, place, 4)

    def _corners(self, u: int, t: int) -> list[Any]:
        """Return where the four items of a fragment of the accumulator lie."""
        plan = self._plan
        first = self._build.add(
            self._build.times(self._member, 2 * plan.m * 4), self._build.times(self._group, 4)
        )
        return [
            self._within(first, (TILE_M * u + row) * plan.m * 4 + (TILE_N * t + column) * 4)
            for column in (0, 8) for row in (0, 1)
        ]  # fmt: skip

    # -- A and B: pairs of 16 bits ----------------------------------------------------

    def _pairs(self, index: Any, constant: int, k: int) -> Any:
        """Return the pair at ``k + 2 member`` of row ``index``, ``constant`` bytes further."""
        plan, build = self._plan, self._build
        at = self._build.times(index, plan.stride)
        if plan.items == 4:
            at = self._build.add(
                at, self._build.times(self._build.shifted(self._member, 1), plan.m * plan.stride)
            )
            at = self._build.add(at, self._build.times(self._build.low(self._member, 2), 4))
        else:
            at = self._build.add(at, self._build.times(self._member, 4))
        return build.load(build.i32, self._at(at, constant + plan.pair(0, k)), 4)

    def _halves(self, which: str, value: Any) -> Any:
        """Return the items of an operand as 16-bit floats."""
        spec, build = self._spec, self._build
        small = operand_format(spec, which, self._target)
        if small is None:
            return value
        bytes_, words, floats, halves, flags = (
            ir.Type.parse(f"vector<{spec.items}x{name}>") for name in ("i8", "i32", "f32", "f16", "i1")
        )

        def constant(mtype: Any, number: str) -> Any:
            return build.value("arith.constant", mtype, value=f"dense<{number}> : {mtype}")

        def bits(name: str, a: Any, number: int) -> Any:
            return build.value(f"arith.{name}", words, a, constant(words, str(number)))

        codes = build.value("arith.extui", words, build.cast(value, bytes_))
        # Exponent and mantissa go where those of 32 bits meet; the factor makes up for the other bias.
        rest = bits("shli", bits("andi", codes, 0x7F), 23 - small.mantissa_bits)
        signed = build.value("arith.ori", words, rest, bits("shli", bits("andi", codes, 0x80), 24))
        factor = constant(floats, f"{2.0 ** (127 - small.bias):e}")
        wide = build.value("arith.mulf", floats, build.cast(signed, floats), factor)
        found = build.value("arith.truncf", halves, wide)
        for code in _not_numbers(small):
            same = build.value("arith.cmpi", flags, codes, constant(words, str(code)), predicate="0 : i64")
            found = build.value("arith.select", halves, same, constant(halves, "0x7E00"), found)
        return found

    def _column(self, t: int, half: int, k: int) -> Any:
        """Return a pair of column ``16 t + half + group`` of B."""
        plan = self._plan
        return self._pairs(self._group, plan.right + (TILE_N * t + half) * plan.stride, k)

    def _row(self, u: int, k: int) -> Any:
        """Return a pair of the warp's row ``8 u + group`` of A."""
        plan = self._plan
        if plan.m == 16:
            index = self._build.add(self._group, self._build.times(self._warp, 8))
        else:
            high = self._build.times(self._build.shifted(self._group, 2), 8)
            low = self._build.add(self._build.low(self._group, 4), self._build.times(self._warp, 4))
            index = self._build.add(high, low)
        return self._pairs(index, plan.own_row(0, TILE_M * u) * plan.stride, k)

    def _multiply(self, left: list[Any], right: Any, sums: list[Any]) -> list[Any]:
        build, kind = self._build, "bf16" if self._spec.a_type == "bf16" else "f16"
        text = (
            f"mma.sync.aligned.m16n8k8.row.col.f32.{kind}.{kind}.f32 "
            "{$0, $1, $2, $3}, {$4, $5}, {$6}, {$7, $8, $9, $10};"
        )
        struct = ir.Type.parse("!llvm.struct<(f32, f32, f32, f32)>")
        found = build.make(
            "llvm.inline_asm", [struct], [*left, right, *sums],
            asm_string=f'"{text}"', constraints='"=f,=f,=f,=f,r,r,r,f,f,f,f"', has_side_effects="unit",
        ).results[0]  # fmt: skip
        return [
            build.value("llvm.extractvalue", build.f32, found, position=f"array<i64: {i}>") for i in range(4)
        ]

    # -- numbers and places ------------------------------------------------------------

    def _at(self, bytes_: Any, constant: int) -> Any:
        return self._build.offset(self._build.offset(self._base, self._build.wide(bytes_)), constant)

    def _within(self, bytes_: Any, constant: int) -> Any:
        return self._build.offset(self._build.offset(self._tiles, self._build.wide(bytes_)), constant)

    def _get(self, place: Any) -> Any:
        return self._build.load(self._build.f32, place, 4)

    def _warp_waits(self) -> None:
        self._build.make("nvvm.bar.warp.sync", [], [self._build.constant(-1, self._build.i32)])
