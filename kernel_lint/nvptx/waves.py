"""AMD's operations across the 64 lanes of a wave, on warps of 32.

A wave is two warps. What stays inside a warp is a shuffle there; what crosses goes through shared memory
between two barriers of the wave's 64 threads (PTX ``bar.sync`` with a number of its own). All threads of the
wave must get there, so such an operation must not stand under a condition.
"""

from __future__ import annotations

from typing import Any

from flydsl._mlir import ir

from kernel_lint.nvptx.build import Builder, replace
from kernel_lint.nvptx.errors import refuse
from kernel_lint.nvptx.facts import Facts

WAVE, WARP = 64, 32
EXCHANGE = "__wave_exchange"
# PTX has 16 barriers; number 0 is the workgroup's.
_WAVE_BARRIERS = 15
HANDLED = frozenset({"gpu.shuffle", "rocdl.ds_bpermute", "rocdl.readfirstlane"})
# Hints to AMD's scheduler, and waits that a GPU with in-order memory semantics per thread does not need.
DROPPED = frozenset(
    {"rocdl.s.waitcnt", "rocdl.sched.barrier", "rocdl.sched.group.barrier", "rocdl.s.setprio",
     "rocdl.iglp.opt", "rocdl.s.nop", "rocdl.wave.barrier"}
)  # fmt: skip


class Waves:
    """Rewrites the wave operations of one kernel; ``uses_exchange`` says whether the buffer is needed."""

    def __init__(self, block: tuple[int, int, int], facts: Facts) -> None:
        self._block, self._facts = block, facts
        self.threads = block[0] * block[1] * block[2]
        self.uses_exchange = False

    def rewrite(self, op: Any) -> None:
        """Rewrite one operation; raises the refusal of a form that has no equivalent."""
        if op.name == "gpu.shuffle":
            self._shuffle(op)
        elif op.name == "rocdl.ds_bpermute":
            build = Builder(op)
            index, value = op.operands
            lane = build.value("arith.shrui", build.i32, index, build.constant(2, build.i32))
            replace(op, [self._exchange(op, build, value, lane)])
        else:
            build = Builder(op)
            replace(op, [self._exchange(op, build, op.operands[0], build.constant(0, build.i32))])

    def _shuffle(self, op: Any) -> None:
        mode = str(op.attributes["mode"]).rstrip(">").split(" ")[-1].split("<")[-1]
        value, offset, width = op.operands
        build = Builder(op)
        known, wide = self._facts.of(offset), self._facts.of(width)
        if wide.low is None or wide.low != wide.high or wide.low not in (WARP, WAVE):
            raise refuse(op, "its width is not 32 or 64")
        if mode == "xor" and known.high is not None and known.high < WARP and known.low == known.high:
            op.operands[2] = build.constant(WARP, build.i32)
            return
        if wide.low == WARP:
            return
        if mode not in ("xor", "idx"):
            raise refuse(op, f"a shuffle {mode} across 64 lanes has no equivalent here")
        lane = offset
        if mode == "xor":
            lane = build.value("arith.xori", build.i32, self._lane(build), offset)
        true = build.constant(1, build.i1)
        replace(op, [self._exchange(op, build, value, lane), true])

    def _thread(self, build: Builder) -> Any:
        """Return the thread's number in the block, as i32."""
        index = ir.IndexType.get()
        total = None
        for axis, size in reversed(list(zip("xyz", self._block, strict=True))):
            if size == 1 and axis != "x":
                continue
            part = build.value("gpu.thread_id", index, dimension=f"#gpu<dim {axis}>")
            part = build.value("arith.index_cast", build.i32, part)
            if total is not None:
                total = build.value("arith.muli", build.i32, total, build.constant(size, build.i32))
                part = build.value("arith.addi", build.i32, total, part)
            total = part
        return total

    def _lane(self, build: Builder) -> Any:
        return build.value("arith.andi", build.i32, self._thread(build), build.constant(WAVE - 1, build.i32))

    def _exchange(self, op: Any, build: Builder, value: Any, lane: Any) -> Any:
        """Return the value of another lane of the wave (its number modulo 64)."""
        if str(value.type) not in ("f32", "i32"):
            raise refuse(op, f"it moves a {value.type} across 64 lanes; f32 and i32 are supported")
        if op.parent.operation.name != "gpu.func":
            raise refuse(
                op, "it crosses two warps under a condition or in a loop, where some threads may be missing"
            )
        self.uses_exchange = True
        thread = self._thread(build)
        base = build.value("llvm.mlir.addressof", ir.Type.parse("!llvm.ptr<3>"), global_name=f"@{EXCHANGE}")
        four = build.constant(4, build.i32)

        def slot(index: Any) -> Any:
            return build.offset(base, build.wide(build.value("arith.muli", build.i32, index, four)))

        start = build.value("arith.andi", build.i32, thread, build.constant(-WAVE, build.i32))
        within = build.value("arith.andi", build.i32, lane, build.constant(WAVE - 1, build.i32))
        build.store(value, slot(thread), 4)
        self._barrier(build, thread)
        result = build.load(value.type, slot(build.value("arith.addi", build.i32, start, within)), 4)
        self._barrier(build, thread)
        return result

    def _barrier(self, build: Builder, thread: Any) -> None:
        """Wait for the 64 threads of the wave, or for the whole block where barriers do not suffice."""
        waves = -(-self.threads // WAVE)
        if waves == 1 or waves > _WAVE_BARRIERS or self.threads % WAVE:
            build.make("gpu.barrier", [], [])
            return
        number = build.value("arith.shrui", build.i32, thread, build.constant(6, build.i32))
        number = build.value("arith.addi", build.i32, number, build.constant(1, build.i32))
        sizes = "array<i32: 1, 1>"
        build.make("nvvm.barrier", [], [number, build.constant(WAVE, build.i32)], operandSegmentSizes=sizes)
