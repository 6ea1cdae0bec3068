"""What "equal" means: the three tolerance policies and the facts about each dtype.

The derivation of every constant is in ``docs/comparison.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from kernel_lint.errors import KernelLintError


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """A floating-point format, and how much error an honest kernel may add in it.

    ``digits`` counts significand bits with the implicit one, so a unit in the last place at 1.0
    is ``eps = 2**(1 - digits)``; ``smallest_normal`` and ``largest`` are the format's range.
    ``ulps`` is the floor for each element in units in the last place of its exact value;
    ``row_eps`` the floor in ``eps`` times the scale of its row. ``contract`` is the norm
    criterion's threshold. ``flushes`` says that hardware may replace subnormals by zero.
    """

    digits: int
    smallest_normal: float
    largest: float
    ulps: float
    row_eps: float
    contract: float
    flushes: bool = False

    @property
    def eps(self) -> float:
        """The distance from 1.0 to the next number."""
        return float(2.0 ** (1 - self.digits))


# Ranges and digits: IEEE 754-2019 table 3.5; bfloat16, OCP FP8 (E4M3 has no infinity) and OCP
# Microscaling 1.0 (E2M1); the fnuz variants as in LLVM's APFloat (bias one higher, no infinity).
# torch.finfo is not used: it reports eps 0.125 for float8_e5m2fnuz, which has 3 digits.
# The contract states 0.01 for bf16; the others are this project's choice.
FORMATS: dict[torch.dtype, FloatFormat] = {
    torch.float64: FloatFormat(53, 2.0**-1022, 1.7976931348623157e308, 128, 256, 1e-10),
    torch.float32: FloatFormat(24, 2.0**-126, 3.4028234663852886e38, 128, 256, 1e-3, flushes=True),
    torch.float16: FloatFormat(11, 2.0**-14, 65504.0, 16, 32, 0.01),
    torch.bfloat16: FloatFormat(8, 2.0**-126, 3.3895313892515355e38, 4, 4, 0.01, flushes=True),
    torch.float8_e4m3fn: FloatFormat(4, 2.0**-6, 448.0, 1, 0.5, 0.1),
    torch.float8_e4m3fnuz: FloatFormat(4, 2.0**-7, 240.0, 1, 0.5, 0.1),
    torch.float8_e5m2: FloatFormat(3, 2.0**-14, 57344.0, 1, 0.5, 0.2),
    torch.float8_e5m2fnuz: FloatFormat(3, 2.0**-15, 57344.0, 1, 0.5, 0.2),
}
if hasattr(torch, "float4_e2m1fn_x2"):
    FORMATS[torch.float4_e2m1fn_x2] = FloatFormat(2, 1.0, 6.0, 1, 0.5, 0.4)

FLOAT32 = FORMATS[torch.float32]

COMPLEX_PARTS = {
    torch.complex32: torch.float16,
    torch.complex64: torch.float32,
    torch.complex128: torch.float64,
}


def float_format(dtype: torch.dtype) -> FloatFormat | None:
    """The format of a floating or complex dtype (of its parts), None for one compared exactly."""
    return FORMATS.get(COMPLEX_PARTS.get(dtype, dtype))


@dataclass(frozen=True, slots=True)
class Calibrated:
    """Error against the float64 run, bounded per row by the reference's own error (the default)."""

    name = "calibrated"


@dataclass(frozen=True, slots=True)
class Contract:
    """The contract's norm: ``||out - ref|| / ||ref||`` per output, below ``threshold``.

    Without a threshold each dtype has its own (0.01 for bf16).
    """

    threshold: float | None = None
    name = "contract"


@dataclass(frozen=True, slots=True)
class AllClose:
    """``|out - ref| <= atol + rtol * |ref|`` for every element, as ``torch.allclose``."""

    rtol: float = 1e-5
    atol: float = 1e-8
    name = "allclose"


Policy = Calibrated | Contract | AllClose


def parse_policy(text: str) -> Policy:
    """Read ``calibrated``, ``contract[:0.01]`` or ``allclose[:rtol=1e-3,atol=1e-5]``.

    Raises :class:`KernelLintError` naming what is wrong.
    """
    name, _, arguments = text.partition(":")
    try:
        if name == "calibrated" and not arguments:
            return Calibrated()
        if name == "contract":
            return Contract(_tolerance(arguments) if arguments else None)
        if name == "allclose":
            return AllClose(**_keywords(arguments))
    except (ValueError, TypeError) as error:
        raise KernelLintError(f"cannot read the tolerance {text!r}: {error}", _FORMS) from error
    raise KernelLintError(f"unknown tolerance {text!r}", _FORMS)


_FORMS = "use calibrated, contract, contract:0.01, allclose or allclose:rtol=1e-3,atol=1e-5"


def _keywords(text: str) -> dict[str, Any]:
    pairs = [part.partition("=") for part in text.split(",") if part]
    return {key.strip(): _tolerance(value) for key, _, value in pairs}


def _tolerance(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise ValueError(f"{text} is not a finite tolerance of at least 0")
    return value
