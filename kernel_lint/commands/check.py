"""``kernel-lint check``: lint files and directories (the default command)."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from kernel_lint import config, engine, reporters
from kernel_lint.errors import KernelLintError
from kernel_lint.source.module import SourceModule
from kernel_lint.task import read_task

_F = TypeVar("_F", bound=Callable[..., Any])


def _split(_ctx: click.Context, _param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part.strip() for item in value for part in item.split(",") if part.strip())


def _codes(name: str, text: str) -> Callable[[_F], _F]:
    return click.option(name, multiple=True, callback=_split, metavar="CODES", help=text)


@click.command(short_help="Lint files (the default command).")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@_codes("--select", "Run only these rules (codes, prefixes or names, with commas).")
@_codes("--ignore", "Leave these rules out.")
@_codes("--extend-select", "Run these rules too.")
@_codes("--extend-ignore", "Leave these rules out too.")
@click.option(
    "--per-file-ignores", multiple=True, metavar="PATTERN:CODES", help="Leave rules out in matching files."
)
@click.option("--final/--no-final", default=None, help="Treat files as the one handed in (default: by name).")
@click.option("--framework", type=click.Choice(["flydsl", "cutedsl"]), help="The kernel language.")
@click.option(
    "--reference", type=click.Path(), help="The task's reference.py, to sharpen the contract rules."
)
@click.option("--output-format", default="full", show_default=True, help="full, concise, json, ...")
@click.option("--output-file", type=click.Path(), help="Write the report there instead of standard output.")
@click.option("--config", "config_file", type=click.Path(), help="Read settings from this TOML file.")
@click.option("--isolated", is_flag=True, help="Ignore all configuration files.")
@click.option("--exit-zero", is_flag=True, help="Exit 0 even with findings.")
@click.option("--show-settings", is_flag=True, help="Print the settings and stop.")
@click.option("-j", "--jobs", type=click.IntRange(0), help="Processes for many files (0: one for each core).")
@click.option(
    "--stdin-filename", metavar="PATH", help="The name of the file that '-' reads from standard input."
)
@click.option(
    "--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Colour the output."
)
def command(**options: Any) -> int:
    """Lint PATHS: files, directories, or '-' for standard input (default: this directory).

    Exit code 0: nothing found; 1: findings; 2: a usage, configuration or file error.
    """
    paths = [Path(path) for path in options["paths"] or (".",)]
    start = Path(options["stdin_filename"] or ".") if paths == [Path("-")] else paths[0]
    settings = _settings(options, start)
    if options["show_settings"]:
        return _show(settings)
    report = reporters.ReportOptions(color=_use_color(options["color"]))
    if paths == [Path("-")]:
        result, text = _check_stdin(options["stdin_filename"] or "-", settings)
        report = replace(report, source=(options["stdin_filename"] or "-", text))
    else:
        result = engine.check_paths(paths, settings)
    _write(reporters.render(options["output_format"], result, report), options["output_file"])
    for error in result.errors:
        click.echo(f"kernel-lint: error: {error}", err=True)
    return 0 if options["exit_zero"] and not result.errors else result.exit_code


def _settings(options: dict[str, Any], start: Path) -> config.Settings:
    file = Path(options["config_file"]) if options["config_file"] else None
    if file is not None and not file.is_file():
        raise KernelLintError(f"--config: {file} is not a file", "check the path")
    settings = config.load(start, config=file, isolated=options["isolated"])
    names = ("select", "ignore", "extend_select", "extend_ignore", "final", "framework", "reference", "jobs")
    given = {name: options[name] for name in names if options[name] not in (None, ())}
    for item in options["per_file_ignores"]:
        pattern, colon, codes = item.rpartition(":")
        if not colon or not pattern:
            raise KernelLintError(
                f"--per-file-ignores: '{item}' is not PATTERN:CODES", "write e.g. 'ops/*.py:KL104'"
            )
        merged = {
            **given.get("per_file_ignores", settings.per_file_ignores),
            pattern: tuple(codes.split(",")),
        }
        given["per_file_ignores"] = merged
    return replace(settings, **given)


def _show(settings: config.Settings) -> int:
    from dataclasses import fields

    for item in fields(settings):
        click.echo(f"{item.name.replace('_', '-')} = {getattr(settings, item.name)!r}")
    return 0


def _use_color(choice: str) -> bool:
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or sys.stdout.isatty()


def _check_stdin(name: str, settings: config.Settings) -> tuple[engine.CheckResult, str]:
    module = SourceModule(name, sys.stdin.buffer.read())
    task = read_task(Path(settings.reference)) if settings.reference else None
    return engine.CheckResult(tuple(engine.check_module(module, settings, task=task)), (), 1), module.text


def _write(text: str, file: str | None) -> None:
    if file is None:
        click.echo(text, nl=False, color=True)
        return
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise KernelLintError(
            f"--output-file: {file} cannot be written: {error.strerror}", "choose another path"
        ) from error
