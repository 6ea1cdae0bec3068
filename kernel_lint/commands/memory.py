"""``kernel-lint memory``: the notes of each kernel version."""

from __future__ import annotations

import json
from pathlib import Path

import click

ACTIONS = ("create", "update", "read", "mask", "unmask", "summary", "latest", "list")


@click.command("memory")
@click.argument("action", type=click.Choice(ACTIONS))
@click.option("--workspace", type=click.Path(path_type=Path), default=".", show_default=True)
@click.option("--version", help="The version, v0, v1, ...")
@click.option("--set", "assignments", multiple=True, metavar="A.B=C", help="Set a field; JSON or plain text.")
@click.option("--append", "appends", multiple=True, metavar="A.B=C", help="Append an item to a list field.")
@click.option("--parent", help="For create: the version that this one started from.")
@click.option("--reason", help="For mask: why.")
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(
    action: str,
    workspace: Path,
    version: str | None,
    assignments: tuple[str, ...],
    appends: tuple[str, ...],
    parent: str | None,
    reason: str | None,
    output_format: str,
) -> int:
    """Keep the notes of each kernel version in memory/v<N>.json.

    create, update, mask and unmask write; read (one version, or all), latest, summary and list show.
    A masked version is skipped by read, latest and summary. Writes are atomic and locked.
    """
    from kernel_lint.tools import memory_report, memory_store

    store = memory_store.MemoryStore(workspace)
    as_json = output_format == "json"
    if action in ("create", "update", "mask", "unmask"):
        if version is None:
            raise click.UsageError(f"{action} needs --version")
        if action == "update" and not (assignments or appends):
            raise click.UsageError("update needs --set or --append")
        edits = memory_store.Edits.parse(assignments, appends)
        if action == "create":
            memory = store.create(version, edits, parent)
        elif action == "update":
            memory = store.update(version, edits)
        else:
            memory = store.mask(version, action == "mask", reason)
        path = store.path(version)
        click.echo(json.dumps(memory, indent=2) if as_json else f"{action}: {path}")
        return 0
    report = memory_report.build(store, action, version)
    click.echo(json.dumps(report.data, indent=2) if as_json else report.text)
    for note in report.notes:
        click.echo(f"kernel-lint: note: {note}", err=True)
    return 0 if report.complete else 1
