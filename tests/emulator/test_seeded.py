"""Kernels that are right give no finding; each of thirty mistakes put into them is caught, at its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.emulator.seeding import run

pytestmark = pytest.mark.flydsl

RIGHT: list[tuple[str, dict[str, Any]]] = [
    *[("elementwise", {"n": n}) for n in (1, 255, 256, 257, 1000)],
    *[("block_sum", {"rows": r, "cols": c}) for r, c in ((1, 1), (3, 256), (2, 700), (5, 63))],
    *[("two_reductions", {"rows": r}) for r in (1, 2, 7)],
    *[("transpose", {"rows": r, "cols": c}) for r, c in ((32, 32), (40, 70), (1, 33), (64, 31))],
    *[("stencil", {"rows": r, "tiles": t}) for r, t in ((1, 1), (2, 3), (3, 2))],
    *[("scan", {"blocks": b}) for b in (1, 2, 5)],
    *[("mfma", {"tiles": t, "depth": d}) for t, d in ((1, 16), (2, 32), (3, 48))],
    *[("vectors", {"vectors": v}) for v in (1, 64, 100)],
    *[("normalize", {"rows": r}) for r in (1, 3, 8)],
    *[("divergent", {"blocks": b}) for b in (1, 3)],
    *[("welford", {"rows": r, "cols": c}) for r, c in ((3, 1000), (2, 7), (1, 1))],
    *[("histogram", {"count": n}) for n in (17, 1000)],
    *[("exchange", {"count": n}) for n in (5, 64)],
    *[("long_scan", {"n": n}) for n in (3, 256, 1000)],
    *[("blocks3d", {"nx": x, "ny": y, "nz": z}) for x, y, z in ((5, 9, 3), (1, 17, 6))],
]

ELEMENTS = {"n": 1000}
SUM = {"rows": 2, "cols": 700}
SOFTMAX = {"rows": 3}
TRANSPOSE = {"rows": 40, "cols": 70}
STENCIL = {"rows": 2, "tiles": 3}
MFMA = {"tiles": 2, "depth": 32}
# kernel, sizes, what is replaced by what, the reason, and a part of the line that is named
# (VALUE: wrong numbers only)
BUGS: list[tuple[str, str, dict[str, Any], str, str, str, str]] = [
    ("tail off by one", "elementwise", ELEMENTS, "if i < n:", "if i <= n:", "OUT_OF_BOUNDS", "X[i]"),
    (
        "store without a guard",
        "elementwise",
        ELEMENTS,
        "if i < n:",
        "if i < n + 24:",
        "OUT_OF_BOUNDS",
        "Y[i] =",
    ),
    (
        "no barrier before the atomics",
        "histogram",
        {"count": 1000},
        "    fx.gpu.barrier()\n    i =",
        "    i =",
        "RACE",
        "",
    ),
    (
        "no barrier at the end of a tile",
        "long_scan",
        {"n": 1000},
        "        fx.gpu.barrier()\n        base",
        "        base",
        "RACE",
        "sums[",
    ),
    (
        "two coordinates confused",
        "blocks3d",
        {"nx": 5, "ny": 9, "nz": 3},
        "Y[z, y, x]",
        "Y[z, x, y]",
        "VALUE",
        "",
    ),
    ("next element", "elementwise", ELEMENTS, "x = X[i]", "x = X[i + 1]", "OUT_OF_BOUNDS", "x = X[i + 1]"),
    (
        "element before the first",
        "elementwise",
        ELEMENTS,
        "x = X[i]",
        "x = X[i - 1]",
        "OUT_OF_BOUNDS",
        "x = X[i - 1]",
    ),
    ("grid rounded down", "elementwise", ELEMENTS, "(n + BLOCK - 1) // BLOCK", "n // BLOCK", "VALUE", ""),
    (
        "blocks overlap",
        "elementwise",
        ELEMENTS,
        "fx.block_idx.x * BLOCK +",
        "fx.block_idx.x * 100 +",
        "VALUE",
        "",
    ),
    (
        "all blocks write one place",
        "block_sum",
        SUM,
        "Y[row] = parts[0]",
        "Y[0] = parts[0]",
        "RACE",
        "Y[0] = parts[0]",
    ),
    (
        "no barrier after the parts",
        "block_sum",
        SUM,
        "    fx.gpu.barrier()  # all parts are there\n",
        "",
        "RACE",
        "parts[tid + half]",
    ),
    (
        "no barrier between levels",
        "block_sum",
        SUM,
        "        fx.gpu.barrier()  # this level is done\n",
        "",
        "RACE",
        "parts[tid + half]",
    ),
    (
        "barrier in a branch",
        "block_sum",
        SUM,
        "        fx.gpu.barrier()  # this level",
        "            fx.gpu.barrier()  # this level",
        "BARRIER",
        "this level is done",
    ),
    (
        "half the parts missing",
        "block_sum",
        SUM,
        "    parts[tid] = total\n",
        "    if tid < 128:\n        parts[tid] = total\n",
        "UNINITIALIZED",
        "parts[tid + half]",
    ),
    (
        "tree starts too wide",
        "block_sum",
        SUM,
        "half = fx.Int32(BLOCK // 2)",
        "half = fx.Int32(BLOCK)",
        "OUT_OF_BOUNDS",
        "parts[tid + half]",
    ),
    (
        "stride of the wrong block",
        "block_sum",
        SUM,
        "range(tid, cols, BLOCK)",
        "range(tid, cols, BLOCK + 1)",
        "VALUE",
        "",
    ),
    (
        "LDS of half the size",
        "block_sum",
        SUM,
        "fx.Array[fx.Float32, BLOCK, 16]",
        "fx.Array[fx.Float32, BLOCK // 2, 16]",
        "OUT_OF_BOUNDS",
        "parts[tid] = total",
    ),
    (
        "slots reused at once",
        "two_reductions",
        SOFTMAX,
        "    fx.gpu.barrier()  # maxima have been read\n",
        "",
        "RACE",
        "# second use",
    ),
    (
        "maxima read too early",
        "two_reductions",
        SOFTMAX,
        "    fx.gpu.barrier()  # maxima are there\n",
        "",
        "RACE",
        "peak = fx.max(fx.max(slots[0]",
    ),
    (
        "sums read too early",
        "two_reductions",
        SOFTMAX,
        "    fx.gpu.barrier()  # sums are there\n",
        "",
        "RACE",
        "total = slots[0]",
    ),
    (
        "every lane writes the slot",
        "two_reductions",
        SOFTMAX,
        "if tid % WAVE == 0:\n        slots[tid // WAVE] = peak",
        "if tid % WAVE == 0:\n        slots[0] = peak",
        "RACE",
        "slots[0] = peak",
    ),
    (
        "butterfly without a step",
        "two_reductions",
        SOFTMAX,
        "value = value + fx.shuffle_xor(value, step, WAVE)",
        "value = value + fx.shuffle_xor(value, step // 2, WAVE)",
        "VALUE",
        "",
    ),
    (
        "tile read before it is there",
        "transpose",
        TRANSPOSE,
        "    fx.gpu.barrier()  # the tile is there\n",
        "",
        "RACE",
        "value = tile[",
    ),
    (
        "another pitch when reading",
        "transpose",
        TRANSPOSE,
        "tile[column * PITCH + r]",
        "tile[column * TILE + r]",
        "VALUE",
        "",
    ),
    (
        "tile too small for its pitch",
        "transpose",
        TRANSPOSE,
        "fx.Array[fx.Float32, TILE * PITCH, 16]",
        "fx.Array[fx.Float32, TILE * TILE, 16]",
        "OUT_OF_BOUNDS",
        "tile[r * PITCH + column] =",
    ),
    (
        "rows and columns confused",
        "transpose",
        TRANSPOSE,
        "(r0 + r < rows) & (c0 + column < cols)",
        "(r0 + r < cols) & (c0 + column < rows)",
        "UNINITIALIZED",
        "value = tile[",
    ),
    (
        "line overwritten while read",
        "stencil",
        STENCIL,
        "        fx.gpu.barrier()  # the line has been read\n",
        "",
        "RACE",
        "line[",
    ),
    (
        "line read while written",
        "stencil",
        STENCIL,
        "        fx.gpu.barrier()  # the line is there\n",
        "",
        "RACE",
        "total = line[tid]",
    ),
    (
        "stale line of the first tile",
        "stencil",
        STENCIL,
        "line[tid + 1] = X[row, first + tid]",
        "line[tid + 1] = X[row, tid]",
        "VALUE",
        "",
    ),
    (
        "no right neighbour",
        "stencil",
        STENCIL,
        "if tid == BLOCK - 1:",
        "if tid == BLOCK:",
        "UNINITIALIZED",
        "total = line[tid]",
    ),
    (
        "shuffle in the wrong direction",
        "scan",
        {"blocks": 2},
        "fx.shuffle_up",
        "fx.shuffle_down",
        "VALUE",
        "",
    ),
    ("shuffle of half a wave", "scan", {"blocks": 2}, "1 << step, WAVE)", "1 << step, 32)", "VALUE", ""),
    (
        "wrong lane in the comparison",
        "scan",
        {"blocks": 2},
        "lane >= (1 << step)",
        "lane > (1 << step)",
        "VALUE",
        "",
    ),
    ("accumulator never set", "mfma", MFMA, "    total.fill(0)\n", "", "UNINITIALIZED", "fx.gemm(atom"),
    (
        "operands swapped",
        "mfma",
        MFMA,
        "fx.gemm(atom, total, a, b, total)",
        "fx.gemm(atom, total, b, a, total)",
        "VALUE",
        "",
    ),
    (
        "groups of lanes ignored",
        "mfma",
        MFMA,
        "b[j] = B[k * 16 + group * 4 + j, row]",
        "b[j] = B[k * 16 + j, row]",
        "VALUE",
        "",
    ),
    (
        "vectors off by one element",
        "vectors",
        {"vectors": 100},
        "launch(x, y, vectors)",
        "launch(x[1:], y, vectors - 1)",
        "MISALIGNED",
        "fx.copy(atom, fx.slice(source",
    ),
    (
        "one vector too many",
        "vectors",
        {"vectors": 100},
        "launch(x, y, vectors)",
        "launch(x, y, vectors + 1)",
        "OUT_OF_BOUNDS",
        "fx.copy(atom",
    ),
    (
        "division of zero by zero",
        "normalize",
        {"rows": 3},
        "1e-6, rows",
        "0.0, rows",
        "NONFINITE",
        "y = x / size",
    ),
    (
        "square root of a negative",
        "normalize",
        {"rows": 3},
        "total / 64.0 + eps",
        "total / 64.0 - 1.0",
        "NONFINITE",
        "size = fx.sqrt",
    ),
]


@pytest.mark.parametrize(
    ("name", "config"), RIGHT, ids=[f"{n}-{'-'.join(map(str, c.values()))}" for n, c in RIGHT]
)
def test_right_kernel_gives_no_finding(name: str, config: dict[str, Any], tmp_path: Path) -> None:
    outcome = run(tmp_path, name, config)

    assert outcome.difference < 1e-4
    assert outcome.findings == ()


@pytest.mark.parametrize(
    ("title", "name", "config", "old", "new", "reason", "line"), BUGS, ids=[b[0] for b in BUGS]
)
def test_mistake_is_caught(
    title: str, name: str, config: dict[str, Any], old: str, new: str, reason: str, line: str, tmp_path: Path
) -> None:
    outcome = run(tmp_path, name, config, old, new)

    if reason == "VALUE":
        assert outcome.difference > 1e-2
        return
    errors = [(r, text) for r, severity, text in outcome.findings if severity == "error"]
    assert any(r == reason and line in text for r, text in errors), outcome.findings
