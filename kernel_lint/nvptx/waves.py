"""AMD's operations across the 64 lanes of a wave, on warps of 32.

A wave is two warps. What stays inside a warp is a shuffle there; what crosses goes through shared memory
between two barriers of the wave's 64 threads (PTX ``bar.sync`` with a number of its own). All threads of the
wave must get there, so such an operation may stand only under conditions that they share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flydsl._mlir import ir

from kernel_lint.nvptx import buffers, dot, dpp, matrix
from kernel_lint.nvptx.build import Builder, replace
from kernel_lint.nvptx.errors import refuse
from kernel_lint.nvptx.facts import Facts
from kernel_lint.nvptx.maths import name_of
from kernel_lint.nvptx.uniform import Uniformity

WAVE, WARP = dpp.WAVE, 32
EXCHANGE = "__wave_exchange"
MATRICES = "__wave_matrices"
# PTX has 16 barriers for a block; a workgroup that waits as a whole takes number 0.
_BARRIERS = 16
_TO_LDS = "rocdl.raw.ptr.buffer.load.lds"
HANDLED = frozenset(
    {
        "gpu.shuffle",
        "rocdl.ds_bpermute",
        "rocdl.readfirstlane",
        _TO_LDS,
        *dpp.NAMES,
        *matrix.NAMES,
        *dot.NAMES,
    }
)
# Which operand must be the same in all lanes, or is known to be.
_SHARED_OPERAND = {"rocdl.readfirstlane": 0, _TO_LDS: 1}
BLOCK_BARRIERS = frozenset({"gpu.barrier", "rocdl.barrier", "rocdl.s.barrier"})
# Hints to AMD's scheduler, and waits that a GPU with in-order memory semantics per thread does not need.
DROPPED = frozenset(
    {"rocdl.s.waitcnt", "rocdl.sched.barrier", "rocdl.sched.group.barrier", "rocdl.s.setprio",
     "rocdl.iglp.opt", "rocdl.s.nop", "rocdl.wave.barrier"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Seen:
    """Whether all threads that must wait for each other get to an operation, and have one operand alike."""

    together: bool
    alike: bool


class Waves:
    """Rewrites the wave operations of one kernel; ``uses_exchange`` says whether the buffer is needed.

    ``block_barriers`` tells whether the kernel itself makes its workgroup wait.
    """

    def __init__(self, block: tuple[int, int, int], facts: Facts, block_barriers: bool) -> None:
        self._block, self._facts = block, facts
        self.threads = block[0] * block[1] * block[2]
        waves = -(-self.threads // WAVE)
        self._first_barrier = int(block_barriers)
        # Where waves have no barriers of their own, the whole block waits.
        self._block_waits = waves == 1 or waves + self._first_barrier > _BARRIERS or self.threads % WAVE != 0
        self._uniformity = Uniformity(block, self.threads if self._block_waits else WAVE)
        self.uses_exchange = False
        self.matrix_bytes = 0

    def look_at(self, op: Any) -> Seen:
        """Return what must be known of an operation of :data:`HANDLED` before the kernel is changed."""
        which = _SHARED_OPERAND.get(op.name)
        alike = which is not None and self._uniformity.same(op.operands[which])
        return Seen(self._uniformity.reached_together(op), alike)

    def rewrite(self, op: Any, seen: Seen) -> None:
        """Rewrite one operation; raises the refusal of a form that has no equivalent."""
        if op.name == "gpu.shuffle":
            self._shuffle(op, seen)
        elif op.name == "rocdl.ds_bpermute":
            build = Builder(op)
            index, value = op.operands
            lane = build.value("arith.shrui", build.i32, index, build.constant(2, build.i32))
            replace(op, [self._exchange(op, seen, build, value, lane)])
        elif name_of(op) in dpp.NAMES:
            self._dpp(op, seen)
        elif op.name in matrix.NAMES or op.name in dot.NAMES:
            self._matrix(op, seen)
        elif op.name == _TO_LDS:
            self._load_to_lds(op, seen)
        elif seen.alike:
            replace(op, [op.operands[0]])
        else:
            build = Builder(op)
            replace(op, [self._exchange(op, seen, build, op.operands[0], build.constant(0, build.i32))])

    def _shuffle(self, op: Any, seen: Seen) -> None:
        mode = str(op.attributes["mode"]).rstrip(">").split(" ")[-1].split("<")[-1]
        value, offset, width = op.operands
        build = Builder(op)
        known, wide = self._facts.of(offset), self._facts.of(width)
        if wide.low is None or wide.low != wide.high:
            raise refuse(op, "its width is not known before the launch")
        if mode == "xor" and known.high is not None and known.high < WARP and known.low == known.high:
            op.operands[2] = build.constant(WARP, build.i32)
            return
        if wide.low <= WARP:
            return
        if mode not in ("xor", "idx"):
            raise refuse(op, f"a shuffle {mode} across 64 lanes has no equivalent here")
        lane = offset
        if mode == "xor":
            lane = build.value("arith.xori", build.i32, self._lane(build), offset)
        true = build.constant(1, build.i1)
        replace(op, [self._exchange(op, seen, build, value, lane), true])

    def _load_to_lds(self, op: Any, seen: Seen) -> None:
        """Copy each lane's bytes behind those of the lane before (CDNA3 ISA, "Buffer Load to LDS")."""
        descriptor, pointer, size, voffset, soffset, offset = list(op.operands)[:6]
        width, further = self._facts.of(size), self._facts.of(offset)
        if width.low is None or width.low != width.high or width.low % 4 or further.high is None:
            raise refuse(op, "its size or offset is not a known number of dwords")
        if not seen.alike:
            raise refuse(op, "its address in LDS is not seen to be the same for the whole wave")
        build = Builder(op)
        if further.high:
            soffset = build.value("arith.addi", build.i32, soffset, offset)
        count = width.low // 4
        mtype = build.i32 if count == 1 else ir.Type.parse(f"vector<{count}xi32>")
        value = buffers.load_buffer(op, build, [descriptor, voffset, soffset], mtype, self._facts)
        lane = build.value("arith.muli", build.i32, self._lane(build), build.constant(width.low, build.i32))
        place = build.offset(build.offset(pointer, build.wide(lane)), further.high)
        alignment = max(4, min(self._facts.of(pointer).divisor, width.low & -width.low))
        build.store(value, place, alignment)
        op.erase()

    def _matrix(self, op: Any, seen: Seen) -> None:
        if self.threads % WAVE:
            raise refuse(op, "some lanes of its last wave are missing")
        self._require_all(op, seen)
        _require_plain(op)
        build = Builder(op)
        thread = self._thread(build)
        size = (dot if op.name in dot.NAMES else matrix).bytes_of(op.name)
        self.matrix_bytes = max(self.matrix_bytes, self.threads // WAVE * size)
        base = build.value("llvm.mlir.addressof", ir.Type.parse("!llvm.ptr<3>"), global_name=f"@{MATRICES}")
        base = build.offset(base, build.wide(build.times(build.shifted(thread, 6), size)))
        lane = build.low(thread, WAVE)

        def wait() -> None:
            self._barrier(build, thread)

        if op.name in dot.NAMES:
            dot.Dot(op, build, base, lane, wait).rewrite()
        else:
            matrix.Matrix(op, build, base, lane, wait, self._facts.target).rewrite()

    def _dpp(self, op: Any, seen: Seen) -> None:
        request = dpp.read(op, name_of(op))
        value, move = request.source, request.move
        if str(value.type) not in ("f32", "i32"):
            raise refuse(op, f"it moves a {value.type}; f32 and i32 are supported")
        build = Builder(op)
        lane = self._lane(build)
        zero = build.zero(value.type)
        if move.places is not None:
            moved = self._within_row(build, value, lane, move.places)
        else:
            start = build.value("arith.andi", build.i32, lane, build.constant(move.keep, build.i32))
            source = build.value("arith.addi", build.i32, start, build.constant(move.step, build.i32))
            moved = self._exchange(op, seen, build, value, source)
        old = zero if request.old is None else request.old
        for mask, other in ((move.exists, zero if request.zero else old), (move.enabled, old)):
            if mask != dpp.EVERY_LANE:
                picked = _bits(build, build.constant(mask, build.i64), lane, 1, 1)
                picked = build.compare(1, picked, build.constant(0, build.i32))
                moved = build.value("arith.select", value.type, picked, moved, other)
        replace(op, [moved])

    def _within_row(self, build: Builder, value: Any, lane: Any, places: int) -> Any:
        """Return the value of the lane of the same 16 that a table names."""
        place = build.value("arith.andi", build.i32, lane, build.constant(dpp.ROW - 1, build.i32))
        row = build.value("arith.andi", build.i32, lane, build.constant(WARP - dpp.ROW, build.i32))
        source = _bits(build, build.constant(places, build.i64), place, 4, dpp.ROW - 1)
        source = build.value("arith.ori", build.i32, row, source)
        width = build.constant(WARP, build.i32)
        shuffled = build.make(
            "gpu.shuffle", [value.type, build.i1], [value, source, width], mode="#gpu<shuffle_mode idx>"
        )
        return shuffled.results[0]

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

    def _require_all(self, op: Any, seen: Seen) -> None:
        """Refuse an operation that some of the threads that wait for each other may not get to."""
        if not seen.together:
            whom = "block" if self._block_waits else "wave"
            raise refuse(
                op,
                "it crosses two warps under a condition, or in a loop, "
                f"where some threads of the {whom} may be missing",
            )

    def _exchange(self, op: Any, seen: Seen, build: Builder, value: Any, lane: Any) -> Any:
        """Return the value of another lane of the wave (its number modulo 64)."""
        if str(value.type) not in ("f32", "i32"):
            raise refuse(op, f"it moves a {value.type} across 64 lanes; f32 and i32 are supported")
        self._require_all(op, seen)
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
        if self._block_waits:
            build.make("gpu.barrier", [], [])
            return
        number = build.value("arith.shrui", build.i32, thread, build.constant(6, build.i32))
        number = build.value("arith.addi", build.i32, number, build.constant(self._first_barrier, build.i32))
        sizes = "array<i32: 1, 1>"
        build.make("nvvm.barrier", [], [number, build.constant(WAVE, build.i32)], operandSegmentSizes=sizes)


def _require_plain(op: Any) -> None:
    """Refuse a matrix instruction whose lanes share operands."""
    for name in ("cbsz", "abid", "blgp"):
        text = str(op.attributes[name]) if name in op.attributes else "0"
        if text.split(" ")[0] != "0" and "none" not in text:
            raise refuse(op, f"its {name} is {text}; lanes that share operands are not supported here")


def _bits(build: Builder, table: Any, index: Any, width: int, mask: int) -> Any:
    """Return entry ``index`` of a table of numbers of ``width`` bits, as i32."""
    shift = build.value("arith.muli", build.i32, index, build.constant(width, build.i32))
    found = build.value("arith.shrui", build.i64, table, build.wide(shift))
    return build.value(
        "arith.andi",
        build.i32,
        build.value("arith.trunci", build.i32, found),
        build.constant(mask, build.i32),
    )
