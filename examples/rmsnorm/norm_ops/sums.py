"""Sums over a wave and over a workgroup."""

import flydsl.compiler as flyc
import flydsl.expr as fx

WAVE = 64  # CDNA: 64 lanes on gfx942 and gfx950


def wave_sum(value):
    """Sum over the lanes of a wave; every lane gets it (butterfly)."""
    for step in (32, 16, 8, 4, 2, 1):
        value = value + fx.shuffle_xor(value, step, WAVE)
    return value


def wave_peak(value):
    """Maximum over the lanes of a wave, for a quantising variant that does not exist yet."""
    for step in (32, 16, 8, 4, 2, 1):
        value = fx.max(value, fx.shuffle_xor(value, step, WAVE))
    return value


@flyc.jit
def block_sum(value, slots, waves):
    """Sum over a workgroup of `waves` waves; every thread gets it.

    `slots` is an LDS view of `waves` fp32, written once before the barrier and read after it.
    """
    partial = wave_sum(value)
    if fx.thread_idx.x % WAVE == 0:
        fx.memref_store(partial, slots, fx.thread_idx.x // WAVE)
    fx.gpu.barrier()
    total = fx.memref_load(slots, 0)
    for wave in fx.range_constexpr(1, waves):
        total = total + fx.memref_load(slots, wave)
    return total
