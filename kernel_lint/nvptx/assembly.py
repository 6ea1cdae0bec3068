"""Inline assembly of AMD's that only waits: its waits fall away, its barriers stay."""

from __future__ import annotations

import re
from typing import Any

NAME = "llvm.inline_asm"
# Waits for memory, and pauses (AMD's CDNA3 ISA, "SOPP instructions"): a thread's accesses are in order here.
_WAITS = re.compile(r"s_(?:waitcnt\w*|nop|sleep|setprio|sched_\w+)\b[^;]*")


def barriers(op: Any) -> int | None:
    """Return how often an operation's assembly makes the workgroup wait; None where it does anything else."""
    if op.name != NAME or len(op.operands) or len(op.results):
        return None
    lines = [line.strip() for line in str(op.attributes["asm_string"].value).split("\n")]
    lines = [line for line in lines if line and not _WAITS.fullmatch(line)]
    return len(lines) if all(line == "s_barrier" for line in lines) else None
