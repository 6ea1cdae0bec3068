"""``kernel-lint check``: lint files and directories (the default command)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from kernel_lint.check_options import OPTIONS, Option, split_codes


def _split(_ctx: click.Context, _param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    return split_codes(value)


def _click_option(option: Option) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return click's form of an option."""
    declared = list(option.names)
    settings: dict[str, Any] = {"help": option.text}
    if option.kind == "flag":
        settings["is_flag"] = True
    elif option.kind == "switch":
        declared[-1] += f"/--no-{option.key}"
        settings["default"] = None
    elif option.kind in ("texts", "codes"):
        settings.update(multiple=True, metavar=option.metavar)
    else:
        types = {"path": click.Path(), "count": click.IntRange(0), "choice": click.Choice(option.choices)}
        settings.update(type=types.get(option.kind), default=option.default, metavar=option.metavar)
        settings["show_default"] = option.kind == "text" and option.default is not None
    if option.kind == "codes":
        settings["callback"] = _split
    return click.option(*declared, **settings)


def _all_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(OPTIONS):
        function = _click_option(option)(function)
    return function


@click.command(short_help="Lint files (the default command).")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@_all_options
def command(**options: Any) -> int:
    """Lint PATHS: files, directories, or '-' for standard input (default: this directory).

    Exit code 0: nothing found; 1: findings; 2: a usage, configuration or file error.
    """
    from kernel_lint import checking

    return checking.run(options)
