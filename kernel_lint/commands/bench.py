"""``kernel-lint bench``: measure the machine."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.group("bench")
def command() -> None:
    """Measure what this machine can do."""


@command.command("ceiling")
@click.option(
    "--copy-mib", type=click.IntRange(64), default=4096, show_default=True, help="Bytes moved by the copy."
)
@click.option(
    "--size", type=click.IntRange(256), default=8192, show_default=True, help="Rows of the square matrices."
)
@click.option(
    "--file", "path", type=click.Path(path_type=Path), help="Where to keep it [default: the data folder]."
)
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
def ceiling(copy_mib: int, size: int, path: Path | None, output_format: str) -> int:
    """Measure the GPU's copy bandwidth and matrix rates, and keep them for the roofline.

    ``verify`` then prefers them to the data sheet. Exits 2 where there is no GPU.
    """
    from kernel_lint.verify.performance.ceilings import measure_ceilings, store_ceilings
    from kernel_lint.verify.performance.gpu import need_gpu

    need_gpu("bench ceiling")
    found = measure_ceilings(copy_mib << 20, size)
    kept = store_ceilings(found, path)
    if output_format == "json":
        click.echo(json.dumps(found.to_json(), indent=2))
        return 0
    click.echo(f"{found.device}, torch {found.torch}, {found.date}")
    click.echo(f"  copy            {found.copy_gbs:8.0f} GB/s (bytes read plus bytes written)")
    for dtype, rate in found.matrix_tflops.items():
        click.echo(f"  matrix {dtype:<8} {rate:8.1f} TFLOPS ({size} x {size} x {size}, random values)")
    click.echo(f"kept in {kept}")
    return 0
