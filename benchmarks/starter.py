"""Starts programs from a process that is small, and says what each of them took.

Linux hands the largest resident set of whoever starts a program down to the program, so a benchmark
that has loaded much would show its own size as theirs. What starts them here is a bare Python of some
10 MB, which asks the kernel (``wait4``) what a program and the children it waited for were charged.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_SERVER = """
import json, os, sys, time
nothing = os.open(os.devnull, os.O_RDWR)
for line in sys.stdin:
    argv, env, folder, errors = json.loads(line)
    try:
        os.chdir(folder)
        moves = [(os.POSIX_SPAWN_DUP2, nothing, 0), (os.POSIX_SPAWN_DUP2, nothing, 1),
                 (os.POSIX_SPAWN_OPEN, 2, errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)]
        start = time.perf_counter()
        pid = os.posix_spawnp(argv[0], argv, env, file_actions=moves)
        _, status, usage = os.wait4(pid, 0)
        wall = time.perf_counter() - start
        answer = [os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss]
    except OSError as error:
        answer = str(error)
    print(json.dumps(answer), flush=True)
"""


@dataclass(frozen=True, slots=True)
class Spent:
    """What a program took: seconds of CPU and wall, and the largest resident set of its processes in MiB."""

    code: int
    cpu: float
    wall: float
    peak: float


class Starter:
    """Runs one program after another; started when it is first asked."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        atexit.register(self.close)

    def run(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        folder: str,
        errors: str,
        timeout: float | None = None,
    ) -> Spent:
        """Run a program to its end, its standard error in the file ``errors``.

        Raises OSError where it cannot be run, TimeoutError when it takes longer than ``timeout`` seconds.
        """
        process = self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps([list(argv), dict(env), folder, errors]) + "\n")
            process.stdin.flush()
            if not select.select([process.stdout], [], [], timeout)[0]:
                raise TimeoutError(f"no end within {timeout:g} s")
            line = process.stdout.readline()
        except (KeyboardInterrupt, TimeoutError):
            # It leads a group of its own, which Ctrl-C does not reach; nor may the program go on.
            os.killpg(process.pid, signal.SIGKILL)
            self.close()
            raise
        if not line:
            self.close()
            raise OSError(f"what starts programs ended while {argv[0]} ran")
        answer = json.loads(line)
        if isinstance(answer, str):
            raise OSError(answer)
        code, cpu, wall, kib = answer
        return Spent(code, cpu, wall, kib / 1024)

    def _start(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _SERVER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        return self._process

    def close(self) -> None:
        """End it."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()
