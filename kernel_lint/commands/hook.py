"""``kernel-lint hook``: what a coding agent's program calls."""

from __future__ import annotations

import json
import sys

import click


@click.group(short_help="Hooks for coding agents.")
def command() -> None:
    """Hooks for coding agents; each reads JSON on standard input."""


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
