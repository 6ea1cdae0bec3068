"""``kernel-lint finalize WORKSPACE``: package, lint, verify, and write the file when all pass."""

from __future__ import annotations

import json
from pathlib import Path

import click

from kernel_lint.errors import KernelLintError

_TITLES = {"package": "1. Package", "lint": "2. Lint", "verify": "3. Verify"}


@click.command(short_help="Package, lint and verify a workspace; write the file when all pass.")
@click.argument("workspace", type=click.Path(path_type=Path), default=".")
@click.option(
    "--task", type=click.Path(path_type=Path), help="Folder of reference.py, input.py, shapes.json."
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write [generated_kernel.py].")
@click.option("--root", "roots", multiple=True, type=click.Path(path_type=Path), help="More local modules.")
@click.option("--inline", multiple=True, metavar="PKG", help="Inline an installed package.")
@click.option("--backend", default="compile", show_default=True, help="How to verify: compile, emulate, ...")
@click.option("--target", "targets", multiple=True, metavar="ARCH", help="GPU architecture; may be repeated.")
@click.option("--seeds", type=click.IntRange(1), default=5, show_default=True, help="Draws for each shape.")
@click.option("--timeout", type=float, help="Seconds for one call [default: the backend's].")
@click.option(
    "--task-timeout", type=float, default=300.0, show_default=True, help="Seconds for a call of the task."
)
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(
    workspace: Path,
    task: Path | None,
    output: Path | None,
    roots: tuple[Path, ...],
    inline: tuple[str, ...],
    output_format: str,
    **verify_options: object,
) -> int:
    """Make WORKSPACE (a folder with kernel.py, or the entry file) into one checked file.

    The output is written only when the packaged file is lint-clean and verified; until then
    an existing one stays untouched. Exits 0 when it was written, 1 when a step failed.
    """
    from kernel_lint.finalize import OUTPUT_NAME, FinalizeOptions, finalize
    from kernel_lint.verify import VerifyOptions

    entry = workspace / "kernel.py" if workspace.is_dir() else workspace
    if not entry.is_file():
        raise KernelLintError(f"{entry} does not exist", "name the workspace's folder or its entry file")
    options = FinalizeOptions(
        entry=entry,
        task=task or entry.parent,
        output=output or entry.with_name(OUTPUT_NAME),
        verify=VerifyOptions(progress=_progress, **verify_options),  # type: ignore[arg-type]
        roots=roots,
        inline=inline,
    )
    result = finalize(options, lambda step: click.echo(f"{_TITLES[step]}...", err=True))
    if result.written is not None and result.verify is not None:
        from kernel_lint.gate_record import remember_packaging, remember_verdict

        remember_packaging(result.written, entry, roots, inline)
        remember_verdict(result.written, result.written.read_bytes(), options.task, result.verify)
    if output_format == "json":
        click.echo(json.dumps(result.to_json(), indent=2))
    else:
        _print(result, options.output)
    return result.exit_code


def _progress(message: str) -> None:
    if "skipped" not in message:
        click.echo(f"  {message}", err=True)


def _print(result, output: Path) -> None:  # type: ignore[no-untyped-def]
    from kernel_lint import engine, reporters
    from kernel_lint.verify.render import render_text

    click.echo(f"== {_TITLES['package']} ==\n{result.package.to_text()}\n")
    checked = engine.CheckResult(result.diagnostics, (), 1)
    click.echo(
        f"== {_TITLES['lint']} ==\n{reporters.render('concise', checked, reporters.ReportOptions())}",
        nl=False,
    )
    click.echo("clean\n" if result.lint_passed else "the packaged file is not clean: nothing was written\n")
    if result.verify is None:
        return
    click.echo(f"== {_TITLES['verify']} ==\n{render_text(result.verify)}")
    if result.written:
        click.echo(f"{output} is written.")
    else:
        click.echo(f"{output} is not written: {result.verify.headline}")
