"""What several formats need: paths as other machines know them, stable fingerprints, lines of source."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from kernel_lint.diagnostics import Diagnostic, Span
from kernel_lint.reporters import ReportOptions
from kernel_lint.source.module import SourceError, SourceModule

TOOL = "kernel-lint"
HOME_PAGE = "https://kernel-lint.readthedocs.io/"


def relative(path: str) -> str:
    """Return a path below the working directory relative to it, with ``/``; any other unchanged.

    Undecodable bytes of a file name become replacement characters, so that any writer takes it.
    """
    try:
        path = os.path.relpath(path) if Path(os.path.abspath(path)).is_relative_to(os.getcwd()) else path
    except ValueError:
        # On Windows: another drive than the working directory's.
        pass
    clean = path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return clean.replace(os.sep, "/")


def by_file(diagnostics: Iterable[Diagnostic]) -> Iterator[tuple[str, list[Diagnostic]]]:
    """Yield each file's path and its findings, in the order of the findings."""
    groups: dict[str, list[Diagnostic]] = {}
    for diagnostic in diagnostics:
        groups.setdefault(diagnostic.path, []).append(diagnostic)
    yield from groups.items()


def fingerprints(diagnostics: Iterable[Diagnostic]) -> list[str]:
    """Return one fingerprint for each finding, all different.

    They are made of file, code and message, and a counter where those are equal; so a finding
    keeps its own when lines are added above it.
    """
    seen: Counter[tuple[str, str, str]] = Counter()
    out = []
    for diagnostic in diagnostics:
        key = (relative(diagnostic.path), diagnostic.code, diagnostic.message)
        text = "\0".join((*key, str(seen[key])))
        seen[key] += 1
        out.append(hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32])
    return out


class SourceLines:
    """The lines of the files that findings are in, read once; a file that is gone has none."""

    def __init__(self, options: ReportOptions) -> None:
        self._known: dict[str, list[str]] = {}
        if options.source is not None:
            self._known[options.source[0]] = SourceModule.from_text(options.source[1]).lines

    def of(self, path: str) -> list[str]:
        """Return the lines of one file, without their ends."""
        if path not in self._known:
            try:
                self._known[path] = SourceModule.read(Path(path)).lines
            except SourceError:
                self._known[path] = []
        return self._known[path]

    def byte_columns(self, path: str, span: Span) -> tuple[int, int]:
        """Return start and end column of a span counted in UTF-8 bytes, from 1."""
        lines = self.of(path)
        return (
            _byte_column(lines, span.line, span.column),
            _byte_column(lines, span.end_line, span.end_column),
        )


def _byte_column(lines: list[str], line: int, column: int) -> int:
    if not 0 < line <= len(lines):
        return column
    return len(lines[line - 1][: column - 1].encode("utf-8", "surrogatepass")) + 1
