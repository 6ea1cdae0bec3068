"""The kernel, not a watcher, bounds a candidate's processes."""

from __future__ import annotations

import os
import signal

import pytest

from kernel_lint.verify.pids import ProcessCap, sweep


def _forks_that_succeed(maximum: int) -> int:
    """Enter a cap in a child process, fork until refused, and return how often it went well."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        cap, problem = ProcessCap.enter(maximum)
        made: list[int] = []
        if cap is not None:
            while len(made) < 50:
                try:
                    pid = os.fork()
                except OSError:
                    break
                if pid == 0:
                    signal.pause()
                made.append(pid)
            for pid in made:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            cap.leave()
        os.write(writing, (str(len(made)) if cap is not None else problem).encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    text = os.read(reading, 4096).decode()
    os.close(reading)
    if not text.isdigit():
        pytest.skip(text)
    return int(text)


def test_forks_beyond_the_cap_are_refused() -> None:
    # The process itself counts.
    assert _forks_that_succeed(6) == 5


def test_sweeping_leaves_what_is_in_use() -> None:
    sweep()
    assert _forks_that_succeed(3) == 2
    sweep()
