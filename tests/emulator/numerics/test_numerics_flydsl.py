"""The lane maps against the thread-value layouts that FlyDSL's matrix and copy atoms publish.

A layout is evaluated here by the rule of its own notation: shape and stride trees, a coordinate split over
the leaves first-fastest, offset = sum of coordinate * stride; the offset of an atom's matrix counts column
by column.
"""

from __future__ import annotations

import ast
import re
from typing import Any

import pytest
import torch

from kernel_lint.emulator.numerics.conversions import SCALED_CONVERSIONS
from kernel_lint.emulator.numerics.lanes import transpose_read
from kernel_lint.emulator.numerics.mfma import MFMA_SPECS
from kernel_lint.emulator.numerics.mfma_table import lane_map

pytestmark = pytest.mark.flydsl

ATOMS = [
    ("f32", 32, 2, "f32.32x32x2f32"),
    ("f32", 16, 4, "f32.16x16x4f32"),
    ("f16", 32, 8, "f32.32x32x8f16"),
    ("f16", 16, 16, "f32.16x16x16f16"),
    ("f16", 16, 32, "f32.16x16x32.f16"),
    ("f16", 32, 16, "f32.32x32x16.f16"),
    ("bf16", 32, 4, "f32.32x32x4bf16"),
    ("bf16", 32, 8, "f32.32x32x8bf16.1k"),
    ("bf16", 16, 8, "f32.16x16x8bf16"),
    ("bf16", 16, 16, "f32.16x16x16bf16.1k"),
    ("bf16", 16, 32, "f32.16x16x32.bf16"),
    ("bf16", 32, 16, "f32.32x32x16.bf16"),
    ("fp8", 16, 32, "f32.16x16x32.fp8.fp8"),
    ("fp8", 32, 16, "f32.32x32x16.fp8.fp8"),
    ("i8", 16, 32, "i32.16x16x32.i8"),
    ("i8", 32, 16, "i32.32x32x16.i8"),
]

Tree = Any


def parse(layout: object) -> tuple[Tree, Tree]:
    """Shape and stride trees of a printed "!fly.layout<shape:stride>"."""
    match = re.search(r"layout<(.*):(.*)>", str(layout))
    assert match is not None, layout
    return ast.literal_eval(match[1]), ast.literal_eval(match[2])


def size(shape: Tree) -> int:
    if isinstance(shape, int):
        return shape
    total = 1
    for part in shape:
        total *= size(part)
    return total


def offset(shape: Tree, stride: Tree, coordinate: int) -> int:
    if isinstance(shape, int):
        return coordinate * stride
    total = 0
    for part, step in zip(shape, stride, strict=True):
        total += offset(part, step, coordinate % size(part))
        coordinate //= size(part)
    return total


def positions(layout: object, rows: int) -> list[list[tuple[int, int]]]:
    """[thread][value]: (row, column) in a matrix of `rows` rows, counted column by column."""
    (threads, values), (thread_stride, value_stride) = parse(layout)
    return [
        [
            divmod(offset(threads, thread_stride, t) + offset(values, value_stride, v), rows)[::-1]
            for v in range(size(values))
        ]
        for t in range(size(threads))
    ]


def element_types() -> dict[str, Any]:
    from flydsl._mlir import ir

    return {
        "f32": ir.F32Type.get(),
        "f16": ir.F16Type.get(),
        "bf16": ir.BF16Type.get(),
        "fp8": ir.Float8E4M3FNUZType.get(),
        "ocp": ir.Float8E4M3FNType.get(),
        "fp4": ir.Float4E2M1FNType.get(),
        "i8": ir.IntegerType.get_signless(8),
        "i32": ir.IntegerType.get_signless(32),
    }


def atom_layouts(kind: str, mn: int, k: int) -> tuple[object, object, object]:
    from flydsl._mlir import ir
    from flydsl._mlir._mlir_libs import _mlirDialectsFly as fly
    from flydsl._mlir._mlir_libs import _mlirDialectsFlyROCDL as fly_rocdl

    with ir.Context(), ir.Location.unknown():
        types = element_types()
        acc = types["i32" if kind == "i8" else "f32"]
        op = fly_rocdl.MmaOpCDNA4_MFMAScaleType if kind in ("ocp", "fp4") else fly_rocdl.MmaOpCDNA3_MFMAType
        atom = fly.MmaAtomType.get(op.get(mn, mn, k, types[kind], types[kind], acc))
        return str(atom.tv_layout_a), str(atom.tv_layout_b), str(atom.tv_layout_c)


