"""AMD's choice of four bytes of eight (V_PERM_B32) as PTX's ``prmt``."""

from __future__ import annotations

from typing import Any

from kernel_lint.nvptx.build import Builder, replace
from kernel_lint.nvptx.errors import refuse
from kernel_lint.nvptx.facts import constant

NAME = "llvm.amdgcn.perm"


def rewrite_permute(op: Any) -> None:
    """Replace one; raises the refusal of a selector that is not constant, or asks for signs or constants.

    AMD numbers the bytes of the second operand 0 to 3 and of the first 4 to 7 (AMD Instinct MI300 ISA,
    V_PERM_B32); PTX those of its first 0 to 3 and of its second 4 to 7 (PTX ISA, prmt), four bits each.
    """
    high, low, selector = list(op.operands)[:3]
    number = constant(selector)
    if number is None:
        raise refuse(op, "which bytes it takes is decided at run time")
    picks = (number & 0xFFFFFFFF).to_bytes(4, "little")
    if max(picks) > 7:
        raise refuse(op, "it makes bytes of signs or constants")
    build = Builder(op)
    table = build.constant(sum(pick << (4 * place) for place, pick in enumerate(picks)), build.i32)
    found = build.value(
        "llvm.inline_asm", build.i32, low, high, table,
        asm_string='"prmt.b32 $0, $1, $2, $3;"', constraints='"=r,r,r,r"',
    )  # fmt: skip
    replace(op, [found])
