"""KL404."""

from __future__ import annotations

from collections.abc import Iterator

from kernel_lint.diagnostics import Severity
from kernel_lint.rule import Context, Finding, Invalid, Rule, cases
from kernel_lint.rules._flydsl import applies, traced
from kernel_lint.rules._samples import kernel

_NAMES = frozenset(
    {"WARP_SIZE", "WAVE_SIZE", "WAVEFRONT_SIZE", "WARPSIZE", "WAVESIZE", "LANES", "WARP", "WAVE"}
)


class FlydslWaveSize(Rule):
    """
    ## What it does
    Finds a wave size that is fixed at 32 and used by device code.

    ## Why is this bad?
    On CDNA (MI300, MI308, MI355) a wave has 64 lanes. Reductions over 32 leave half of each wave out, and the result
    is wrong without an error.

    ## What is allowed
    64; a size that is asked of the target; 32 under a name of its own, as in the layout of a 32x32 MFMA.

    ## How to fix it
    Write 64 for gfx942 and gfx950, or ask FlyDSL for the target's wave size.

    ## Example
    ```python
    WARP_SIZE = 32
    ```

    ## References
    - AMD Instinct MI300 instruction set architecture, section 3.1: wavefronts of 64 work-items.
    """

    code = "KL404"
    name = "flydsl-wave-size"
    severity = Severity.WARNING
    clauses = ("P1",)
    VALID = cases(
        lambda: (
            kernel("lane = tid % WARP_SIZE", top="WARP_SIZE = 64\n"),
            kernel("lane = tid % 32"),
            kernel(top="WARP_SIZE = 32\n"),
        )
    )
    INVALID = cases(lambda: (Invalid(kernel("lane = tid % WARP_SIZE", top="WARP_SIZE = 32\n"), lines=(4,)),))

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield assignments of 32 to a wave-size name that traced code reads."""
        if not applies(context):
            return
        scopes = context.module.scopes
        if not _NAMES.intersection(scopes.module.bindings):
            return
        device = traced(context)
        used = {name for scope in scopes.inner.values() if scope.function in device for name in scope.names}
        for name in sorted(_NAMES & used):
            for binding in scopes.module.bindings.get(name, ()):
                value = context.module.values.constant(binding.value) if binding.value is not None else None
                if value is not None and value.value == 32:
                    yield Finding(
                        binding.node, f"`{name}` is 32: a wave of gfx942 and gfx950 has 64 lanes", "write 64"
                    )
