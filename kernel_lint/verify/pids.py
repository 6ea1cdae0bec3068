"""A bound on a candidate's processes that holds for root too: a cgroup with ``pids.max``.

``RLIMIT_NPROC`` does not bind the user root (fork(2), EAGAIN), and counting processes from
outside comes late on a loaded machine: a fork bomb is a thousand processes by then. The
kernel's pids controller refuses the fork itself.

Source: the kernel's documentation of the process number controller (cgroup-v1/pids, cgroup-v2).
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_PREFIX = "kernel-lint-"


class ProcessCap:
    """One cgroup that this process, and what it will fork, is put into."""

    def __init__(self, folder: Path, home: Path) -> None:
        self._folder = folder
        self._home = home

    @classmethod
    def enter(cls, maximum: int) -> tuple[ProcessCap | None, str]:
        """Move this process into a new cgroup of at most ``maximum`` processes.

        Returns None and the reason where the machine does not allow it.
        """
        try:
            parent = _own_group()
            folder = parent / f"{_PREFIX}{os.getpid()}"
            folder.mkdir()
        except OSError as error:
            return None, f"no pids cgroup: {error.strerror or error}"
        try:
            (folder / "pids.max").write_text(str(maximum))
            (folder / "cgroup.procs").write_text(str(os.getpid()))
        except OSError as error:
            with contextlib.suppress(OSError):
                folder.rmdir()
            return None, f"no pids cgroup: {error.strerror or error}"
        return cls(folder, parent), ""

    def leave(self) -> None:
        """Move this process back and remove the cgroup, once nothing else lives in it."""
        with contextlib.suppress(OSError):
            (self._home / "cgroup.procs").write_text(str(os.getpid()))
            self._folder.rmdir()


def sweep() -> None:
    """Remove cgroups that keepers who were killed left behind; one still in use stays."""
    with contextlib.suppress(OSError):
        for folder in _own_group().glob(f"{_PREFIX}*"):
            with contextlib.suppress(OSError):
                folder.rmdir()


def _own_group() -> Path:
    """Return the folder of this process's cgroup in the hierarchy that counts processes.

    Raises OSError where there is none.
    """
    for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        _number, controllers, path = line.split(":", 2)
        if "pids" in controllers.split(","):
            return _existing(_ROOT / "pids", path)
    unified = _existing(
        _ROOT, Path("/proc/self/cgroup").read_text(encoding="utf-8").rpartition("::")[2].strip()
    )
    if "pids" not in (unified / "cgroup.controllers").read_text(encoding="utf-8").split():
        raise OSError("the pids controller is not available")
    if "pids" not in (unified / "cgroup.subtree_control").read_text(encoding="utf-8").split():
        (unified / "cgroup.subtree_control").write_text("+pids")
    return unified


def _existing(root: Path, path: str) -> Path:
    """In a container the path may be the host's; then the mounted root is ours."""
    folder = root / path.lstrip("/")
    return folder if folder.is_dir() else root
