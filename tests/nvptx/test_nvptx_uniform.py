"""Which conditions divide a wave: what depends on the thread's number is worked out, loops are followed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("flydsl")

from flydsl._mlir import ir

from kernel_lint.nvptx.uniform import Uniformity

_HEAD = """
module attributes {gpu.container_module} { gpu.module @m {
  gpu.func @k(%p: !llvm.ptr<1>, %n: i32) kernel {
    %x = gpu.thread_id x
    %t = arith.index_cast %x : index to i32
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c31 = arith.constant 31 : i32
    %c32 = arith.constant 32 : i32
    %c64 = arith.constant 64 : i32
    %c128 = arith.constant 128 : i32
    %b = gpu.block_id x
    %i = arith.index_cast %b : index to i32
"""
_TAIL = "\n    gpu.return } } }"
_MARK = "%m, %ok = gpu.shuffle xor %n, %c32, %c64 : i32"


def _walk(op: Any) -> Iterator[Any]:
    yield op
    for region in op.regions:
        for block in region.blocks:
            for view in block.operations:
                yield from _walk(view.operation)


def together(body: str, block: tuple[int, int, int] = (256, 1, 1), group: int = 64) -> bool:
    """Whether the threads of each group get to the marked operation together."""
    with ir.Context():
        module = ir.Module.parse(_HEAD + body.replace("MARK", _MARK) + _TAIL)
        (marked,) = [op for op in _walk(module.operation) if op.name == "gpu.shuffle"]
        return Uniformity(block, group).reached_together(marked)


def under(condition: str, **given: Any) -> bool:
    return together(f"{condition}\n scf.if %c {{ MARK }}", **given)


SHARED = {
    "no condition": "%c = arith.constant true",
    "the wave's number": "%w = arith.divsi %t, %c64 : i32  %c = arith.cmpi eq, %w, %c0 : i32",
    "by a shift": (
        "%s = arith.constant 6 : i32  %w = arith.shrui %t, %s : i32  %c = arith.cmpi eq, %w, %c1 : i32"
    ),
    "the first two waves": "%c = arith.cmpi ult, %t, %c128 : i32",
    "all of a block": "%l = arith.constant 256 : i32  %c = arith.cmpi slt, %t, %l : i32",
    "an argument": "%c = arith.cmpi slt, %i, %n : i32",
    "the wave's number and an argument": (
        "%w = arith.divui %t, %c64 : i32  %r = arith.addi %w, %i : i32  %c = arith.cmpi slt, %r, %n : i32"
    ),
    "lane zero of a lane": "%q = arith.remui %t, %c1 : i32  %c = arith.cmpi eq, %q, %c0 : i32",
    "a vector of shared values": (
        "%v = vector.broadcast %n : i32 to vector<2xi32>  "
        "%e = vector.extract %v[1] : i32 from vector<2xi32>  %c = arith.cmpi slt, %e, %i : i32"
    ),
    "a first lane": "%f = rocdl.readfirstlane %t : i32  %c = arith.cmpi eq, %f, %n : i32",
    "select": (
        "%w = arith.cmpi slt, %t, %c64 : i32  %s = arith.select %w, %c0, %c1 : i32  "
        "%c = arith.cmpi eq, %s, %c0 : i32"
    ),
}
DIVIDED = {
    "a lane": "%l = arith.remui %t, %c64 : i32  %c = arith.cmpi eq, %l, %c0 : i32",
    "half a wave": "%c = arith.cmpi ult, %t, %c32 : i32",
    "an argument and a thread": "%c = arith.cmpi slt, %t, %n : i32",
    "what was loaded as a vector": (
        "%a = memref.alloca() : memref<4xi32>  %v = vector.load %a[%b] : memref<4xi32>, vector<1xi32>  "
        "%e = vector.extract %v[0] : i32 from vector<1xi32>  %c = arith.cmpi slt, %e, %n : i32"
    ),
    "what was loaded": "%v = llvm.load %p : !llvm.ptr<1> -> i32  %c = arith.cmpi slt, %v, %n : i32",
}


@pytest.mark.parametrize("condition", SHARED.values(), ids=SHARED)
def test_conditions_that_a_wave_shares(condition: str) -> None:
    assert under(condition)


@pytest.mark.parametrize("condition", DIVIDED.values(), ids=DIVIDED)
def test_conditions_that_divide_a_wave(condition: str) -> None:
    assert not under(condition)


def test_the_group_decides() -> None:
    assert under("%c = arith.cmpi ult, %t, %c32 : i32", group=32)
    assert not under("%c = arith.cmpi ult, %t, %c64 : i32", group=256)
    assert not under("%f = rocdl.readfirstlane %t : i32  %c = arith.cmpi eq, %f, %n : i32", group=256)


def test_other_axes_count_in_the_order_of_threads() -> None:
    row = "%y = gpu.thread_id y  %r = arith.index_cast %y : index to i32  %c = arith.cmpi eq, %r, %c1 : i32"
    assert under(row, block=(64, 4, 1))
    assert under(row, block=(128, 2, 1))
    assert not under(row, block=(32, 8, 1))


def test_an_else_branch_and_a_nested_condition() -> None:
    wave = "%w = arith.divsi %t, %c64 : i32  %c = arith.cmpi eq, %w, %c0 : i32"
    assert together(f"{wave}\n scf.if %c {{ }} else {{ scf.if %c {{ MARK }} }}")
    lane = "%d = arith.cmpi eq, %t, %c0 : i32"
    assert not together(f"{wave}\n {lane}\n scf.if %d {{ scf.if %c {{ MARK }} }}")


def loop(
    high: str, step: str = "%c1", inside: str = "%z = arith.addi %a, %c1 : i32", start: str = "%c0"
) -> str:
    return f"""
    %l = arith.cmpi slt, %c0, %c1 : i32
    %e = scf.for %j = %c0 to {high} step {step} iter_args(%a = {start}) -> (i32) : i32 {{
      {inside}
      scf.yield %z : i32
    }}
    %c = arith.cmpi slt, %e, %n : i32
    scf.if %c {{ MARK }}"""


def test_what_a_loop_carries_is_shared_where_all_that_goes_in_is() -> None:
    assert together(loop("%n"))
    assert not together(loop("%t"))
    assert not together(loop("%n", start="%t"))
    # The first look takes %a for shared; only the end of the loop's body tells.
    assert not together(loop("%n", inside="%u = arith.addi %a, %c1 : i32 %z = arith.addi %u, %t : i32"))


def test_inside_a_loop() -> None:
    assert together("scf.for %j = %c0 to %n step %c1 : i32 { MARK }")
    assert not together("scf.for %j = %t to %n step %c1 : i32 { MARK }")
    assert together(
        "scf.for %j = %c0 to %n step %c1 : i32 { %c = arith.cmpi eq, %j, %c0 : i32 scf.if %c { MARK } }"
    )


def test_a_value_first_seen_through_a_loop_that_divides() -> None:
    """Inside the loop %u was taken for shared while %a was being looked at; afterwards it is not."""
    assert not together(
        """
        scf.for %j = %c0 to %n step %c1 iter_args(%a = %c0) -> (i32) : i32 {
          %u = arith.muli %a, %c31 : i32
          %c = arith.cmpi eq, %u, %c0 : i32
          scf.if %c { MARK }
          %z = arith.addi %u, %t : i32
          scf.yield %z : i32
        }"""
    )


def _while(next_value: str) -> str:
    return f"""
    %e = scf.while (%a = %n) : (i32) -> i32 {{
      %c = arith.cmpi sgt, %a, %c0 : i32
      scf.condition(%c) %a : i32
    }} do {{
    ^bb0(%v: i32):
      MARK
      %z = arith.subi %v, {next_value} : i32
      scf.yield %z : i32
    }}"""


def test_a_while_loop() -> None:
    assert together(_while("%c1"))
    assert not together(_while("%t"))


def test_unsigned_and_signed_comparison_of_what_went_below_zero() -> None:
    below = "%d = arith.subi %t, %c64 : i32"
    # Signed, the first wave is below zero; unsigned it is huge, and waves 1 and 2 are below 128.
    assert under(f"{below}  %c = arith.cmpi slt, %d, %c0 : i32")
    assert under(f"{below}  %c = arith.cmpi ult, %d, %c128 : i32")
    assert not under(f"{below}  %c = arith.cmpi ult, %d, %c31 : i32")
