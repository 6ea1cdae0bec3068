"""Threads that a candidate starts and leaves running (rule KL303, contract clause P1).

It is known who starts a thread, so that those of torch and FlyDSL, and of native code, do not
count; what still runs when a call is over does. A daemon thread from the import is only told: it can wait
for something all the time, and does not keep the process from ending.
"""

from __future__ import annotations

import _thread
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

# Audit events where a thread is started; Python 3.12 has the first, 3.13 the second too, others neither.
EVENTS = frozenset(("_thread.start_new_thread", "_thread.start_joinable_thread"))
# A thread that has handed over its result may take this long to end.
GRACE_SECONDS = 0.2
_LONGEST_NAME = 60
# Bound before the candidate is imported, which could replace them.
_frames, _alive, _sleep, _now = sys._current_frames, threading.Thread.is_alive, time.sleep, time.monotonic


def report_starts(tell: Callable[[Any, FrameType], None]) -> None:
    """Have ``tell`` called with the function of each new thread and the frame that starts it.

    Only for a Python that raises no audit event there: it stands before the functions that start threads.
    """
    start, caller = _thread.start_new_thread, sys._getframe

    def start_new_thread(function: Any, args: Any, *kwargs: Any) -> int:
        tell(function, caller(1))
        return start(function, args, *kwargs)

    _thread.start_new_thread = start_new_thread
    vars(threading)["_start_new_thread"] = start_new_thread


@dataclass(frozen=True, slots=True)
class _Started:
    """A thread and the place of its start; ``body`` is a Thread, or the code of a bare function."""

    body: Any
    name: str
    place: str
    harmless: bool

    def is_bare(self) -> bool:
        """Whether no Thread stands for it."""
        return isinstance(self.body, CodeType)

    def runs(self) -> bool:
        """Whether it still runs."""
        if self.is_bare():
            return any(_first(frame).f_code is self.body for frame in _frames().values())
        return _alive(self.body)


class Threads:
    """The threads that the code in one file has started."""

    def __init__(self) -> None:
        self._started: list[_Started] = []
        self._told: dict[str, str] = {}
        self.imported = False

    def begun(self, function: Any, frame: FrameType, candidate: str) -> None:
        """Note that ``candidate`` starts a thread for ``function``, in ``frame`` or in one of its callers."""
        owner = getattr(function, "__self__", None)
        body = owner if isinstance(owner, threading.Thread) else getattr(function, "__code__", None)
        if body is None:
            return
        name = body.co_name if isinstance(body, CodeType) else str(body.name)
        harmless = not self.imported and isinstance(body, threading.Thread) and body.daemon
        each = _Started(body, name[:_LONGEST_NAME], _place(frame, candidate), harmless)
        if each not in self._started:
            self._started.append(each)

    def left(self, harmless: bool = False) -> list[str]:
        """Return a sentence for each place that started what is still running, after a moment of grace."""
        if not harmless:
            self._wait()
        places: dict[str, _Started] = {}
        for each in self._started:
            if each.harmless is harmless and each.runs():
                places.setdefault(each.place, each)
        # The first sentence about a place stays: a call that starts another thread each time is one finding.
        return [self._told.setdefault(place, _sentence(each)) for place, each in places.items()]

    def _wait(self) -> None:
        """Give what was started a moment to end, and forget what did."""
        deadline = _now() + GRACE_SECONDS
        while _now() < deadline:
            # A bare function has no frame before its thread has its turn: it is looked at at the end.
            self._started = [each for each in self._started if each.is_bare() or each.runs()]
            if all(each.harmless for each in self._started):
                return
            _sleep(0.005)
        self._started = [each for each in self._started if each.runs()]


def _sentence(each: _Started) -> str:
    if each.harmless:
        return f"left the daemon thread {each.name!r}, started {each.place}, running all the time"
    return (
        f"left the thread {each.name!r}, started {each.place}, running when the call was over: its work is "
        "not in the measured time, and may change the output after it was taken; do the work in "
        "Model.forward, or join() the thread (shut its pool down) before returning"
    )


def _place(frame: FrameType, candidate: str) -> str:
    """Where in the candidate a thread is started."""
    at: FrameType | None = frame
    while at is not None and at.f_code.co_filename != candidate:
        at = at.f_back
    if at is None:
        return "by code made at run time"
    within = at.f_code.co_name
    return f"at line {at.f_lineno}" + ("" if within == "<module>" else f" in {within}")


def _first(frame: FrameType) -> FrameType:
    """The frame that a thread began with."""
    while frame.f_back is not None:
        frame = frame.f_back
    return frame
