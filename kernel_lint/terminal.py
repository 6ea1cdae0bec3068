"""Printing: as click does it, without loading click where the stream is an ordinary one."""

from __future__ import annotations

import os
import sys


def write(text: str, *, error: bool = False) -> None:
    """Print a text as it is, colours included, to standard output (or error)."""
    stream = sys.stderr if error else sys.stdout
    encoding = getattr(stream, "encoding", None) or ""
    if os.name == "nt" or encoding.lower().replace("-", "") != "utf8":
        # Consoles of Windows and streams that call themselves ASCII are click's business.
        import click

        click.echo(text, nl=False, err=error, color=True)
        return
    stream.write(text)
    stream.flush()


def write_bytes(data: bytes) -> None:
    """Print a file's bytes as they are to standard output."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.flush()


def use_color(choice: str) -> bool:
    """Tell whether to colour standard output: "always", "never", or "auto" for by its kind."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or sys.stdout.isatty()
