"""The answer to a run that was made before, found again with next to nothing loaded.

An answer is what a run printed and its exit code. Its key covers everything that they depend
on: this installation, the working directory, the options, the configuration files, the names
and the bytes of all files checked. Files are read and hashed each time, so an answer is never
stale; what it saves is loading and running the linter. Runs whose outcome hangs on anything
else (a reference, a configuration that extends another, a file that cannot be read) have no
answer. Which files lay beside those checked is stored with the answer and asked again.
"""

from __future__ import annotations

import os

from kernel_lint.files import kind_of, python_files, require_regular
from kernel_lint.installation import blake2b, default_folder, fingerprint
from kernel_lint.store import Store

# Type checkers take this for true; importing typing for it would cost as much as all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from kernel_lint.config import Settings
    from kernel_lint.engine import CheckResult

    # A digest of what was read, and the times and places of what it was read from.
    State = tuple[str, tuple[object, ...]]

# Larger answers and larger files are not worth remembering.
MAX_ANSWER = 1_000_000
MAX_FILE = 5_000_000


class Request:
    """One run's command line: looks its answer up before, and stores it after the run."""

    def __init__(self, options: Mapping[str, object], paths: Sequence[str], color: bool) -> None:
        self._options, self._paths, self._color = options, tuple(paths), color
        self._folders = any(kind_of(path) == "directory" for path in paths)
        self._store = Store(str(options["cache_dir"] or default_folder()))
        self._settled = self._settings_state()
        self._before: State | None = None
        self._excluded: Collection[str] = ()

    def lookup(self) -> tuple[str, int] | None:
        """Return what the same run printed and its exit code, or None."""
        if self._settled is None:
            return None
        if self._folders:
            # Which directories are left out is in the configuration, which is not parsed here.
            known = unpack(self._store.read(self._settled[0]))
            if known is None:
                return None
            self._excluded = frozenset(_texts(known[0]))
        state = self._files_state()
        stored = unpack(self._store.read(state[0])) if state is not None else None
        if stored is None:
            return None
        code, text, beside = stored
        asked = iter(_texts(beside))
        if any(kind_of(path) != kind for path, kind in zip(asked, asked, strict=True)):
            return None
        return text.decode("utf-8"), int(code)

    def begin(self, settings: Settings) -> None:
        """Look at the files before they are checked with these settings."""
        self._excluded = frozenset(settings.exclude)
        self._before = self._files_state()

    def remember(self, text: str, code: int, result: CheckResult, settings: Settings) -> None:
        """Store the answer, unless it hangs on more than the key says.

        The files are looked at again: what changed while it was checked has no answer.
        """
        if self._before is None or self._settled is None or len(text) > MAX_ANSWER:
            return
        if result.errors or settings.reference or settings.bases:
            return
        if settings.cache_dir != self._options["cache_dir"]:
            # The configuration names another folder, which a later run would have to parse it for.
            return
        if self._settings_state() != self._settled or self._files_state() != self._before:
            return
        try:
            beside = [part for pair in result.neighbours.items() for part in pair]
            entry = pack(str(code).encode(), text.encode("utf-8"), _bytes(beside))
        except UnicodeEncodeError:
            return
        if self._folders:
            self._store.write(self._settled[0], pack(_bytes(settings.exclude)))
        self._store.write(self._before[0], entry)

    def _settings_state(self) -> State | None:
        """Return the state of all that decides how files are checked."""
        digest, stamps = blake2b(fingerprint().encode(), digest_size=20), []
        given = (os.getcwd(), self._paths, self._color, sorted(self._options.items()))
        digest.update(repr(given).encode("utf-8", "backslashreplace"))
        for path in self._configurations():
            try:
                require_regular(path)
                with open(path, "rb") as stream:
                    stamps.append(_stamp(stream.fileno()))
                    data = stream.read()
            except FileNotFoundError:
                continue
            except OSError:
                return None
            if b"kernel-lint" in data or path == self._options["config"]:
                digest.update(f"{path!r} {len(data)};".encode("utf-8", "backslashreplace") + data)
        return digest.hexdigest(), tuple(stamps)

    def _configurations(self) -> Iterator[str]:
        """Yield the files that may hold the configuration; the nearest of them that has one counts."""
        if self._options["config"]:
            yield str(self._options["config"])
        elif not self._options["isolated"]:
            start = os.path.join(os.getcwd(), self._paths[0])
            folder = start if os.path.isdir(start) else os.path.dirname(start)
            while True:
                yield os.path.join(folder, "pyproject.toml")
                if os.path.dirname(folder) == folder:
                    return
                folder = os.path.dirname(folder)

    def _files_state(self) -> State | None:
        """Return the state of the files checked, with the settings' digest; None when one cannot be read."""
        if self._settled is None:
            return None
        digest, stamps = blake2b(self._settled[0].encode(), digest_size=20), []
        for path in self._files():
            try:
                require_regular(path)
                with open(path, "rb") as stream:
                    stamp = _stamp(stream.fileno())
                    if stamp[-1] > MAX_FILE:
                        return None
                    data = stream.read()
            except (OSError, ValueError):
                return None
            stamps.append(stamp)
            digest.update(f"{path!r} {len(data)};".encode("utf-8", "backslashreplace") + data)
        return digest.hexdigest(), tuple(stamps)

    def _files(self) -> Iterator[str]:
        for path in self._paths:
            if self._folders and os.path.isdir(path):
                yield from python_files(path, self._excluded)
            else:
                yield path


def _stamp(handle: int) -> tuple[int, int, int, int]:
    """Return what changes whenever a file is written: times of change, and its place and size."""
    status = os.fstat(handle)
    return status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_size


def _bytes(texts: Sequence[str]) -> bytes:
    return "\0".join(texts).encode("utf-8", "surrogateescape")


def _texts(data: bytes) -> list[str]:
    return data.decode("utf-8", "surrogateescape").split("\0") if data else []


def pack(*parts: bytes) -> bytes:
    """Join parts so that :func:`unpack` can tell whether all of them are there unharmed."""
    rest = " ".join(str(len(part)) for part in parts).encode() + b"\n" + b"".join(parts)
    return blake2b(rest, digest_size=8).hexdigest().encode() + b"\n" + rest


def unpack(data: bytes | None) -> list[bytes] | None:
    """Return the parts that were packed, or None for what is absent or damaged."""
    digest, _, rest = (data or b"").partition(b"\n")
    if digest != blake2b(rest, digest_size=8).hexdigest().encode():
        return None
    sizes, _, body = rest.partition(b"\n")
    parts, start = [], 0
    for size in map(int, sizes.split()):
        parts.append(body[start : start + size])
        start += size
    return parts
