"""``rocdl``: barriers, waits, and hints to the scheduler.

The emulator runs in lockstep and every memory operation ends before the next begins, so waits and
scheduling hints change nothing; a missing wait is therefore invisible here.
"""

from __future__ import annotations

from kernel_lint.emulator.ir import Op
from kernel_lint.emulator.registry import Env, Run, op

_HINTS = (
    "s.waitcnt",
    "s.nop",
    "s.sleep",
    "s.setprio",
    "s.wait.dscnt",
    "s.wait.loadcnt",
    "s.wait.storecnt",
    "s.wait.expcnt",
    "s.wait.asynccnt",
    "s.wait.tensorcnt",
    "sched.barrier",
    "sched.group.barrier",
    "sched.bank",
    "sched.sgpr",
    "sched.vgpr",
    "sched.agpr",
    "iglp.opt",
    "asyncmark",
    "wait.asyncmark",
    "global.prefetch",
    "flat.prefetch",
    "wave.barrier",
)


@op(*(f"rocdl.{name}" for name in _HINTS))
def hint(o: Op, env: Env) -> Run:
    """No effect on values."""
    return lambda *_: None


@op("rocdl.s.barrier", "rocdl.barrier", context=True)
def s_barrier(o: Op, env: Env) -> Run:
    """S_BARRIER: each wave that reaches it waits for the other waves, at whichever barrier they are."""
    place = o.place
    return lambda m, mask: m.checker.wave_barrier(m, mask, place)


@op("rocdl.s.barrier.signal", "rocdl.s.barrier.signal.var")
def s_barrier_signal(o: Op, env: Env) -> Run:
    """The first half of a split barrier; the wait is the barrier."""
    return lambda *_: None


@op("rocdl.s.barrier.wait", context=True)
def s_barrier_wait(o: Op, env: Env) -> Run:
    """The second half of a split barrier."""
    place = o.place
    return lambda m, mask, *_: m.checker.wave_barrier(m, mask, place)
