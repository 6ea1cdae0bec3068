"""A cache of lint results on disk: one small file for each text, rule set and configuration.

The key covers everything that a result depends on: the bytes and the name of the file, the
settings, this version's own source files and the Python that runs it. Entries are written
whole and renamed into place, so that concurrent runs can share the folder; a damaged entry
is no entry. Results that depend on other files are never stored.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from kernel_lint import __version__
from kernel_lint.config import Settings
from kernel_lint.diagnostics import Applicability, Diagnostic, Edit, Fix, Severity, Span

MAX_ENTRIES = 20_000
# The engine and what it reads: a change in any of these files may change a result.
_SOURCES = ("", "source", "rules", "rules/structural")


def default_folder() -> Path:
    """Return the user's cache folder for lint results."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base, "kernel-lint", "lint")


@lru_cache(maxsize=1)
def fingerprint() -> str:
    """Return a digest of this installation: version, Python, and size and time of its sources."""
    digest = blake2b(digest_size=16)
    digest.update(f"{__version__} {sys.version_info[:3]}".encode())
    package = os.path.dirname(os.path.abspath(__file__))
    for folder in _SOURCES:
        with os.scandir(os.path.join(package, folder)) as entries:
            for entry in sorted(entries, key=lambda e: e.name):
                if entry.name.endswith((".py", ".json")):
                    status = entry.stat()
                    digest.update(f"{entry.name} {status.st_size} {status.st_mtime_ns};".encode())
    return digest.hexdigest()


class Cache:
    """Looks up and stores the findings of files under one configuration."""

    def __init__(self, settings: Settings, folder: Path | None = None) -> None:
        self._folder = folder or (Path(settings.cache_dir) if settings.cache_dir else default_folder())
        self._base = f"{fingerprint()} {settings!r}".encode()

    def key(self, path: str, data: bytes) -> str:
        """Return the key of a file's text under its name."""
        digest = blake2b(self._base, digest_size=20)
        digest.update(path.encode("utf-8", "surrogateescape") + b"\0")
        digest.update(data)
        return digest.hexdigest()

    def get(self, key: str) -> list[Diagnostic] | None:
        """Return the findings stored under a key, or None."""
        try:
            with open(self._folder / key[:2] / key, encoding="utf-8") as stream:
                return [_decode(item) for item in json.load(stream)]
        except (OSError, ValueError, KeyError, TypeError, IndexError):
            # Absent or damaged: the file is linted as if it had never been seen.
            return None

    def put(self, key: str, found: Sequence[Diagnostic]) -> None:
        """Store findings; where the folder cannot be written, nothing is stored."""
        folder = self._folder / key[:2]
        try:
            folder.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=folder)
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                json.dump([_encode(d) for d in found], stream, separators=(",", ":"))
            os.replace(name, folder / key)
        except OSError:
            return

    def prune(self) -> None:
        """Remove the oldest entries when there are too many."""
        try:
            entries = [entry for folder in os.scandir(self._folder) for entry in os.scandir(folder.path)]
            if len(entries) <= MAX_ENTRIES:
                return
            for entry in sorted(entries, key=lambda e: e.stat().st_mtime_ns)[
                : len(entries) - MAX_ENTRIES // 2
            ]:
                os.unlink(entry.path)
        except OSError:
            # Another run prunes at the same time; what is left is pruned next time.
            return


def _encode(d: Diagnostic) -> list[Any]:
    fix = None
    if d.fix is not None:
        edits = [[*_numbers(edit.span), edit.replacement] for edit in d.fix.edits]
        fix = [d.fix.message, edits, d.fix.applicability.value]
    return [
        d.code,
        d.name,
        d.severity.value,
        d.message,
        d.path,
        _numbers(d.span),
        list(d.clauses),
        d.help,
        fix,
    ]


def _numbers(span: Span) -> list[int]:
    return [span.line, span.column, span.end_line, span.end_column]


def _decode(item: list[Any]) -> Diagnostic:
    code, name, severity, message, path, span, clauses, help_text, fix = item
    made = None
    if fix is not None:
        edits = tuple(Edit(Span(*edit[:4]), edit[4]) for edit in fix[1])
        made = Fix(fix[0], edits, Applicability(fix[2]))
    return Diagnostic(
        code, name, Severity(severity), message, path, Span(*span), tuple(clauses), help_text, made
    )
