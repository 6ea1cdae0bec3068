"""Landlock: the Linux kernel's own way for a process to give up access, through system calls.

Numbers and structures are those of ``linux/landlock.h``
(https://docs.kernel.org/userspace-api/landlock.html); the system call numbers are the same on
every architecture. The bindings on PyPI stop at older versions of the interface, without the
signal and socket scopes (ABI 6) that keep a candidate from killing its judge.
"""

from __future__ import annotations

import ctypes
import os
import stat
import sys
from collections.abc import Iterable
from pathlib import Path

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_GET_VERSION = 1
_RULE_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_NETWORK = 0b11  # bind and connect TCP
_SCOPES = 0b11  # abstract Unix sockets, signals

# The last file-system right that each version of the interface knows.
_FS_BITS = {1: 13, 2: 14, 3: 15, 4: 15}


class _Ruleset(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def abi_version() -> int:
    """Return the kernel's Landlock version, 0 where there is none."""
    if sys.platform != "linux":
        return 0
    version = _libc().syscall(_CREATE_RULESET, None, 0, _GET_VERSION)
    return max(0, int(version))


def restrict(readable: Iterable[Path], writable: Iterable[Path]) -> int:
    """Give up every file but those named, for this process and all that it will start.

    ``readable`` may be read and executed, ``writable`` may also be changed; folders include
    all that is in them, and paths that do not exist are left out. TCP, signals and abstract
    sockets to processes outside are given up as well where the kernel can.
    Returns the version of the interface that was used, 0 when there is none.
    Raises :class:`OSError` when the kernel has Landlock and refuses.
    """
    version = abi_version()
    if version == 0:
        return 0
    everything = (1 << _FS_BITS.get(version, 16)) - 1
    ruleset = _Ruleset(everything, _NETWORK if version >= 4 else 0, _SCOPES if version >= 6 else 0)
    size = 8 if version < 4 else 16 if version < 6 else 24
    libc = _libc()
    handle = _checked(
        libc.syscall(_CREATE_RULESET, ctypes.byref(ruleset), size, 0), "landlock_create_ruleset"
    )
    try:
        for paths, rights in ((readable, _READ), (writable, everything)):
            for path in paths:
                _allow(libc, handle, path, rights & everything)
        _checked(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "PR_SET_NO_NEW_PRIVS")
        _checked(libc.syscall(_RESTRICT_SELF, handle, 0), "landlock_restrict_self")
    finally:
        os.close(handle)
    return version


def _allow(libc: ctypes.CDLL, ruleset: int, path: Path, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= _ON_FILES
        rule = _PathBeneath(rights, place)
        _checked(
            libc.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.byref(rule), 0),
            f"landlock rule {path}",
        )
    finally:
        os.close(place)


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result
