"""``kernel-lint doctor``: what this machine has, and what each absence costs."""

from __future__ import annotations

import json

import click


@click.command("doctor")
@click.option("--output-format", type=click.Choice(("text", "json")), default="text", show_default=True)
def command(output_format: str) -> int:
    """Say what of torch, FlyDSL, a linker, a GPU and isolation is present here.

    Exits 0 when everything that verify requires is there, 1 otherwise.
    """
    from kernel_lint.verify.doctor import examine, report_json, report_text

    checks = examine()
    if output_format == "json":
        click.echo(json.dumps(report_json(checks), indent=2))
    else:
        click.echo(report_text(checks), nl=False)
    return 0 if all(check.present for check in checks if check.required) else 1
