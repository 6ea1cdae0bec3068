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
_OVERRIDES = (
    "select",
    "ignore",
    "extend_select",
    "extend_ignore",
    "final",
    "framework",
    "reference",
    "jobs",
    "cache_dir",
)


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
@click.option("--fix", is_flag=True, help="Apply safe fixes.")
@click.option("--unsafe-fixes", is_flag=True, help="With --fix or --diff: unsafe fixes too.")
@click.option("--fix-only", is_flag=True, help="Fix, and report nothing that is left.")
@click.option("--diff", is_flag=True, help="Print what --fix would change; change nothing.")
@click.option("--final/--no-final", default=None, help="Treat files as the one handed in [by name].")
@click.option("--framework", type=click.Choice(["flydsl", "cutedsl"]), help="The kernel language.")
@click.option("--reference", type=click.Path(), help="The task's reference.py, to sharpen rules.")
@click.option("--output-format", default="full", show_default=True, help="full, concise, json, sarif, ...")
@click.option("--output-file", type=click.Path(), help="Write the report there instead.")
@click.option("--statistics", is_flag=True, help="Count the findings of each rule instead.")
@click.option("--config", "config_file", type=click.Path(), help="Read settings from this TOML file.")
@click.option("--isolated", is_flag=True, help="Ignore all configuration files.")
@click.option("--exit-zero", is_flag=True, help="Exit 0 even with findings.")
@click.option("--show-settings", is_flag=True, help="Print the settings and stop.")
@click.option("-j", "--jobs", type=click.IntRange(0), help="Processes for many files (0: one a core).")
@click.option("--no-cache", is_flag=True, help="Neither read nor write the cache.")
@click.option("--cache-dir", type=click.Path(), help="Where the cache lies.")
@click.option("--watch", is_flag=True, help="Lint again whenever a file changes.")
@click.option("--stdin-filename", metavar="PATH", help="The name of what '-' reads from standard input.")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Colour.")
def command(**options: Any) -> int:
    """Lint PATHS: files, directories, or '-' for standard input (default: this directory).

    Exit code 0: nothing found; 1: findings; 2: a usage, configuration or file error.
    """
    paths = [Path(path) for path in options["paths"] or (".",)]
    stdin = paths == [Path("-")]
    settings = _settings(options, Path(options["stdin_filename"] or ".") if stdin else paths[0])
    if options["show_settings"]:
        return _show(settings)
    if options["watch"]:
        from kernel_lint.watch import watch

        return watch(paths, settings, lambda: _run(paths, settings, options))
    return _run_stdin(settings, options) if stdin else _run(paths, settings, options)


def _run(paths: list[Path], settings: config.Settings, options: dict[str, Any]) -> int:
    fixed = 0
    if options["fix"] or options["fix_only"] or options["diff"]:
        from kernel_lint.fixing import fix_files

        outcome = fix_files(paths, settings, unsafe=options["unsafe_fixes"], write=not options["diff"])
        if options["diff"]:
            click.echo(outcome.diff, nl=False)
            return _with_errors(outcome.errors, 1 if outcome.diff and not options["exit_zero"] else 0)
        fixed = outcome.applied
        if options["fix_only"]:
            click.echo(_fixed_line(fixed), err=True)
            return _with_errors(outcome.errors, 0)
    result = engine.check_paths(paths, settings, use_cache=not options["no_cache"])
    _report(result, options, reporters.ReportOptions(color=_use_color(options["color"])))
    if fixed:
        click.echo(_fixed_line(fixed), err=True)
    return _with_errors(result.errors, 0 if options["exit_zero"] else result.exit_code)


def _run_stdin(settings: config.Settings, options: dict[str, Any]) -> int:
    name = options["stdin_filename"] or "-"
    module = SourceModule(name, sys.stdin.buffer.read())
    task = read_task(Path(settings.reference)) if settings.reference else None
    if options["fix"] or options["fix_only"] or options["diff"]:
        from kernel_lint.fixing import fix_module, unified_diff

        fixed = fix_module(module, settings, unsafe=options["unsafe_fixes"], task=task)
        if options["diff"]:
            text = unified_diff(name, module.text, fixed.text)
            click.echo(text, nl=False)
            return 1 if text and not options["exit_zero"] else 0
        click.echo(fixed.text, nl=False)
        left = engine.check_module(SourceModule.from_text(fixed.text, name), settings, task=task)
        result = engine.CheckResult(tuple(left), (), 1)
        return 0 if options["fix_only"] or options["exit_zero"] else result.exit_code
    result = engine.CheckResult(tuple(engine.check_module(module, settings, task=task)), (), 1)
    report = reporters.ReportOptions(color=_use_color(options["color"]), source=(name, module.text))
    _report(result, options, report)
    return 0 if options["exit_zero"] else result.exit_code


def _fixed_line(count: int) -> str:
    return f"Fixed {count} finding{'' if count == 1 else 's'}."


def _with_errors(errors: tuple[engine.FileError, ...], code: int) -> int:
    for error in errors:
        click.echo(f"kernel-lint: error: {error}", err=True)
    return 2 if errors else code


def _report(result: engine.CheckResult, options: dict[str, Any], report: reporters.ReportOptions) -> None:
    if options["statistics"]:
        text = _statistics(result)
    else:
        text = reporters.render(options["output_format"], result, report)
    _write(text, options["output_file"])


def _statistics(result: engine.CheckResult) -> str:
    from collections import Counter

    counts = Counter((d.code, d.name) for d in result.diagnostics)
    fixable = Counter(d.code for d in result.diagnostics if d.fix is not None)
    rows = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    lines = [f"{n:6}  {code}  [{'*' if fixable[code] else ' '}] {name}" for (code, name), n in rows]
    return "".join(line + "\n" for line in lines)


def _settings(options: dict[str, Any], start: Path) -> config.Settings:
    file = Path(options["config_file"]) if options["config_file"] else None
    if file is not None and not file.is_file():
        raise KernelLintError(f"--config: {file} is not a file", "check the path")
    settings = config.load(start, config=file, isolated=options["isolated"])
    given = {name: options[name] for name in _OVERRIDES if options[name] not in (None, ())}
    for item in options["per_file_ignores"]:
        pattern, colon, codes = item.rpartition(":")
        if not colon or not pattern:
            raise KernelLintError(
                f"--per-file-ignores: '{item}' is not PATTERN:CODES", "write e.g. 'ops/*.py:KL104'"
            )
        known = given.get("per_file_ignores", settings.per_file_ignores)
        given["per_file_ignores"] = {**known, pattern: tuple(codes.split(","))}
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
