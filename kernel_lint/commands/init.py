"""``kernel-lint init``: a new baseline workspace."""

from __future__ import annotations

from pathlib import Path

import click

from kernel_lint.hardware import PLATFORMS


@click.command("init")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), metavar="DIR")
@click.option(
    "--reference", type=click.Path(path_type=Path), required=True, help="The PyTorch module to match."
)
@click.option(
    "--platform", type=click.Choice(PLATFORMS, case_sensitive=False), help="GPU; mi300x when not named."
)
@click.option(
    "--inputs", type=click.Path(path_type=Path), help="A file with _make_inputs; else input.py beside it."
)
@click.option("--shapes", type=click.Path(path_type=Path), help="A shapes.json; else the one beside it.")
def command(
    folder: Path, reference: Path, platform: str | None, inputs: Path | None, shapes: Path | None
) -> int:
    """Make a workspace for one kernel in DIR.

    The platform decides the framework: FlyDSL on AMD, CuteDSL on NVIDIA Hopper. A reference without
    inputs or shapes gets the smallest that it runs on, and what was assumed is said.
    """
    from kernel_lint.tools import workspace

    made = workspace.create(folder, reference, platform, inputs, shapes)
    click.echo(f"{folder}: a {made.gpu.framework} workspace for the {made.gpu.name}")
    for assumption in made.assumptions:
        click.echo(f"  assumed {assumption}")
    click.echo(f"next: edit {folder / 'kernel.py'}, then cd {folder} && kernel-lint baseline")
    return 0
