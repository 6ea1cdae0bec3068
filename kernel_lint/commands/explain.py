"""``kernel-lint explain``: the contract, the rules and what is missing, for an agent."""

from __future__ import annotations

import json
from pathlib import Path

import click

from kernel_lint.errors import KernelLintError


@click.command(short_help="Explain the contract, the rules and what is missing now.")
@click.argument("folder", type=click.Path(path_type=Path), default=".")
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(folder: Path, output_format: str) -> int:
    """Tell an agent all that it must know to hand in the kernel of FOLDER.

    Exits 0 whether something is missing or not; `kernel-lint gate` is the verdict.
    """
    from kernel_lint.integrations.explain import explain, to_text

    if not folder.is_dir():
        raise KernelLintError(f"{folder} is not a folder", "name the folder that the kernel is made in")
    data = explain(folder)
    click.echo(
        json.dumps(data, indent=2) if output_format == "json" else to_text(data), nl=output_format == "json"
    )
    return 0
