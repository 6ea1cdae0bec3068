"""The Python audit hook: what the candidate tries that no right candidate needs.

It is the one layer that exists on every platform, and it cannot be removed once installed
(PEP 578). Code of libraries opens files and loads shared objects all the time, so an event
counts only when the nearest frame outside the standard library belongs to the candidate;
files of the task and of the judge count whoever opens them.
"""

from __future__ import annotations

import inspect
import os
import sys
import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from kernel_lint.diagnostics import Reason
from kernel_lint.verify import threads

_MAXIMUM_RECORDS = 50
# Events that only make sense for getting at what is not the candidate's.
_INTROSPECTION = (
    "gc.get_objects",
    "gc.get_referrers",
    "gc.get_referents",
    "sys._getframe",
    "sys._current_frames",
    "object.__getattr__",
)
# Attributes that lead to a frame, and by its callers to the judge's own; reading one raises an event.
_FRAME_ATTRIBUTES = frozenset(("tb_frame", "gi_frame", "cr_frame", "ag_frame"))
_PROCESSES = (
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "os.forkpty",
    "os.spawn",
    "pty.spawn",
)
_TRACING = (
    "sys.settrace",
    "sys.setprofile",
    "sys.addaudithook",
    "threading.settrace",
    "sys._settraceallthreads",
)
_NATIVE = ("ctypes.dlopen", "ctypes.dlsym", "ctypes.addressof", "ctypes.string_at", "ctypes.cdata")
_TAMPERING = {
    **dict.fromkeys(_INTROSPECTION, "looked at interpreter frames or the garbage collector"),
    **dict.fromkeys(_PROCESSES, "started a process"),
    **dict.fromkeys(_TRACING, "traced the interpreter"),
    **dict.fromkeys(_NATIVE, "loaded or peeked at native code"),
    "resource.setrlimit": "changed the limits of its process",
    "resource.prlimit": "changed the limits of a process",
    "os.kill": "sent a signal",
    "signal.pthread_kill": "sent a signal",
}
_FILES = frozenset(
    (
        "open", "os.listdir", "os.scandir", "os.remove", "os.rename", "os.link", "os.symlink", "os.mkdir",
        "os.rmdir", "os.truncate", "os.chmod", "shutil.copyfile", "shutil.move", "glob.glob",
    )
)  # fmt: skip


class AuditLog:
    """What the hook saw; ``records`` are (reason, message) pairs, the first few of them.

    ``tell`` is called with each at once. ``threads`` are those that the candidate started.
    """

    def __init__(self, tell: Callable[[Reason, str], None] | None = None) -> None:
        self.records: list[tuple[Reason, str]] = []
        self.threads = threads.Threads()
        self._tell = tell

    def add(self, reason: Reason, message: str) -> None:
        """Note one event, once."""
        if len(self.records) < _MAXIMUM_RECORDS and (reason, message) not in self.records:
            self.records.append((reason, message))
            if self._tell is not None:
                self._tell(reason, message)


def install(
    candidate: Path,
    allowed: tuple[Path, ...],
    secret: tuple[Path, ...],
    library: tuple[Path, ...],
    tell: Callable[[Reason, str], None] | None = None,
) -> AuditLog:
    """Watch this process from now on, until it ends.

    ``allowed`` are the folders that code of the candidate may open, ``secret`` those that
    nothing in this process may, and ``library`` hold code that is not the candidate's. ``tell``
    is called at once with what is found.
    """
    log = AuditLog(tell)
    roots = tuple(os.path.realpath(path) for path in allowed)
    secrets = tuple(os.path.realpath(path) for path in secret)
    source = os.path.realpath(candidate)
    blame = _blame(source, tuple(os.path.realpath(p) for p in library))
    busy = False
    getframe = sys._getframe

    def started(function: Any, frame: FrameType) -> None:
        if blame(frame, False):
            log.threads.begun(function, frame, source)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal busy
        if busy or not _interesting(event, arguments):
            return
        busy = True
        try:
            if event in threads.EVENTS:
                started(arguments[0], getframe(1))
            else:
                _judge(event, arguments, getframe(1), log, roots, secrets, blame)
        finally:
            busy = False

    sys.addaudithook(hook)
    if sys.version_info < (3, 12):
        threads.report_starts(started)
    return log


def _interesting(event: str, arguments: tuple[Any, ...]) -> bool:
    if event == "object.__getattr__":
        return arguments[1] in _FRAME_ATTRIBUTES
    return event in _FILES or event in _TAMPERING or event in threads.EVENTS or event.startswith("socket.")


def _judge(
    event: str,
    arguments: tuple[Any, ...],
    frame: FrameType,
    log: AuditLog,
    roots: tuple[str, ...],
    secrets: tuple[str, ...],
    blame: Callable[[FrameType, bool], bool],
) -> None:
    if event in _FILES:
        path = _path(arguments)
        if path is None:
            return
        if _inside(path, secrets):
            log.add(Reason.FILE_ACCESS, f"{event} of a file of the task: {os.path.basename(path)}")
        elif not _inside(path, roots) and blame(frame, False):
            log.add(Reason.FILE_ACCESS, f"{event} of {path}")
    elif event.startswith("socket."):
        if event not in ("socket.__new__", "socket.gethostname") and blame(frame, False):
            log.add(Reason.FILE_ACCESS, f"network access ({event})")
    elif _responsible(event, frame, blame):
        log.add(Reason.TAMPERING, f"{_TAMPERING[event]} ({event})")


def _responsible(event: str, frame: FrameType, blame: Callable[[FrameType, bool], bool]) -> bool:
    """Whether the candidate caused an event, not a library that works for it."""
    if event not in _INTROSPECTION:
        return blame(frame, False)
    module = frame.f_code.co_filename
    if module == inspect.__file__ or (module == traceback.__file__ and event == "sys._getframe"):
        # They hand frames on to their caller.
        return blame(frame, False)
    if module == traceback.__file__ and frame.f_back is not None:
        return blame(frame.f_back, True)
    return blame(frame, True)


def _path(arguments: tuple[Any, ...]) -> str | None:
    value = arguments[0] if arguments else None
    if isinstance(value, (str, bytes, os.PathLike)):
        text = os.fsdecode(value)
        return None if text.startswith("<") else os.path.realpath(text)
    return None


def _inside(path: str, roots: tuple[str, ...]) -> bool:
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)


def _blame(candidate: str, library: tuple[str, ...]) -> Callable[[FrameType, bool], bool]:
    """Return a function: is the candidate what caused this frame (directly, if so asked)?"""
    standard = os.path.realpath(sysconfig.get_paths()["stdlib"])

    def is_candidate(frame: FrameType) -> bool:
        name = frame.f_code.co_filename
        if name == candidate:
            return True
        # Code made at run time (exec of a string) has no file; only the candidate makes it.
        return name.startswith("<string") or not (name.startswith("<") or _inside(name, library))

    def blamed(frame: FrameType | None, directly: bool) -> bool:
        while frame is not None:
            name = frame.f_code.co_filename
            if name.startswith("<frozen importlib"):
                return False
            in_standard = name.startswith("<frozen") or (
                name.startswith(standard) and "site-packages" not in name
            )
            if directly or not in_standard:
                return is_candidate(frame)
            frame = frame.f_back
        return False

    return blamed
