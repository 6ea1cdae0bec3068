"""Which times nobody may believe; each rule returns the sentence for ``INVALID_TIMING``, or nothing."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from kernel_lint.verify.performance.schedule import Block

# Waiting for an idle device takes this long at most; a device that works on has more to do.
_IDLE_WAIT = 60e-6
# The judge's clock may exceed the device's by launch gaps: a factor, and seconds a call. On the CPU
# other processes may take the core away in between.
_WALL = {"graph": (1.5, 40e-6), "eager": (1.5, 400e-6), "cpu": (3.0, 2e-3)}
# Waiting for less than this, or for a smaller share of a call, is no sleep.
_SLEEP, _SLEEP_SHARE = 300e-6, 0.5
_POOR_PERCENT = 2.0
# The bound is computed from peaks that no chip reaches; this much is left for rounding of clocks.
_BOUND_SLACK = 0.98


def unusable(blocks: Sequence[Block]) -> str:
    """Times that are no times: zero, negative, not finite, or fewer than were asked for."""
    for block in blocks:
        for value in block.seconds:
            if not isinstance(value, float) or not math.isfinite(value) or value <= 0:
                return f"a sample took {value!r} s"
    if not any(block.seconds for block in blocks):
        return "no sample came back"
    return ""


def work_left(blocks: Sequence[Block], reference: Sequence[Block]) -> str:
    """Work that goes on after the end of the sample: another stream, or a thread."""
    own = [value for block in blocks for value in block.leftover]
    if not own:
        return ""
    others = [value for block in reference for value in block.leftover]
    usual = statistics.median(others) if others else 0.0
    mine = statistics.median(own)
    times = statistics.median(value for block in blocks for value in block.seconds)
    if mine <= max(_IDLE_WAIT, 3 * usual, 0.05 * times):
        return ""
    return (
        f"the device went on working for {mine * 1e6:.0f} us after the current stream had finished "
        f"(a sample took {times * 1e6:.1f} us): work on another stream that nothing waits for"
    )


def sleeping(idle_seconds: float, call_seconds: float) -> str:
    """A reference during whose calls nothing works: its time is no measure for anyone's."""
    if idle_seconds <= max(_SLEEP, _SLEEP_SHARE * call_seconds):
        return ""
    return (
        f"the reference sleeps: in {idle_seconds * 1e6:.0f} of the {call_seconds * 1e6:.0f} us of a call "
        "neither processor nor device works, so a speed-up against it means nothing; mend reference.py"
    )


def far_from_the_roofline(percent: float | None) -> str:
    """A reference that uses hardly anything of the device; said, not refused: it may be that small."""
    if percent is None or percent >= _POOR_PERCENT:
        return ""
    return f"the reference reaches {percent:.2g}% of the roofline: a speed-up against it says little"


def slower_on_the_wall(device_seconds: float, wall_seconds: float, mode: str) -> str:
    """Compare the reported time of a call with what the judge's own clock saw for one of many."""
    factor, slack = _WALL[mode]
    limit = factor * device_seconds + slack
    if wall_seconds <= limit:
        return ""
    return (
        f"by the judge's clock a call takes {wall_seconds * 1e6:.0f} us, the reported times say "
        f"{device_seconds * 1e6:.1f} us: the timer was tampered with, or work runs where it does not look"
    )


def faster_than_possible(device_seconds: float, bound_seconds: float | None, why: str) -> str:
    """Compare a time with the least that the hardware needs."""
    if bound_seconds is None or device_seconds >= _BOUND_SLACK * bound_seconds:
        return ""
    return (
        f"{device_seconds * 1e6:.2f} us is less than the hardware needs ({bound_seconds * 1e6:.2f} us: {why})"
    )


def threads_left(before: int, after: int, python: int) -> str:
    """Threads that the candidate left running: native ones started since ``before``, or any of Python."""
    extra = max(after - before, python)
    if extra <= 0:
        return ""
    return f"{extra} threads still run after a timed call: they work where no timer looks"
