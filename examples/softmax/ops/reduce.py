"""Reductions over a wave and over a workgroup."""

import flydsl.compiler as flyc
import flydsl.expr as fx

WAVE = 64  # CDNA: 64 lanes on gfx942 and gfx950


def _ceil_div(a, b):
    """Slots needed when `b` threads share one of `a`."""
    return (a + b - 1) // b


def wave_slots(block):
    """LDS slots that a workgroup of `block` threads needs: one a wave."""
    return _ceil_div(block, WAVE)


def larger(a, b):
    return fx.max(a, b)


def added(a, b):
    return a + b


def smaller(a, b):
    """For a minimum; softmax has no use for it."""
    return fx.min(a, b)


def wave_reduce(value, combine):
    """Combine `value` over the lanes of a wave; every lane gets the result (butterfly)."""
    offset = WAVE // 2
    while offset > 0:
        value = combine(value, fx.shuffle_xor(value, offset, WAVE))
        offset //= 2
    return value


@flyc.jit
def block_reduce(value, combine, slots, count):
    """Combine `value` over a workgroup of `count` waves; every thread gets the result.

    `slots` is an LDS view of `count` fp32 that no other reduction of this kernel uses. Each
    slot is written once, before the only barrier, and read only after it: nothing
    is overwritten that another wave may still have to read.
    """
    lane = fx.thread_idx.x % WAVE
    wave = fx.thread_idx.x // WAVE
    partial = wave_reduce(value, combine)
    if lane == 0:
        fx.memref_store(partial, slots, wave)
    fx.gpu.barrier()
    total = fx.memref_load(slots, 0)
    for other in fx.range_constexpr(1, count):
        total = combine(total, fx.memref_load(slots, other))
    return total


def test_wave_slots():
    assert wave_slots(256) == 4
    assert wave_slots(1) == 1
