"""The flake8 plugin: entry point ``KL`` in the group ``flake8.extension``.

flake8 drops what a plugin reports on a line with a ``# noqa`` comment, and asks no plugin. In the file that
is handed in no comment may hide a finding of KL1xx to KL3xx. flake8 looks for no comment at line 0 (7.x,
``FileProcessor.noqa_line_for``), so such a finding is reported there, with its line in the text. A line
``# flake8: noqa`` makes flake8 skip the file before any plugin sees it: what that hides only
``kernel-lint`` itself finds.
"""

from __future__ import annotations

import argparse
import ast
import re
import tokenize
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

from kernel_lint import __version__, config, engine
from kernel_lint.config import Settings
from kernel_lint.diagnostics import Diagnostic, Severity
from kernel_lint.source.module import SourceModule
from kernel_lint.task import TaskFiles, read_task

# The comments that flake8 obeys (flake8.defaults, 6.0 on); without codes, or with other words, for all codes.
_NOQA = re.compile(r"#\s*noqa(?::\s?(?P<codes>([A-Z]+[0-9]+(?:[,\s]+)?)+))?", re.IGNORECASE)
_NEVER_SILENCED = ("KL1", "KL2", "KL3")
_TEXT = "(a noqa comment does not count in the file that is handed in)"

Report = tuple[int, int, str, type]


class Plugin:
    """Runs all rules on one file; ``lines`` are flake8's, so that an unsaved buffer is checked as it is."""

    name = "kernel-lint"
    version = __version__
    _disable_noqa: ClassVar[bool] = False

    def __init__(self, tree: ast.AST, filename: str, lines: list[str]) -> None:
        self._lines = lines
        self._filename = filename

    @classmethod
    def parse_options(cls, options: argparse.Namespace) -> None:
        """Remember whether ``noqa`` comments count at all in this run."""
        cls._disable_noqa = bool(getattr(options, "disable_noqa", False))

    def run(self) -> Iterator[Report]:
        """Yield ``(line, column from 0, "CODE text", type)`` for each error and warning.

        Notes are left out: flake8 has no severities, every report fails a run.
        """
        settings, task = _settings(str(Path(self._filename).parent))
        module = SourceModule.from_text("".join(self._lines), self._filename)
        found = engine.check_module(module, settings, task=task)
        found = [d for d in found if d.severity is not Severity.INFO]
        silenced: dict[int, re.Match[str]] = {}
        if engine.is_final(settings, self._filename) and not self._disable_noqa:
            silenced = _noqa_lines(self._lines)
        for d in found:
            comment = silenced.get(d.span.line)
            if comment is not None and d.code.startswith(_NEVER_SILENCED) and _covers(comment, d):
                yield 0, 0, f"{d.code} {d.name}: line {d.span.line}: {d.message} {_TEXT}", type(self)
            else:
                yield d.span.line, d.span.column - 1, f"{d.code} {d.name}: {d.message}", type(self)


@lru_cache(maxsize=256)
def _settings(folder: str) -> tuple[Settings, TaskFiles | None]:
    """Return the settings of a folder's pyproject.toml, and the task that they name."""
    settings = config.load(Path(folder))
    return settings, read_task(Path(settings.reference)) if settings.reference else None


def _covers(comment: re.Match[str], d: Diagnostic) -> bool:
    codes = comment["codes"]
    return codes is None or any(d.code.startswith(c.upper()) for c in re.split(r"[,\s]+", codes) if c)


def _noqa_lines(lines: list[str]) -> dict[int, re.Match[str]]:
    """Return the comment for every line that flake8 takes it for: all lines of a multi-line token group."""
    if not any("noqa" in line.lower() for line in lines):
        return {}
    found: dict[int, re.Match[str]] = {}
    first, last = len(lines) + 2, -1
    try:
        for token in tokenize.generate_tokens(iter(lines).__next__):
            if token.type in (tokenize.ENDMARKER, tokenize.DEDENT):
                continue
            first, last = min(first, token.start[0]), max(last, token.end[0])
            if token.type in (tokenize.NL, tokenize.NEWLINE):
                comment = _NOQA.search("".join(lines[first - 1 : last]))
                if comment is not None:
                    found.update(dict.fromkeys(range(first, last + 1), comment))
                first, last = len(lines) + 2, -1
    except (tokenize.TokenError, SyntaxError):
        # flake8 looks for no comments either in a file that has no tokens.
        return {}
    return found
