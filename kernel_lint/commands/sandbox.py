"""``kernel-lint sandbox``: a command in an isolated copy of the workspace, here or elsewhere."""

from __future__ import annotations

import signal
from pathlib import Path
from types import FrameType
from typing import Any

import click


@click.command("sandbox", context_settings={"ignore_unknown_options": False})
@click.option("--kind", type=click.Choice(["run", "profile"]), default="run", show_default=True)
@click.option(
    "--sync", "outputs", multiple=True, metavar="PATH", help="A path that comes back from the copy."
)
@click.option("--no-sync", is_flag=True, help="Let nothing come back (the default without --sync).")
@click.option(
    "--executor", type=click.Choice(["local", "ssh", "ray"]), envvar="KERNEL_LINT_EXECUTOR", default="local"
)
@click.option("--hardware", metavar="GPU", help="GPU model that the command needs, for instance MI300X.")
@click.option("--workspace", type=click.Path(path_type=Path), default=".", show_default=True)
@click.option(
    "--timeout", type=float, metavar="SECONDS", help="End the command after this time, with exit code 124."
)
@click.option(
    "--memory-mib", type=click.IntRange(1), help="End the command when its processes use more memory."
)
@click.option(
    "--processes", type=click.IntRange(1), default=4096, show_default=True, help="Most processes at once."
)
@click.option("--env", "environment", multiple=True, metavar="NAME[=VALUE]", help="Pass a variable on.")
@click.option("--host", envvar="KERNEL_LINT_HOST", help="ssh: user@machine.")
@click.option(
    "--ssh-option", "ssh_options", multiple=True, metavar="OPTION", help="ssh: an option, '-p' then '2222'."
)
@click.option(
    "--remote-python", "python", default="python3", show_default=True, help="ssh: Python on that machine."
)
@click.option("--address", envvar="RAY_ADDRESS", help="ray: the job server, http://head:8265.")
@click.option("--gpus", type=float, default=0.0, help="ray: GPUs to reserve.")
@click.argument("command_line", nargs=-1, type=click.UNPROCESSED, required=True, metavar="-- COMMAND...")
def command(
    no_sync: bool,
    outputs: tuple[str, ...],
    command_line: tuple[str, ...],
    memory_mib: int | None,
    processes: int,
    environment: tuple[str, ...],
    **settings: Any,
) -> int:
    """Run a command in an isolated copy of the workspace.

    The workspace itself stays as it is but for the paths named with --sync. The exit code is the
    command's own; 124 at --timeout, 137 at another limit, 130 when cancelled. Whatever the command
    started is gone when this returns.
    """
    from kernel_lint.tools import sandbox_spec
    from kernel_lint.tools.executors import choose

    if no_sync and outputs:
        raise click.UsageError("--no-sync and --sync exclude each other")
    limits = sandbox_spec.Limits(memory_mib * 2**20 if memory_mib else None, processes)
    values = sandbox_spec.parse_environment(environment)
    run_settings = {name: settings.pop(name) for name in ("kind", "workspace", "timeout", "hardware")}
    run = sandbox_spec.Run(command_line, outputs=outputs, limits=limits, environment=values, **run_settings)
    place = choose(settings.pop("executor"), **settings)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _cancel)
    result = place.run(run)
    if result.message:
        click.echo(f"kernel-lint: sandbox: {result.message}", err=True)
    for name in result.missing:
        click.echo(f"kernel-lint: sandbox: the command wrote no {name}", err=True)
    return result.exit_code


def _cancel(number: int, frame: FrameType | None) -> None:
    """Leave by an exception, so that the run is stopped and cleaned up on the way out."""
    del number, frame
    raise SystemExit(130)
