"""``kernel-lint describe``: what a reference computes."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.command("describe")
@click.argument("reference", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--output-format", type=click.Choice(["text", "json", "markdown"]), default="text", show_default=True
)
@click.option(
    "--output-file", type=click.Path(path_type=Path, dir_okay=False), help="Write there, not to stdout."
)
def command(reference: Path, output_format: str, output_file: Path | None) -> int:
    """Run a reference under fake tensors and say what it computes.

    Needs input.py and shapes.json beside it. Nothing is allocated or computed, so any shape can be
    described on any machine.
    """
    from kernel_lint.errors import KernelLintError

    try:
        from kernel_lint.tools import semantics, semantics_report
    except ModuleNotFoundError as error:
        remedy = "install it with `pip install 'kernel-lint[verify]'`"
        raise KernelLintError(f"describe needs {error.name}", remedy) from error

    shapes = semantics.describe(reference)
    if output_format == "json":
        text = json.dumps(semantics_report.to_json(reference, shapes), indent=2)
    elif output_format == "markdown":
        text = semantics_report.to_markdown(reference, shapes)
    else:
        text = semantics_report.to_text(reference, shapes)
    if output_file is None:
        click.echo(text.rstrip("\n"))
    else:
        output_file.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    return 0
