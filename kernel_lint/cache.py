"""A cache of lint results on disk: one small file for each text, rule set and configuration.

The key covers everything that a result depends on: the bytes and the name of the file, the
working directory, the settings, this version's own source files and the Python that runs it.
A result that depends on which files lie beside the file is stored with the questions that the
rules asked and the answers they got; it counts only while the answers are the same. Entries
are written whole, so that concurrent runs can share the folder; a damaged entry is no entry.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence

from kernel_lint import TYPE_CHECKING
from kernel_lint.config import Settings
from kernel_lint.encoding import decode, encode
from kernel_lint.files import kind_of
from kernel_lint.installation import blake2b, default_folder, fingerprint
from kernel_lint.store import Store

if TYPE_CHECKING:
    from kernel_lint.diagnostics import Diagnostic


class Cache:
    """Looks up and stores the findings of files under one configuration."""

    def __init__(self, settings: Settings, folder: str | None = None) -> None:
        self._store = Store(folder or settings.cache_dir or default_folder())
        self._base = f"{fingerprint()} {os.getcwd()} {settings!r}".encode("utf-8", "surrogateescape")

    def key(self, path: str, data: bytes) -> str:
        """Return the key of a file's text under its name."""
        digest = blake2b(self._base, digest_size=20)
        digest.update(path.encode("utf-8", "surrogateescape") + b"\0")
        digest.update(data)
        return digest.hexdigest()

    def get(self, key: str) -> tuple[list[Diagnostic], dict[str, str]] | None:
        """Return the findings stored under a key and what they hang on, or None."""
        data = self._store.read(key)
        if data is None:
            return None
        try:
            stored = json.loads(data)
            neighbours: dict[str, str] = stored["neighbours"]
            if any(kind_of(path) != kind for path, kind in neighbours.items()):
                return None
            return [decode(item) for item in stored["found"]], neighbours
        except (ValueError, KeyError, TypeError, IndexError, AttributeError):
            # Damaged: the file is linted as if it had never been seen.
            return None

    def put(self, key: str, found: Sequence[Diagnostic], neighbours: Mapping[str, str]) -> None:
        """Store findings; where the folder cannot be written, nothing is stored."""
        data = {"found": [encode(d) for d in found], "neighbours": dict(neighbours)}
        self._store.write(key, json.dumps(data, separators=(",", ":")).encode())

    def prune(self) -> None:
        """Remove the oldest entries when there are too many."""
        self._store.prune()
