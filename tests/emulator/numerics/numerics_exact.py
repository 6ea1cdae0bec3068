"""Exact models, in rational arithmetic and plain loops, of what the numerics package computes with tensors.

Written from the format tables alone ([CDNA4] table 30, [CDNA3] 7.2, OCP OFP8 and MX), not from the package.
"""

from __future__ import annotations

import bisect
import math
from fractions import Fraction

# name: exponent bits, mantissa bits, bias, finite codes without sign run from 0 to this one
FIELDS = {
    "f16": (5, 10, 15, 0x7BFF),
    "bf16": (8, 7, 127, 0x7F7F),
    "fp8_e4m3": (4, 3, 7, 0x7E),
    "fp8_e4m3fnuz": (4, 3, 8, 0x7F),
    "bf8_e5m2": (5, 2, 15, 0x7B),
    "bf8_e5m2fnuz": (5, 2, 16, 0x7F),
    "fp6_e2m3": (2, 3, 1, 0x1F),
    "fp6_e3m2": (3, 2, 3, 0x1F),
    "fp4_e2m1": (2, 1, 1, 0x7),
}
# name: code without sign for infinity or overflow, and for NaN (as the hardware writes it)
OVERFLOW = {
    "f16": 0x7C00,
    "bf16": 0x7F80,
    "fp8_e4m3": 0x7F,
    "fp8_e4m3fnuz": 0x80,
    "bf8_e5m2": 0x7C,
    "bf8_e5m2fnuz": 0x80,
    "fp6_e2m3": 0x1F,
    "fp6_e3m2": 0x1F,
    "fp4_e2m1": 0x7,
}
FNUZ = ("fp8_e4m3fnuz", "bf8_e5m2fnuz")


def width(name: str) -> int:
    return 1 + FIELDS[name][0] + FIELDS[name][1]


def magnitude(name: str, code: int) -> Fraction:
    """Value of a finite code without sign."""
    _, mantissa_bits, bias, _ = FIELDS[name]
    exponent, mantissa = code >> mantissa_bits, code & ((1 << mantissa_bits) - 1)
    if exponent == 0:
        return Fraction(mantissa) * Fraction(2) ** (1 - bias - mantissa_bits)
    return (Fraction(mantissa, 1 << mantissa_bits) + 1) * Fraction(2) ** (exponent - bias)


def ladder(name: str) -> list[Fraction]:
    """All finite magnitudes, ascending; the index is the code."""
    return [magnitude(name, code) for code in range(FIELDS[name][3] + 1)]


LADDERS = {name: ladder(name) for name in FIELDS}


def neighbours(name: str, value: Fraction) -> tuple[int, int]:
    """Codes of the magnitudes at or below and at or above |value|; one past the last code means overflow."""
    steps = LADDERS[name]
    above = bisect.bisect_left(steps, abs(value))
    if above < len(steps) and steps[above] == abs(value):
        return above, above
    return above - 1, above


def step_above_last(name: str) -> Fraction:
    """The magnitude that would follow the largest finite one."""
    steps = LADDERS[name]
    return steps[-1] + (steps[-1] - steps[-2])


def sign_code(name: str, code: int, negative: bool) -> int:
    if name in FNUZ and code in (0, 0x80):
        return code
    return code | (1 << (width(name) - 1)) if negative else code


def nearest_even(name: str, value: float, *, saturate: bool = False) -> int:
    """The code that round-to-nearest-even gives a finite float."""
    exact = Fraction(value)
    below, above = neighbours(name, exact)
    last = FIELDS[name][3]
    low = LADDERS[name][below]
    high = LADDERS[name][above] if above <= last else step_above_last(name)
    gap_low, gap_high = abs(exact) - low, high - abs(exact)
    if abs(exact) >= high and above > last:
        code = last + 1
    elif gap_low != gap_high:
        code = below if gap_low < gap_high else above
    else:
        code = below if below % 2 == 0 else above
    if code > last:
        code = last if saturate else OVERFLOW[name]
    return sign_code(name, code, math.copysign(1.0, value) < 0)
