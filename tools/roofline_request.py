"""What the command line asks of the roofline, as numbers."""

from __future__ import annotations

from dataclasses import dataclass

from kernel_lint.errors import KernelLintError
from kernel_lint.tools import expressions
from kernel_lint.tools.roofline import Limits, Work, limits_for


@dataclass(frozen=True, slots=True)
class RooflineRequest:
    """The options of ``kernel-lint utilization``, as given.

    The expressions count one tile (``scope`` tile) or the whole launch (kernel).
    """

    gpu: str
    dtype: str
    flops_expr: str
    bytes_expr: str
    time_ms: float
    grid_blocks: str
    variables: tuple[str, ...] = ()
    scope: str = "tile"
    blocks_per_unit: int = 1
    peak_tflops: float | None = None
    bandwidth_gbs: float | None = None
    compute_units: int | None = None

    def limits(self) -> Limits:
        """Return the hardware's side. Raises :class:`KernelLintError` for an unknown GPU or peak."""
        given = (self.peak_tflops, self.bandwidth_gbs, self.compute_units)
        return limits_for(self.gpu, self.dtype, *given)

    def work(self) -> Work:
        """Return the kernel's side. Raises :class:`KernelLintError` for an expression without a value."""
        values = expressions.parse_variables(self.variables)
        blocks = expressions.evaluate(self.grid_blocks, values)
        if blocks != int(blocks):
            raise KernelLintError(
                f"--grid-blocks is {blocks}", "give a whole number, for instance with cdiv(M, BM)"
            )
        share = 1 if self.scope == "tile" else max(int(blocks), 1)
        return Work(
            tile_flops=expressions.evaluate(self.flops_expr, values) / share,
            tile_bytes=expressions.evaluate(self.bytes_expr, values) / share,
            grid_blocks=int(blocks),
            time_ms=self.time_ms,
            blocks_per_unit=self.blocks_per_unit,
            scope=self.scope,
        )
