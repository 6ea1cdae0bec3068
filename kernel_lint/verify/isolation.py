"""Shut the candidate's process in: namespaces, limits, capabilities, Landlock.

Each layer is tried, and what took hold is recorded in :class:`Isolation`, because a report
that claims more isolation than there was would be worse than none. The Python audit hook
(:mod:`kernel_lint.verify.audit`) is a further layer, and the only one that exists everywhere.

Sources: user_namespaces(7), pid_namespaces(7), prctl(2), getrlimit(2), capset(2).
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import site
import sys
import sysconfig
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kernel_lint.verify import landlock

_CLONE_NEWUSER, _CLONE_NEWPID, _CLONE_NEWNET, _CLONE_NEWIPC = 0x10000000, 0x20000000, 0x40000000, 0x08000000
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS, _PR_SET_DUMPABLE = 1, 36, 38, 4
_PR_CAPBSET_DROP = 24
_CAPABILITY_VERSION_3 = 0x20080522


@dataclass(frozen=True, slots=True)
class Limits:
    """What one process of a candidate may use; exceeding any ends it with a typed reason."""

    memory_bytes: int = 8 << 30
    processes: int = 64
    open_files: int = 1024
    file_bytes: int = 8 << 30
    # All files together, of one process's own folders.
    disk_bytes: int = 16 << 30
    output_bytes: int = 1 << 20


@dataclass(frozen=True, slots=True)
class Isolation:
    """Which layers were active around one process; ``problems`` says why others were not."""

    pid_namespace: bool = False
    network_namespace: bool = False
    user_namespace: bool = False
    landlock_abi: int = 0
    capabilities_dropped: bool = False
    process_cap: bool = False
    audit_hook: bool = False
    problems: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain JSON."""
        return {**asdict(self), "problems": list(self.problems)}


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends."""
    if sys.platform == "linux":
        _libc().prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def become_subreaper() -> None:
    """Become the parent of all orphans among this process's descendants."""
    if sys.platform == "linux":
        _libc().prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def enter_namespaces(gpu: bool = False) -> tuple[dict[str, bool], tuple[str, ...]]:
    """Give this process's future children a PID space, and itself a network, of their own.

    With ``gpu`` the PID space stays: in another one than that of the mounted ``/proc``, CUDA
    does not start (``cuInit`` gives 304, seen with driver 580). Returns which namespaces were
    entered and why others were not. Must be called while the process has a single thread (a
    user namespace demands it).
    """
    if sys.platform != "linux":
        return {}, (f"no namespaces on {sys.platform}",)
    user, group = os.getuid(), os.getgid()
    libc = _libc()
    pid = 0 if gpu else _CLONE_NEWPID
    kept = ("the PID namespace is shared: CUDA does not start in another",) if gpu else ()
    if libc.unshare(_CLONE_NEWUSER | pid | _CLONE_NEWNET | _CLONE_NEWIPC) == 0:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
        return {"user_namespace": True, "pid_namespace": not gpu, "network_namespace": True}, kept
    problem = f"user namespace: {os.strerror(ctypes.get_errno())}"
    if libc.unshare(pid | _CLONE_NEWNET | _CLONE_NEWIPC) == 0:
        return {"pid_namespace": not gpu, "network_namespace": True}, (problem, *kept)
    return {}, (problem, f"PID and network namespaces: {os.strerror(ctypes.get_errno())}")


def apply_limits(limits: Limits, bound_address_space: bool) -> None:
    """Set the resource limits of this process and of its descendants.

    ``bound_address_space`` is False where a GPU runtime reserves far more addresses than
    memory; the keeper's watch on resident memory then is the only bound.
    """
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_NPROC: limits.processes,
    }
    if bound_address_space:
        wanted[resource.RLIMIT_AS] = _address_space() + limits.memory_bytes
    for kind, value in wanted.items():
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))


def _address_space() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return 0
    return pages * resource.getpagesize()


def drop_capabilities() -> tuple[bool, str]:
    """Give up every capability, and the way back to them; returns success and the problem."""
    if sys.platform != "linux":
        return False, f"no capabilities on {sys.platform}"
    libc = _libc()
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    for capability in range(64):
        if libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            break
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    data = (ctypes.c_uint32 * 6)()
    if libc.capset(ctypes.byref(header), ctypes.byref(data)) != 0:
        return False, f"capset: {os.strerror(ctypes.get_errno())}"
    return True, ""


def python_paths() -> tuple[Path, ...]:
    """Return what Python, its libraries and the system's libraries need to read."""
    own = {sys.prefix, sys.base_prefix, sys.exec_prefix, str(Path(sys.executable).resolve().parent)}
    own.update(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    own.update(site.getsitepackages())
    system = (
        "/lib /lib32 /lib64 /usr/lib /usr/lib32 /usr/lib64 /usr/local/lib /usr/bin /bin /usr/share/zoneinfo "
        "/etc/ld.so.cache /etc/ld.so.conf /etc/ld.so.conf.d /etc/localtime /etc/nsswitch.conf "
        "/etc/passwd /etc/group "
        "/proc/cpuinfo /proc/meminfo /proc/stat /proc/version /proc/sys/vm /proc/sys/kernel "
        "/dev/zero /dev/random /dev/urandom /sys/devices/system /sys/fs/cgroup"
    )
    return tuple(Path(path) for path in [*sorted(own), *system.split()])


def device_nodes() -> tuple[Path, ...]:
    """Return what a GPU runtime must be able to write: its device nodes and shared memory."""
    return (Path("/dev/kfd"), Path("/dev/dri"), Path("/dev/shm"), *Path("/dev").glob("nvidia*"))


def device_paths() -> tuple[Path, ...]:
    """Return what a GPU runtime reads: ROCm or CUDA, and the topology of the machine."""
    fixed = (
        "/opt/rocm",
        "/usr/local/cuda",
        "/usr/local/nvidia",
        "/sys/class",
        "/sys/devices",
        "/sys/module",
        "/proc",
    )
    return tuple(map(Path, fixed))


def close_file_system(readable: tuple[Path, ...], writable: tuple[Path, ...]) -> tuple[int, str]:
    """Close all files but these to this process; returns Landlock's version and the problem."""
    try:
        version = landlock.restrict((*readable, Path("/proc/self")), (*writable, Path("/dev/null")))
    except OSError as error:
        return 0, str(error)
    return version, "" if version else "this kernel has no Landlock"
