"""``kernel-lint hook``: what a coding agent's program calls."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click


@click.group(short_help="Hooks for coding agents and for pre-commit.")
def command() -> None:
    """Hooks that other programs call."""


@command.command()
def stop() -> int:
    """Keep an agent from stopping while generated_kernel.py may not be handed in.

    Reads the stop event (stop_hook_active, cwd, session_id) and prints {"decision": "block", "reason": ...},
    or nothing to let the agent stop. Always exits 0: other codes mean other things to the caller.
    """
    from kernel_lint.integrations import stop_hook

    event = stop_hook.parse(sys.stdin.buffer.read().decode("utf-8", "replace"))
    try:
        decision = stop_hook.answer(event)
    except Exception as error:
        decision = stop_hook.failed(event, error)
    if decision is not None:
        click.echo(json.dumps(decision))
    return 0


@command.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
def package(files: tuple[Path, ...]) -> int:
    """Keep generated_kernel.py current in the workspaces that FILES belong to (for pre-commit).

    A workspace is the nearest folder with both kernel.py and generated_kernel.py. Exits 1 when a file was
    written anew, so that the commit stops and it can be staged, or when a workspace cannot be packaged.
    """
    from kernel_lint.integrations.package_hook import refresh, workspaces

    changed = False
    for folder in workspaces(files):
        message = refresh(folder)
        if message:
            click.echo(message, err=True)
            changed = True
    return 1 if changed else 0
