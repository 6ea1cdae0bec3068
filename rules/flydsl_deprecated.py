"""KL405."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kernel_lint import TYPE_CHECKING
from kernel_lint.diagnostics import Severity
from kernel_lint.rule import Context, Finding, Invalid, cases
from kernel_lint.rules._paths import ForbiddenPaths
from kernel_lint.source.references import Reference

if TYPE_CHECKING:
    from typing import ClassVar

_REPLACEMENTS = {
    "get": "fx.get_(...).unpack()",
    "index_cast": "fx.Int64(x)",
    "Index": "fx.Int64(x)",
    "constant_vector": "the member functions of Numeric and Vector",
    "tdm_ops": "fx.rocdl.tdm_ops",
    "rocdl.BufferCopyLDS64b": "fx.rocdl.BufferCopyLDS32b, or BufferCopyLDS128b on gfx950",
}


class FlydslDeprecated(ForbiddenPaths):
    """
    ## What it does
    Finds names of FlyDSL that its authors have declared deprecated.

    ## Why is this bad?
    They may be gone in the release that the evaluator runs; `BufferCopyLDS64b` raises already.

    ## What is allowed
    Everything in FlyDSL's catalogue of stable names.

    ## How to fix it
    Use the replacement that the message names.

    ## Example
    ```python
    n = fx.index_cast(i)
    ```

    ## Use instead
    ```python
    n = fx.Int64(i)
    ```

    ## References
    - FlyDSL, docs/api_stability.md, section 3 (stable but deprecated), and docs/kernel_authoring_guide.md for `fx.Index`.
    """

    code = "KL405"
    name = "flydsl-deprecated"
    severity = Severity.INFO
    clauses = ("P1",)
    FORBIDDEN: ClassVar[Mapping[str, str]] = {f"flydsl.expr.{name}": name for name in _REPLACEMENTS}
    VALID = cases(
        lambda: (
            "import flydsl.expr as fx\nx = fx.Int64(1)\ny = fx.get_\n",
            "class fx:\n    get = 1\n\nfx.get\n",
        )
    )
    INVALID = cases(
        lambda: (
            Invalid("import flydsl.expr as fx\nx = fx.index_cast(1)\n", lines=(2,)),
            Invalid("from flydsl.expr import constant_vector\n", lines=(1,)),
            Invalid("import flydsl.expr as fx\na = fx.rocdl.BufferCopyLDS64b()\n", lines=(2,)),
        )
    )

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield deprecated names, in files written in FlyDSL."""
        if context.framework.name == "flydsl":
            yield from super().check(context)

    def finding(self, context: Context, reference: Reference, why: str) -> Finding | None:
        """Name the replacement."""
        return Finding(reference.node, f"`fx.{why}` is deprecated in FlyDSL", f"use {_REPLACEMENTS[why]}")