@pytest.mark.parametrize(("kind", "mn", "k", "name"), ATOMS)
def test_atoms_place_their_elements_where_the_instruction_expects_them(
    kind: str, mn: int, k: int, name: str
) -> None:
    spec = MFMA_SPECS[f"rocdl.mfma.{name}"]
    a, b, c = (positions(layout, mn) for layout in atom_layouts(kind, mn, k))
    # FlyDSL gives B as (column, k).
    assert a == [[(e.row, e.column) for e in lane] for lane in lane_map(spec, "a")]
    assert b == [[(e.column, e.row) for e in lane] for lane in lane_map(spec, "b")]
    assert c == [[(e.row, e.column) for e in lane] for lane in lane_map(spec, "c")]


@pytest.mark.parametrize(("mn", "k"), [(16, 128), (32, 64)])
def test_the_scaled_atom_agrees_for_fp4(mn: int, k: int) -> None:
    spec = MFMA_SPECS[f"rocdl.mfma.scale.f32.{mn}x{mn}x{k}.f8f6f4"]
    a, b, c = (positions(layout, mn) for layout in atom_layouts("fp4", mn, k))
    assert a == [[(e.row, e.column) for e in lane] for lane in lane_map(spec, "a", 4)]
    assert b == [[(e.column, e.row) for e in lane] for lane in lane_map(spec, "b", 4)]
    assert c == [[(e.row, e.column) for e in lane] for lane in lane_map(spec, "c")]


@pytest.mark.parametrize(("mn", "k"), [(16, 128), (32, 64)])
def test_the_scaled_atom_differs_for_fp8_by_one_reordering_of_k(mn: int, k: int) -> None:
    """The atom publishes 32 consecutive k a lane, the ISA two runs of 16 half the depth apart.

    The same reordering in A and B leaves an unscaled product alone; with scales that differ along k, or
    with one operand of fewer bits, it does not. Kernels that load fp8 for real block scales follow the ISA
    by hand.
    """
    spec = MFMA_SPECS[f"rocdl.mfma.scale.f32.{mn}x{mn}x{k}.f8f6f4"]
    a, b, _ = (positions(layout, mn) for layout in atom_layouts("ocp", mn, k))
    isa = lane_map(spec, "a", 8)
    reordered = {
        p[1]: e.column for lane, own in zip(a, isa, strict=True) for p, e in zip(lane, own, strict=True)
    }
    assert sorted(reordered.values()) == list(range(k))
    assert any(fly != hardware for fly, hardware in reordered.items())
    assert a == b
    for lane, own in zip(a, isa, strict=True):
        assert [(row, reordered[column]) for row, column in lane] == [(e.row, e.column) for e in own]


@pytest.mark.parametrize(("bits", "total"), [(16, 64), (8, 64), (4, 64), (6, 96)])
def test_transposing_reads_deliver_what_the_copy_atom_publishes(bits: int, total: int) -> None:
    from flydsl._mlir import ir
    from flydsl._mlir._mlir_libs import _mlirDialectsFly as fly
    from flydsl._mlir._mlir_libs import _mlirDialectsFlyROCDL as fly_rocdl

    with ir.Context(), ir.Location.unknown():
        op = fly_rocdl.CopyOpCDNA4LdsReadTransposeType.get(bits, total)
        atom = fly.CopyAtomType.get(op, bits)
        source, target = positions(atom.tv_layout_src, 1), positions(atom.tv_layout_dst, 1)
    where = {position: (t, v) for t, row in enumerate(source) for v, (_, position) in enumerate(row)}

    def elements(lane: torch.Tensor) -> list[int]:
        whole = int.from_bytes(bytes(lane.tolist()), "little")
        return [(whole >> bits * i) % (1 << bits) for i in range(total // bits)]

    data = torch.randint(0, 256, (64, total // 8), generator=torch.Generator().manual_seed(2)).to(torch.uint8)
    result = transpose_read(data, bits)
    for lane in range(64):
        base = lane // 16 * 16
        expected = []
        for _, position in target[lane % 16]:
            thread, value = where[position]
            expected.append(elements(data[base + thread])[value])
        assert elements(result[lane]) == expected


def rocdl_operations() -> set[str]:
    from flydsl._mlir.dialects import _rocdl_ops_gen

    classes = vars(_rocdl_ops_gen).values()
    return {str(c.OPERATION_NAME) for c in classes if isinstance(c, type) and hasattr(c, "OPERATION_NAME")}


def test_every_dense_matrix_instruction_of_the_dialect_is_known() -> None:
    assert {name for name in rocdl_operations() if name.startswith("rocdl.mfma")} == set(MFMA_SPECS)


def test_every_scaled_conversion_exists_in_the_dialect() -> None:
    assert {f"rocdl.{name}" for name in SCALED_CONVERSIONS} <= rocdl_operations()
