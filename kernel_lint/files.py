"""Finding, asking about and writing files.

A file is written so that a reader, or a crash, sees the old text or the new one, never a half.
Loaded on every run, so it imports little.
"""

from __future__ import annotations

import errno
import os
import stat

# Type checkers take this for true; importing typing for it would cost as much as all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path


def kind_of(path: str) -> str:
    """Return "file", "directory" or, for anything else and nothing at all, ""."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return ""
    return "file" if stat.S_ISREG(mode) else "directory" if stat.S_ISDIR(mode) else ""


def require_regular(path: str | Path) -> None:
    """Raise OSError for a pipe, a socket or a device: opening a pipe that nobody writes to never ends."""
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))


def read_regular(path: Path) -> bytes:
    """Return the bytes of a file; raises OSError, also for what is none."""
    require_regular(path)
    return path.read_bytes()


def tidy(path: str) -> str:
    """Return a path as :class:`pathlib.Path` shows it, without loading pathlib where that is easy."""
    if os.name == "nt":
        from pathlib import Path

        return str(Path(path))
    slashes = len(path) - len(path.lstrip("/"))
    root = "//" if slashes == 2 else "/" if slashes else ""
    return root + "/".join(part for part in path.split("/") if part not in ("", ".")) or "."


def python_files(root: str, excluded: Collection[str]) -> Iterator[str]:
    """Yield the ``*.py`` below a directory in a fixed order; links to directories are not followed."""
    for folder, directories, files in os.walk(root):
        directories[:] = sorted(
            d for d in directories if d not in excluded and not os.path.islink(os.path.join(folder, d))
        )
        for name in sorted(files):
            if name.endswith(".py") and name not in excluded:
                yield os.path.join(folder, name)


def replace_file(path: Path, text: str) -> None:
    """Write ``text`` as UTF-8 in place of what ``path`` holds; see :func:`replace_bytes`."""
    replace_bytes(path, text.encode("utf-8"))


def replace_bytes(path: Path, data: bytes) -> None:
    """Write ``data`` beside ``path`` and put it in its place in one step.

    A link is written through, permissions of an existing file are kept. Raises OSError.
    """
    target = path.resolve()
    temporary = target.with_name(f".{target.name}.{os.getpid()}-{os.urandom(6).hex()}")
    handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        mode = target.stat().st_mode & 0o7777 if target.exists() else 0o666 & ~_umask()
        temporary.chmod(mode)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
