"""``kernel-lint package ENTRY``: write a workspace as one module."""

from __future__ import annotations

import json
from pathlib import Path

import click

from kernel_lint.errors import KernelLintError
from kernel_lint.files import replace_file


@click.command(name="package")
@click.argument("entry", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    default=Path("generated_kernel.py"),
    show_default=True,
    help="File to write; - for standard output.",
)
@click.option(
    "--root",
    "roots",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A further folder that holds local modules.",
)
@click.option(
    "--inline", multiple=True, metavar="PKG", help="An installed package to take in as if it were local."
)
@click.option("--keep-comments", is_flag=True, help="Keep the comments of what is kept.")
@click.option(
    "--map",
    "map_file",
    type=click.Path(path_type=Path),
    help="Write a JSON map: output line to [file, line].",
)
@click.option(
    "--explain", metavar="NAME", help="Say why NAME is in the result, or why it is not; write nothing."
)
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(
    entry: Path,
    output: Path,
    roots: tuple[Path, ...],
    inline: tuple[str, ...],
    keep_comments: bool,
    map_file: Path | None,
    explain: str | None,
    output_format: str,
) -> int:
    """Write the workspace behind ENTRY as one self-contained module.

    ENTRY is the file that defines class Model. What Model does not reach is left out; the
    report says so. An existing output file is replaced only when the new one is complete.
    """
    from kernel_lint import packager
    from kernel_lint.gate_record import remember_packaging

    if explain:
        reason = packager.explain(entry, explain, roots=roots, inline=inline)
        click.echo(json.dumps({"explain": explain, "text": reason}) if output_format == "json" else reason)
        return 0
    result = packager.package(entry, roots=roots, inline=inline, keep_comments=keep_comments)
    if str(output) == "-":
        click.echo(result.text, nl=False)
    else:
        _replace(output, result.text, entry)
        remember_packaging(output, entry, roots, inline, keep_comments)
    if map_file is not None:
        lines = {str(line): list(place) for line, place in sorted(result.provenance.items())}
        _replace(map_file, json.dumps({"output": str(output), "lines": lines}, indent=1) + "\n", entry)
    report = result.report
    if output_format == "json":
        click.echo(json.dumps({"output": str(output), **report.to_json()}, indent=2), err=str(output) == "-")
    else:
        click.echo(f"{output}: {report.to_text()}", err=True)
    return 0


def _replace(path: Path, text: str, entry: Path) -> None:
    """Write a file whole or not at all; the one that is there stays until then."""
    if path.exists() and entry.exists() and path.samefile(entry):
        raise KernelLintError(
            f"{path} is the entry itself", "choose another file with -o, so that the source is not lost"
        )
    try:
        replace_file(path, text)
    except OSError as error:
        raise KernelLintError(
            f"cannot write {path}: {error.strerror}", "give a file in a folder that exists and can be written"
        ) from error
