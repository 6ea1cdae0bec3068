"""The one error that an author of a kernel sees."""

from __future__ import annotations

from typing import Any

from kernel_lint.emulator.decode import parse_place
from kernel_lint.errors import KernelLintError

REMEDY = "verify it with --backend emulate (on this GPU: -O device=cuda), or on an AMD GPU"


class NvptxRefusalError(KernelLintError):
    """A kernel, or an operation in it, that cannot run on an NVIDIA GPU."""


def refuse(op: Any, why: str) -> NvptxRefusalError:
    """Return the refusal of an MLIR operation, with its place in the kernel's source."""
    place = parse_place(str(op.location))
    return NvptxRefusalError(
        f"{op.name} at {place} cannot run on an NVIDIA GPU: {why}",
        REMEDY,
    )
