"""The dense matrix instructions (MFMA) of gfx908 to gfx950: shapes, operand types, and which lane holds what.

Sources (short names: see formats.py): the instruction tables of [CDNA3] 7.1 and [CDNA4] 7.1.2; the layout
formulas of [CDNA4] 7.1.4 ("General input and output layout"), which for every instruction up to gfx942 are
those of AMD's matrix instruction calculator (github.com/ROCm/amd_matrix_instruction_calculator, class
InstCalcGfx9); the tables of [CDNA4] 7.1.5.1 for 8-bit and smaller operands.
"""

from __future__ import annotations

import functools
import math
import re
from dataclasses import dataclass

from kernel_lint.emulator.numerics.formats import (
    BF6_E3M2,
    BF8_E5M2,
    FP4_E2M1,
    FP6_E2M3,
    FP8_E4M3,
    FloatFormat,
)

WAVE = 64

F8F6F4_FORMATS: tuple[FloatFormat, ...] = (FP8_E4M3, BF8_E5M2, FP6_E2M3, BF6_E3M2, FP4_E2M1)
"""What CBSZ (matrix A) and BLGP (matrix B) select in the F8F6F4 instructions ([CDNA4] 7.1.5)."""

_BITS = {"f64": 64, "f32": 32, "xf32": 32, "f16": 16, "bf16": 16, "i8": 8, "fp8": 8, "bf8": 8}


