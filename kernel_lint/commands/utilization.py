"""``kernel-lint utilization``: a measured kernel under its roofline."""

from __future__ import annotations

import json

import click


@click.command("utilization")
@click.option("--gpu", "gpu_name", help="GPU model, for instance MI300X; see --list-gpus.")
@click.option(
    "--dtype", default="bf16", show_default=True, help="Type that the matrix or vector units compute in."
)
@click.option("--flops-expr", help="Operations of one tile, for instance '2*BM*BN*K'.")
@click.option("--bytes-expr", help="Bytes that one tile moves, for instance '2*(BM*K+BN*K+BM*BN)'.")
@click.option("--time-ms", type=float, help="Measured kernel time in milliseconds.")
@click.option("--grid-blocks", help="Blocks in the grid; may be an expression, 'cdiv(M,BM)*cdiv(N,BN)'.")
@click.option(
    "--var", "variables", multiple=True, metavar="NAME=VALUE", help="A variable of the expressions."
)
@click.option(
    "--scope",
    type=click.Choice(["tile", "kernel"]),
    default="tile",
    show_default=True,
    help="Whether the expressions count one tile or the whole launch.",
)
@click.option("--blocks-per-unit", default=1, show_default=True, help="Blocks resident on one compute unit.")
@click.option("--peak-tflops", type=float, help="Peak rate of a GPU that is not listed.")
@click.option("--bandwidth-gbs", type=float, help="Memory bandwidth of a GPU that is not listed.")
@click.option("--compute-units", type=int, help="Compute units of a GPU that is not listed.")
@click.option("--list-gpus", is_flag=True, help="Print all known GPUs with the source of each figure.")
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(
    gpu_name: str | None,
    dtype: str,
    flops_expr: str | None,
    bytes_expr: str | None,
    time_ms: float | None,
    grid_blocks: str | None,
    variables: tuple[str, ...],
    scope: str,
    blocks_per_unit: int,
    peak_tflops: float | None,
    bandwidth_gbs: float | None,
    compute_units: int | None,
    list_gpus: bool,
    output_format: str,
) -> int:
    """Compare a kernel's time with what the hardware allows.

    Exits 0 at 90 % of the roofline or more, 2 below it or where it cannot be told.
    """
    from kernel_lint import hardware
    from kernel_lint.tools import expressions, roofline

    as_json = output_format == "json"
    if list_gpus:
        table = [gpu.to_json() for gpu in hardware.GPUS]
        text = "\n\n".join(roofline.describe_gpu(gpu) for gpu in hardware.GPUS)
        click.echo(json.dumps(table, indent=2) if as_json else text)
        return 0
    needed: dict[str, object] = {"--gpu": gpu_name, "--flops-expr": flops_expr, "--bytes-expr": bytes_expr}
    needed |= {"--time-ms": time_ms, "--grid-blocks": grid_blocks}
    if missing := [name for name, value in needed.items() if value is None]:
        raise click.UsageError(f"missing {', '.join(missing)}")
    assert gpu_name is not None
    assert flops_expr is not None
    assert bytes_expr is not None
    assert time_ms is not None
    assert grid_blocks is not None
    limits = roofline.limits_for(gpu_name, dtype, peak_tflops, bandwidth_gbs, compute_units)
    values = expressions.parse_variables(variables)
    blocks = expressions.evaluate(grid_blocks, values)
    if blocks != int(blocks):
        raise click.BadParameter(f"{blocks} is not a whole number of blocks", param_hint="--grid-blocks")
    share = 1 if scope == "tile" else max(int(blocks), 1)
    work = roofline.Work(
        tile_flops=expressions.evaluate(flops_expr, values) / share,
        tile_bytes=expressions.evaluate(bytes_expr, values) / share,
        grid_blocks=int(blocks),
        time_ms=time_ms,
        blocks_per_unit=blocks_per_unit,
        scope=scope,
    )
    result = roofline.compute(limits, work)
    report = roofline.to_json(limits, work, result)
    click.echo(json.dumps(report, indent=2) if as_json else roofline.to_text(limits, work, result))
    return 0 if result.good else 2
