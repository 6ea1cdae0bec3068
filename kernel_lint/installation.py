"""What this installation is, and where it keeps what it found before.

Read on every run, also on one that only repeats a known answer: this module and what it
imports must stay cheap to load.
"""

from __future__ import annotations

import os
import sys

from kernel_lint import __version__

try:
    # hashlib would load OpenSSL first, which costs as much as linting a short file from the cache.
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

# The engine and what it reads and writes with: a change in any of these files may change a result.
_SOURCES = ("", "source", "rules", "rules/structural", "reporters")
# Libraries whose findings are ours too.
_LIBRARIES = ("pyflakes/__init__.py", "ast_grep_py/__init__.py")

_known: list[str] = []

__all__ = ["blake2b", "default_folder", "fingerprint"]


def default_folder() -> str:
    """Return the user's cache folder for lint results."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "kernel-lint", "lint")


def fingerprint() -> str:
    """Return a digest of this installation: version, Python, and size and time of its sources.

    The libraries that rules ask count by size and time of their packages' first file, which
    installing another version writes anew.
    """
    if not _known:
        digest = blake2b(digest_size=16)
        digest.update(f"{__version__} {sys.version}".encode())
        package = os.path.dirname(os.path.abspath(__file__))
        for folder in _SOURCES:
            with os.scandir(os.path.join(package, folder)) as entries:
                for entry in sorted(entries, key=lambda e: e.name):
                    if entry.name.endswith((".py", ".json")):
                        status = entry.stat()
                        digest.update(f"{entry.name} {status.st_size} {status.st_mtime_ns};".encode())
        for library in _LIBRARIES:
            digest.update(_stamp(library).encode())
        _known.append(digest.hexdigest())
    return _known[0]


def _stamp(library: str) -> str:
    for folder in sys.path:
        try:
            status = os.stat(os.path.join(folder, library))
        except OSError:
            continue
        return f"{library} {status.st_size} {status.st_mtime_ns};"
    return f"{library} is not on the path;"
