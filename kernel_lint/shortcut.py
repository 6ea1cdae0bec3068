"""``kernel-lint FILE...`` without click: loading it would take longer than the lint itself.

Plain command lines of ``check`` are read here; the answer to one that was asked before, about
the same bytes, comes from :mod:`kernel_lint.answers`. Those of ``package`` are read by
:mod:`kernel_lint.packaging`. Everything else goes through click.
"""

from __future__ import annotations

import errno
import os
import sys

from kernel_lint.check_options import parse
from kernel_lint.errors import KernelLintError
from kernel_lint.terminal import use_color, write

# Type checkers take this for true; importing typing for it would cost as much as all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

# With these, a run does more than look at files and print.
_CLICKS = ("fix", "fix_only", "diff", "output_file", "show_settings", "watch", "reference", "stdin_filename")


def run(words: Sequence[str]) -> int | None:
    """Run a plain ``check`` or ``package`` and return its exit code; None for other command lines."""
    work = _packaging(words) if words[:1] == ["package"] else _checking(words)
    if work is None:
        return None
    try:
        return work()
    except KernelLintError as error:
        write(f"kernel-lint: error: {error}\n", error=True)
        return 2
    except KeyboardInterrupt:
        write("\nkernel-lint: interrupted\n", error=True)
        return 2
    except OSError as error:
        if error.errno != errno.EPIPE:
            raise
        # The reader of our output has gone; nothing may be written to it at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _packaging(words: Sequence[str]) -> Callable[[], int] | None:
    """Return what a plain command line of ``package`` asks for, or None."""
    if "_KERNEL_LINT_COMPLETE" in os.environ:
        return None
    from kernel_lint import packaging

    options = packaging.plain(words[1:])
    return None if options is None else lambda: _package(options)


def _package(options: Mapping[str, Any]) -> int:
    import gc

    from kernel_lint import packaging

    # Nothing that is loaded or made is garbage before the end, and then all of it is.
    gc.disable()
    try:
        return packaging.run_plain(options)
    finally:
        gc.freeze()
        gc.enable()


def _checking(words: Sequence[str]) -> Callable[[], int] | None:
    """Return what a plain command line of ``check`` asks for, or None."""
    options = _plain(words)
    return None if options is None else lambda: _check(options)


def _plain(words: Sequence[str]) -> dict[str, Any] | None:
    """Return the options of a command line that needs no click, or None."""
    if not words or "_KERNEL_LINT_COMPLETE" in os.environ:
        return None
    if words[0] == "check":
        words = words[1:]
    else:
        module = words[0].replace("-", "_")
        if os.path.exists(os.path.join(os.path.dirname(__file__), "commands", f"{module}.py")):
            return None
    options = parse(words)
    if options is None or "-" in options["paths"] or any(options[name] for name in _CLICKS):  # type: ignore[operator]
        return None
    return options


def _check(options: Mapping[str, Any]) -> int:
    request = None
    if not options["no_cache"]:
        from kernel_lint.answers import Request

        request = Request(options, options["paths"] or (".",), use_color(options["color"]))
        known = request.lookup()
        if known is not None:
            write(known[0])
            return known[1]
    import gc

    # Nothing that is loaded here is ever garbage.
    gc.disable()
    from kernel_lint import checking, engine

    engine.relax_collector()
    gc.enable()
    return checking.run(options, request)
