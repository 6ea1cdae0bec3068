"""``kernel-lint server``: the language server, on standard input and output."""

from __future__ import annotations

import click

from kernel_lint.errors import KernelLintError


@click.command(short_help="Run the language server for editors.")
@click.option("--stdio", is_flag=True, help="Talk on standard input and output (the default and only way).")
def command(stdio: bool) -> int:
    """Run the language server; an editor starts it. See docs/how-to/ for each editor's set-up."""
    try:
        from kernel_lint.integrations.language_server import server
    except ModuleNotFoundError as error:
        if error.name not in ("pygls", "lsprotocol"):
            raise
        message = f"the language server needs {error.name}"
        raise KernelLintError(message, "install it with `pip install 'kernel-lint[lsp]'`") from error
    from kernel_lint import engine, registry

    # The first text that is opened should not wait for the rules.
    registry.all_rules()
    engine.relax_collector()
    server.start_io()
    return 0
