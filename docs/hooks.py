"""MkDocs' hook: the reference pages that are made from the code while the site is built."""

from __future__ import annotations

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from kernel_lint.cli import cli
from kernel_lint.integrations.pyproject_schema import schema


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages."""
    for name, text in (
        ("reference/commands.md", commands()),
        ("reference/configuration.md", configuration()),
    ):
        files.append(File.generated(config, name, content=text))
    return files


def commands() -> str:
    """Return the page of all commands: the help that the command line prints."""
    parts = [
        "# Command line\n",
        "Exit codes: 0 nothing found or all passed, 1 findings or a stage failed, 2 a usage, configuration",
        "or file error. `kernel-lint hook stop` always exits with 0.\n",
    ]
    context = click.Context(cli, info_name="kernel-lint")
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        parts += _command(command, name, context)
    return "\n".join(parts)


def _command(command: click.Command, name: str, parent: click.Context) -> list[str]:
    context = click.Context(command, info_name=name, parent=parent, max_content_width=100, terminal_width=100)
    parts = [f"## {name}" if parent.parent is None else f"### {parent.info_name} {name}", ""]
    parts += ["```text", command.get_help(context), "```", ""]
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            found = command.get_command(context, inner)
            assert found is not None
            parts += _command(found, inner, context)
    return parts


def configuration() -> str:
    """Return the page of all settings."""
    rows = []
    for key, item in schema()["properties"].items():
        kind = item["type"] + (f" of {item['items']['type']}s" if "items" in item else "")
        values = f": {', '.join(item['enum'])}" if "enum" in item else ""
        rows.append(f"| `{key}` | {kind}{values} |")
    return "\n".join(
        [
            "# Configuration\n",
            "The nearest `pyproject.toml` above a file that has a table `[tool.kernel-lint]` counts, and no",
            'other; `extend = "../pyproject.toml"` builds on another. Unknown keys are errors. The',
            "command line overrides the file; `--isolated` ignores it; `--show-settings` prints what holds.",
            "validate-pyproject knows the table's schema as soon as kernel-lint is installed beside it.\n",
            "| key | type |",
            "| --- | --- |",
            *rows,
            "",
        ]
    )
