"""A folder of small entries by key, safe under concurrent runs and bounded in size.

Entries are written whole and renamed into place; a reader sees an old one, a new one or none.
Loaded on every run, so it imports little.
"""

from __future__ import annotations

import os
import time

MAX_ENTRIES = 20_000
MAX_BYTES = 200_000_000
# One write in so many looks whether there is too much: keys are digests, so their ends are random.
_PRUNE_ENDS = "00"


class Store:
    """Entries of bytes under hexadecimal keys, in sub-folders by the first two digits."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def read(self, key: str) -> bytes | None:
        """Return an entry, or None where there is none that can be read."""
        try:
            with open(os.path.join(self.folder, key[:2], key), "rb") as stream:
                return stream.read()
        except (OSError, ValueError):
            return None

    def write(self, key: str, data: bytes) -> None:
        """Store an entry; where the folder cannot be written, nothing is stored."""
        folder = os.path.join(self.folder, key[:2])
        temporary = os.path.join(folder, f".{os.getpid()}-{time.monotonic_ns()}")
        try:
            os.makedirs(folder, exist_ok=True)
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except (OSError, ValueError):
            return
        try:
            with open(handle, "wb") as stream:
                stream.write(data)
            os.replace(temporary, os.path.join(folder, key))
        except OSError:
            # A full disk: what was begun would only add to it.
            _remove(temporary)
            return
        if key.endswith(_PRUNE_ENDS):
            self.prune()

    def prune(self) -> None:
        """Remove the oldest entries when there are too many or they take too much room."""
        found = sorted(self._entries())
        count, size = len(found), sum(entry[1] for entry in found)
        if count <= MAX_ENTRIES and size <= MAX_BYTES:
            return
        for _, length, path in found:
            if count <= MAX_ENTRIES // 2 and size <= MAX_BYTES // 2:
                return
            _remove(path)
            count, size = count - 1, size - length

    def _entries(self) -> list[tuple[int, int, str]]:
        """Return time, size and path of all entries; those that go away meanwhile are none."""
        found = []
        for folder in _scan(self.folder):
            for entry in _scan(folder.path):
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                found.append((status.st_mtime_ns, status.st_size, entry.path))
        return found


def _scan(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (OSError, ValueError):
        return []


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        # Another run removes at the same time.
        return
