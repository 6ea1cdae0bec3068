"""``--watch``: run again whenever one of the files changes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from kernel_lint import engine
from kernel_lint.config import Settings

POLL_SECONDS = 0.5


def watch(paths: Sequence[Path | str], settings: Settings, run: Callable[[], int]) -> int:
    """Run now and after every change until interrupted; return the last exit code."""
    seen = None
    code = 0
    try:
        while True:
            state = _state(paths, settings)
            if state != seen:
                seen = state
                click.clear()
                code = run()
                click.echo(
                    f"Watching {len(state)} file{'' if len(state) == 1 else 's'}; Ctrl-C stops.", err=True
                )
            time.sleep(POLL_SECONDS)
    except KeyboardInterrupt:
        return code


def _state(paths: Sequence[Path | str], settings: Settings) -> dict[str, tuple[int, int]]:
    """Return size and time of change of every file; a file that is gone is left out."""
    state = {}
    for path in engine.expand_paths(paths, settings):
        try:
            status = os.stat(path)
        except OSError:
            continue
        state[path] = (status.st_mtime_ns, status.st_size)
    return state
