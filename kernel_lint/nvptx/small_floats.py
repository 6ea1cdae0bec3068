"""Conversions between float32 and AMD's floats of 8 bits, by integer arithmetic.

NVIDIA's own instructions know neither the formats of gfx942 (FNUZ) nor a conversion that does not saturate.
The formats, and what each code means, are :mod:`kernel_lint.emulator.numerics.formats`'.
"""

from __future__ import annotations

import math
import struct
from typing import Any

from kernel_lint.emulator.numerics.formats import FloatFormat, NanRule, fp8_formats
from kernel_lint.nvptx.build import Builder, replace

_NARROW = frozenset({"rocdl.cvt.pk.fp8.f32", "rocdl.cvt.pk.bf8.f32"})
_WIDEN = frozenset({"rocdl.cvt.f32.fp8", "rocdl.cvt.f32.bf8"})
_WIDEN_TWO = frozenset({"rocdl.cvt.pk.f32.fp8", "rocdl.cvt.pk.f32.bf8"})
NAMES = _NARROW | _WIDEN | _WIDEN_TWO
# float32: the bits of infinity, and those of its mantissa.
_INFINITY, _MANTISSA = 0x7F800000, 23
# Predicates of arith.cmpi.
_EQUAL, _LESS, _GREATER = 0, 2, 4


def rewrite_conversion(op: Any, target: str) -> None:
    """Replace one operation of :data:`NAMES`; ``target`` decides what floats of 8 bits are."""
    build = Builder(op)
    fp8, bf8 = fp8_formats(target)
    small = bf8 if "bf8" in op.name else fp8
    if op.name in _NARROW:
        replace(op, [_pair(build, op, small)])
        return
    first = _number(op, "byteSel") if op.name in _WIDEN else 2 * _number(op, "wordSel")
    word = op.operands[0]
    if op.name in _WIDEN:
        replace(op, [widen(build, _byte(build, word, first), small)])
        return
    found = [widen(build, _byte(build, word, first + index), small) for index in (0, 1)]
    replace(op, [build.value("vector.from_elements", op.results[0].type, *found)])


def _number(op: Any, name: str) -> int:
    return int(op.attributes[name].value) if name in op.attributes else 0


def _byte(build: Builder, word: Any, index: int) -> Any:
    return build.low(build.shifted(word, 8 * index), 256)


def _pair(build: Builder, op: Any, small: FloatFormat) -> Any:
    """Put two floats into one half of a register; the other half stays."""
    first, second, old = op.operands
    shift = 16 * _number(op, "wordSel")
    low = narrow(build, first, small)
    high = build.times(narrow(build, second, small), 1 << 8)
    made = build.times(build.add(low, high), 1 << shift)
    kept = build.value("arith.andi", build.i32, old, build.constant(0xFFFF << (16 - shift), build.i32))
    return build.value("arith.ori", build.i32, kept, made)


def narrow(build: Builder, value: Any, small: FloatFormat) -> Any:
    """Return the code of a float32, rounded to nearest even, in the low 8 bits of an i32."""
    i32 = build.i32

    def number(bits: int) -> Any:
        return build.constant(bits, i32)

    def either(predicate: int, a: Any, b: Any, yes: Any, no: Any) -> Any:
        return build.value("arith.select", i32, build.compare(predicate, a, b), yes, no)

    bits = build.cast(value, i32)
    magnitude = build.value("arith.andi", i32, bits, number(0x7FFFFFFF))
    shift = _MANTISSA - small.mantissa_bits
    # Half of the last place, less one where the number before it is even: ties go to even.
    odd = build.low(build.shifted(magnitude, shift), 2)
    rounded = build.shifted(build.add(build.add(magnitude, number((1 << (shift - 1)) - 1)), odd), shift)
    normal = build.add(rounded, number(-((127 - small.bias) << small.mantissa_bits)))
    # Below the smallest normal number codes count steps: adding 2^23 rounds to a whole number of them.
    scaled = _times(build, build.cast(magnitude, build.f32), 2.0 ** (small.bias - 1 + small.mantissa_bits))
    stepped = build.value("arith.addf", build.f32, scaled, _float(build, 2.0**_MANTISSA))
    tiny = build.low(build.cast(stepped, i32), 1 << _MANTISSA)
    smallest = number((128 - small.bias) << _MANTISSA)
    code = either(_LESS, magnitude, smallest, tiny, normal)
    code = either(_GREATER, code, number(small.max_code), number(small.overflow_code), code)
    code = either(_GREATER, magnitude, number(_INFINITY), number(small.nan_code), code)
    sign = build.value("arith.andi", i32, build.shifted(bits, 24), number(small.sign_bit))
    signed = build.value("arith.ori", i32, code, sign)
    if small.nan is not NanRule.NEGATIVE_ZERO:
        return signed
    # Zero has no sign there, and the one code with nothing but a sign is NaN.
    return either(_EQUAL, build.low(code, small.sign_bit), number(0), code, signed)


def widen(build: Builder, code: Any, small: FloatFormat) -> Any:
    """Return the float32 that a code in an i32 stands for."""
    i32, f32 = build.i32, build.f32
    magnitude = build.low(code, small.sign_bit)
    sign = build.times(build.value("arith.subi", i32, code, magnitude), 1 << 24)
    # Exponent and mantissa go where those of 32 bits meet; the factor makes up for the other bias.
    moved = build.times(magnitude, 1 << (_MANTISSA - small.mantissa_bits))
    moved = build.value("arith.ori", i32, moved, sign)
    value = _times(build, build.cast(moved, f32), 2.0 ** (127 - small.bias))

    def where(predicate: int, a: Any, b: int, special: Any, other: Any) -> Any:
        condition = build.compare(predicate, a, build.constant(b, i32))
        return build.value("arith.select", f32, condition, special, other)

    if small.nan is NanRule.NEGATIVE_ZERO:
        return where(_EQUAL, code, small.sign_bit, _float(build, math.nan), value)
    last = small.max_code
    if small.nan is NanRule.IEEE:
        last += 1
        infinite = build.value("arith.mulf", f32, value, _float(build, math.inf))
        value = where(_EQUAL, magnitude, last, infinite, value)
    return where(_GREATER, magnitude, last, _float(build, math.nan), value)


def _float(build: Builder, value: float) -> Any:
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return build.value("arith.constant", build.f32, value=f"0x{bits:08X} : f32")


def _times(build: Builder, value: Any, factor: float) -> Any:
    return build.value("arith.mulf", build.f32, value, _float(build, factor))