@dataclass(frozen=True, slots=True)
class MfmaSpec:
    """One instruction, D[b] = C[b] + A[b] x B[b] for each of `blocks` blocks.

    name: as in MLIR ("rocdl.mfma..."). m, n, k: rows, columns and depth of one block. a_type, b_type:
    "f64", "f32", "xf32", "f16", "bf16", "i8", "fp8", "bf8", or "f8f6f4" for a type chosen by CBSZ and BLGP.
    acc_type: "f32", "i32" or "f64". gfx: the targets that have it.
    """

    name: str
    m: int
    n: int
    k: int
    blocks: int
    a_type: str
    b_type: str
    acc_type: str
    gfx: tuple[str, ...]

    @property
    def scaled(self) -> bool:
        """Whether it takes block scales."""
        return ".scale." in self.name

    @property
    def k_groups(self) -> int:
        """How many groups of lanes share the depth: K_L = k / k_groups items lie in one lane ([CDNA4]
        7.1.4.1).
        """
        return WAVE // (self.m * self.blocks)

    @property
    def items(self) -> int:
        """Elements of A (and as many of B) that one lane holds: K_L."""
        return self.k // self.k_groups

    @property
    def acc_items(self) -> int:
        """Elements of C and D that one lane holds."""
        return self.m * self.n * self.blocks // WAVE

    def operand_bits(self, operand: str, fmt: FloatFormat | None = None) -> int:
        """Width of an element of "a" or "b"; fmt: the format that CBSZ or BLGP chose, for F8F6F4."""
        if fmt is not None:
            return fmt.bits
        return _BITS[self.a_type if operand == "a" else self.b_type]

    def registers(self, operand: str, fmt: FloatFormat | None = None) -> int:
        """32-bit registers a lane needs for "a", "b", "c" or "d"."""
        if operand in ("c", "d"):
            return self.acc_items * (2 if self.acc_type == "f64" else 1)
        return self.items * self.operand_bits(operand, fmt) // 32

    def chunk(self, bits: int) -> int:
        """How many consecutive values of k lie side by side in one lane.

        All of a lane's items, but for 32 items of 8 bits: two runs of 16, half the depth apart ([CDNA4]
        7.1.5.1).
        """
        return 16 if bits == 8 and self.items == 32 else self.items

    @property
    def output_layout(self) -> OutputLayout:
        """The constants of [CDNA4] 7.1.4.2."""
        height = 1 if self.acc_type == "f64" else 4
        blocks_per_item = math.ceil(WAVE / (self.n * self.m // height))
        rows_per_item = WAVE // blocks_per_item // self.n
        groups = self.m // (height * rows_per_item)
        return OutputLayout(height, blocks_per_item, rows_per_item, groups)


@dataclass(frozen=True, slots=True)
class OutputLayout:
    """H, B_I, M_I and G of [CDNA4] 7.1.4.2: how rows and blocks of D spread over items and lanes."""

    height: int
    blocks_per_item: int
    rows_per_item: int
    groups: int


@dataclass(frozen=True, slots=True)
class Element:
    """One element of a matrix: its block, and row and column (A: row, k; B: k, column; C and D: row,
    column).
    """

    block: int
    row: int
    column: int


def input_place(spec: MfmaSpec, block: int, index: int, k: int, bits: int) -> tuple[int, int]:
    """(lane, item) of A[block, index, k], and of B[block, k, index]: m equals n in every MFMA.

    bits: width of the element, from MfmaSpec.operand_bits. Source: [CDNA4] 7.1.4.1, and 7.1.5.1 for the
    runs of 16.
    """
    chunk = spec.chunk(bits)
    run, within = divmod(k, chunk)
    half, group = divmod(run, spec.k_groups)
    return index + spec.m * (block + spec.blocks * group), half * chunk + within


def output_place(spec: MfmaSpec, block: int, row: int, column: int) -> tuple[int, int]:
    """(lane, item) of C[block, row, column] and D. Source: [CDNA4] 7.1.4.2.

    Where several blocks and several groups of rows share one item, in f64 4x4x4 alone, that text puts the
    rows of a block side by side. AMD's calculator puts the blocks side by side, so that D lies as B does,
    and code that runs on the hardware relies on it (libparanumal and neko, their f64 4x4x4 kernels): so it
    is done here.
    """
    out = spec.output_layout
    group, rest = divmod(row, out.height * out.rows_per_item)
    band, line = divmod(rest, out.height)
    item = line + out.height * (group + out.groups * (block // out.blocks_per_item))
    lane = column + spec.n * (block % out.blocks_per_item + out.blocks_per_item * band)
    return lane, item


@functools.lru_cache(maxsize=128)
def lane_map(spec: MfmaSpec, operand: str, bits: int | None = None) -> tuple[tuple[Element, ...], ...]:
    """map[lane][item]: the matrix element that the item of a lane holds, for "a", "b", "c" or "d".

    bits: width of the elements of A or B where CBSZ or BLGP chooses it; else the instruction's own.
    """
    places: dict[tuple[int, int], Element] = {}
    if operand in ("c", "d"):
        for block in range(spec.blocks):
            for row in range(spec.m):
                for column in range(spec.n):
                    places[output_place(spec, block, row, column)] = Element(block, row, column)
        items = spec.acc_items
    else:
        width = bits or spec.operand_bits(operand)
        for block in range(spec.blocks):
            for index in range(spec.m):
                for k in range(spec.k):
                    element = Element(block, index, k) if operand == "a" else Element(block, k, index)
                    places[input_place(spec, block, index, k, width)] = element
        items = spec.items
    return tuple(tuple(places[lane, item] for item in range(items)) for lane in range(WAVE))


_GFX9 = ("gfx908", "gfx90a", "gfx940", "gfx941", "gfx942", "gfx950")
_GFX90A = _GFX9[1:]
_GFX940 = _GFX9[2:]
_GFX942_ONLY = _GFX9[2:5]
_GFX950 = ("gfx950",)
_OLD = ("gfx908", "gfx90a")

_SHAPES: tuple[tuple[tuple[str, ...], str], ...] = (
    (_GFX9, "f32.32x32x1f32 f32.16x16x1f32 f32.4x4x1f32 f32.32x32x2f32 f32.16x16x4f32"),
    (_GFX9, "f32.32x32x4f16 f32.16x16x4f16 f32.4x4x4f16 f32.32x32x8f16 f32.16x16x16f16"),
    (_OLD, "f32.32x32x2bf16 f32.16x16x2bf16 f32.4x4x2bf16 f32.32x32x4bf16 f32.16x16x8bf16"),
    (
        _GFX90A,
        "f32.32x32x4bf16.1k f32.16x16x4bf16.1k f32.4x4x4bf16.1k f32.32x32x8bf16.1k f32.16x16x16bf16.1k",
    ),
    (_GFX9, "i32.32x32x4i8 i32.16x16x4i8 i32.4x4x4i8"),
    (_OLD, "i32.32x32x8i8 i32.16x16x16i8"),
    (_GFX940, "i32.32x32x16.i8 i32.16x16x32.i8"),
    (_GFX90A, "f64.16x16x4f64 f64.4x4x4f64"),
    (_GFX942_ONLY, "f32.16x16x8.xf32 f32.32x32x4.xf32"),
    (_GFX940, "f32.16x16x32.fp8.fp8 f32.16x16x32.fp8.bf8 f32.16x16x32.bf8.fp8 f32.16x16x32.bf8.bf8"),
    (_GFX940, "f32.32x32x16.fp8.fp8 f32.32x32x16.fp8.bf8 f32.32x32x16.bf8.fp8 f32.32x32x16.bf8.bf8"),
    (_GFX950, "f32.16x16x32.f16 f32.16x16x32.bf16 f32.32x32x16.f16 f32.32x32x16.bf16"),
    (_GFX950, "i32.16x16x64.i8 i32.32x32x32.i8"),
    (_GFX950, "scale.f32.16x16x128.f8f6f4 scale.f32.32x32x64.f8f6f4"),
)

_NAME = re.compile(r"(?:scale\.)?(f32|i32|f64)\.(\d+)x(\d+)x(\d+)\.?([a-z][a-z0-9]*)(?:\.(fp8|bf8|1k))?$")
_BLOCKS = {
    ("f32", 32, 1): 2, ("f32", 16, 1): 4, ("f32", 4, 1): 16,
    ("f16", 32, 4): 2, ("f16", 16, 4): 4, ("f16", 4, 4): 16,
    ("bf16", 32, 2): 2, ("bf16", 16, 2): 4, ("bf16", 4, 2): 16,
    ("i8", 32, 4): 2, ("i8", 16, 4): 4, ("i8", 4, 4): 16,
    ("f64", 4, 4): 4,
}  # fmt: skip
_BLOCKS_1K = {(32, 4): 2, (16, 4): 4, (4, 4): 16}
"""Shapes that work on several blocks (the "2B", "4B", "16B" of the ISA's names); all others on one."""


def _spec(name: str, gfx: tuple[str, ...]) -> MfmaSpec:
    match = _NAME.match(name)
    assert match is not None, name
    acc, m, n, k, a_type, suffix = match.groups()
    key = (int(m), int(k))
    blocks = _BLOCKS_1K.get(key, 1) if suffix == "1k" else _BLOCKS.get((a_type, *key), 1)
    b_type = suffix if suffix in ("fp8", "bf8") else a_type
    return MfmaSpec(f"rocdl.mfma.{name}", int(m), int(n), int(k), blocks, a_type, b_type, acc, gfx)


MFMA_SPECS: dict[str, MfmaSpec] = {
    spec.name: spec for gfx, names in _SHAPES for spec in (_spec(name, gfx) for name in names.split())
}
