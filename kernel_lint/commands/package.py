"""``kernel-lint package ENTRY``: write a workspace as one module."""

from __future__ import annotations

from pathlib import Path

import click


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
    from kernel_lint import packaging

    return packaging.run(
        entry,
        output=output,
        roots=roots,
        inline=inline,
        keep_comments=keep_comments,
        map_file=map_file,
        explain=explain,
        output_format=output_format,
    )
