"""``kernel-lint rule CODE``: show a rule's page."""

from __future__ import annotations

import json

import click

from kernel_lint import registry
from kernel_lint.docgen import page
from kernel_lint.errors import KernelLintError
from kernel_lint.rule import Rule


@click.command(short_help="Show a rule's page.")
@click.argument("selector", required=False, metavar="[CODE|NAME]")
@click.option("--all", "every", is_flag=True, help="Show every rule.")
@click.option(
    "--output-format", type=click.Choice(["text", "json", "markdown"]), default="text", show_default=True
)
def command(selector: str | None, every: bool, output_format: str) -> int:
    """Show what a rule finds, why it matters, what is allowed and how to fix it."""
    if every == (selector is not None):
        raise KernelLintError("name one rule, or give --all", "e.g. kernel-lint rule KL203")
    rules = list(registry.all_rules()) if every else [registry.find_rule(selector or "")]
    if output_format == "json":
        data = [_json(rule) for rule in rules]
        click.echo(json.dumps(data if every else data[0], indent=2))
    elif every and output_format == "text":
        for rule in rules:
            click.echo(f"{rule.code}  {rule.name:20} {rule.severity.value:8} {rule.summary()}")
    else:
        click.echo("\n\n".join(page(rule) for rule in rules))
    return 0


def _json(rule: type[Rule]) -> dict[str, object]:
    return {
        "code": rule.code,
        "name": rule.name,
        "severity": rule.severity.value,
        "clauses": list(rule.clauses),
        "summary": rule.summary(),
        "documentation": rule.documentation(),
    }
