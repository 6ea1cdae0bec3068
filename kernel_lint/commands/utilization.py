"""``kernel-lint utilization``: a measured kernel under its roofline."""

from __future__ import annotations

import json
from typing import Any

import click


@click.command("utilization")
@click.option("--gpu", help="GPU model, for instance MI300X; see --list-gpus.")
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
def command(list_gpus: bool, output_format: str, **given: Any) -> int:
    """Compare a kernel's time with what the hardware allows.

    Exits 0 at 90 % of the roofline or more, 2 below it or where it cannot be told.
    """
    from kernel_lint import hardware
    from kernel_lint.tools import roofline
    from kernel_lint.tools.roofline_request import RooflineRequest

    as_json = output_format == "json"
    if list_gpus:
        table = [gpu.to_json() for gpu in hardware.GPUS]
        text = "\n\n".join(roofline.describe_gpu(gpu) for gpu in hardware.GPUS)
        click.echo(json.dumps(table, indent=2) if as_json else text)
        return 0
    needed = ("gpu", "flops_expr", "bytes_expr", "time_ms", "grid_blocks")
    if missing := [f"--{name.replace('_', '-')}" for name in needed if given[name] is None]:
        raise click.UsageError(f"missing {', '.join(missing)}")
    request = RooflineRequest(**given)
    limits, work = request.limits(), request.work()
    result = roofline.compute(limits, work)
    report = roofline.to_json(limits, work, result)
    click.echo(json.dumps(report, indent=2) if as_json else roofline.to_text(limits, work, result))
    return 0 if result.good else 2
