"""The judge's handle on one worker process: ask, wait with a deadline, kill, say how it ended."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from kernel_lint.diagnostics import Reason
from kernel_lint.verify.capture import Capture
from kernel_lint.verify.pace import Pace
from kernel_lint.verify.protocol import (
    FAILED_TO_RUN,
    MAXIMUM_REPLY_BYTES,
    Job,
    Reply,
    decode_doing,
    decode_reply,
    decode_seen,
    encode,
)

_START_SECONDS = 120.0
# How long a killed worker may take to be gone before the report says so.
_KILL_SECONDS = 2.0
_MOST_SEEN = 50
# The variables of the user's environment that a worker may see; no tokens, no settings.
_PASSED_ON = (
    "PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "ROCM_PATH", "CUDA_HOME",
    "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "HSA_OVERRIDE_GFX_VERSION",
)  # fmt: skip
# Large tensors come in large pages, as numpy's do: a page fault for each 4 KiB costs more than the
# arithmetic on outputs of many million elements.
_LARGE_PAGES = {"THP_MEM_ALLOC_ENABLE": "1"}
_BOOT = "import sys; sys.path[:0] = {path!r}; from kernel_lint.verify import zygote; zygote.main()"


# What is waited for, in a user's words; of other requests their name will do.
_WORDS = {
    "import": "the import of the candidate",
    "build": "the candidate's Model(...)",
    "run": "the candidate's Model.forward",
}


class HarnessError(Exception):
    """Something of ours failed; reported as ``HARNESS_ERROR`` and never blamed on the candidate."""


def base_environment() -> dict[str, str]:
    """Return the environment that every worker gets: a part of the user's, and how torch takes memory."""
    return {**{name: os.environ[name] for name in _PASSED_ON if name in os.environ}, **_LARGE_PAGES}


class Zygote:
    """A running zygote; see :mod:`kernel_lint.verify.zygote`."""

    def __init__(self, modules: tuple[str, ...]) -> None:
        if sys.platform != "linux":
            raise HarnessError(
                f"verify needs Linux to hold a candidate's processes, and this is {sys.platform}"
            )
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            ours.setsockopt(socket.SOL_SOCKET, option, 1 << 20)
        environment = {**base_environment(), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        boot = _BOOT.format(path=[str(Path(__file__).parents[2])])
        self._lock = threading.Lock()
        self._control = ours
        self._process = subprocess.Popen(
            [sys.executable, "-s", "-P", "-c", boot, str(theirs.fileno()), *modules]
            if sys.version_info >= (3, 11)
            else [sys.executable, "-s", "-c", boot, str(theirs.fileno()), *modules],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        theirs.close()
        ours.settimeout(_START_SECONDS)
        self._await_ready()

    def _await_ready(self) -> None:
        try:
            answer = self._control.recv(4096)
        except TimeoutError:
            answer = b""
        if not answer:
            self._process.kill()
            assert self._process.stderr is not None
            tail = self._process.stderr.read().decode("utf-8", "replace").strip().splitlines()
            raise HarnessError("the worker process did not start: " + (tail[-1] if tail else "no message"))

    def alive(self) -> bool:
        """Return whether it still serves."""
        return self._process.poll() is None

    def start(self, job: Job, fds: list[int]) -> None:
        """Fork a worker for ``job``; raises :class:`HarnessError` when the zygote is gone."""
        with self._lock:
            try:
                socket.send_fds(self._control, [job.to_json().encode()], fds)
            except OSError as error:
                raise HarnessError(f"the worker process is gone ({error})") from None

    def close(self) -> None:
        """End the zygote and, with it, every worker."""
        self._control.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(2)
        self._process.kill()
        self._process.wait()
        if self._process.stderr:
            self._process.stderr.close()


_zygotes: dict[tuple[str, ...], Zygote] = {}
_zygotes_lock = threading.Lock()


def shared_zygote(modules: tuple[str, ...]) -> Zygote:
    """Return this process's zygote for ``modules``, started on first use and ended at exit."""
    with _zygotes_lock:
        found = _zygotes.get(modules)
        if found is None or not found.alive():
            if not _zygotes:
                atexit.register(close_zygotes)
            found = _zygotes[modules] = Zygote(modules)
        return found


def close_zygotes() -> None:
    """End all zygotes of this process."""
    while _zygotes:
        _zygotes.popitem()[1].close()


class Session:
    """One worker process, from its start to its certain end; use as a context manager."""

    def __init__(self, zygote: Zygote, job: Job, pace: Pace | None = None) -> None:
        self.job = job
        self._pace = pace
        self._doing = ""
        self._ending: dict[str, Any] | None = None
        self._buffer = b""
        self._seen: list[dict[str, str]] = []
        self._streams = {
            "stdout": Capture(job.limits.output_bytes),
            "stderr": Capture(job.limits.output_bytes),
        }
        ends = {name: os.pipe() for name in ("requests", "replies", "stdout", "stderr", "status", "leash")}
        reads = ("requests", "leash")
        given = [ends[name][0 if name in reads else 1] for name in ends]
        self._fds = {name: pair[1 if name in reads else 0] for name, pair in ends.items()}
        self._selector = selectors.DefaultSelector()
        for name in ("replies", "stdout", "stderr", "status"):
            os.set_blocking(self._fds[name], False)
            self._selector.register(self._fds[name], selectors.EVENT_READ, name)
        os.set_blocking(self._fds["requests"], False)
        try:
            zygote.start(job, given)
        finally:
            for fd in given:
                os.close(fd)

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def folder(self) -> Path:
        """The worker's folder, with its inbox and outbox."""
        return Path(self.job.folder)

    @property
    def ended(self) -> bool:
        """Whether the worker is known to have ended."""
        return self._ending is not None

    def output(self) -> dict[str, str]:
        """Return what the worker wrote on its standard streams so far, capped."""
        return {name: capture.text() for name, capture in self._streams.items()}

    def output_bytes(self) -> int:
        """Return how much the worker wrote on its standard streams."""
        return sum(capture.total for capture in self._streams.values())

    def ask(self, op: str, seconds: float, **arguments: Any) -> Reply:
        """Send a request and wait for its reply.

        The worker's end, a reply that is none, and ``seconds`` without a reply all give a
        :class:`Reply` with ``ended`` True and a typed reason; the worker is dead by then.
        """
        if self._ending is not None:
            return self._ended(op, 0.0)
        started = time.monotonic()
        # It may be gone, or not read: what follows finds out which.
        with contextlib.suppress(OSError, TimeoutError):
            self._send(encode({"op": op, **arguments}), started + seconds)
        return self.wait(op, seconds, started)

    def wait(self, op: str, seconds: float, started: float | None = None) -> Reply:
        """Wait for the reply to ``op`` that the worker owes."""
        started = time.monotonic() if started is None else started
        closed: set[str] = set()
        while True:
            left = started + seconds - time.monotonic()
            line = self._pump(max(0.0, min(left, 0.25)), closed)
            spent = time.monotonic() - started
            reply = None if line is None else self._decode(line, op, spent)
            if reply is not None:
                return self._witnessed(reply)
            if line is not None and left > 0:
                continue
            if self._ending is not None:
                return self._ended(op, spent)
            if self._pace is not None:
                self._pace.waiting(self._at(op), spent, seconds)
            if "replies" in closed:
                self._settle()
                if self._ending is None:
                    self.kill()
                    return Reply(
                        op, False, Reason.CRASH, "closed the judge's channel and went on", {}, True, spent
                    )
                return self._ended(op, spent)
            if left <= 0:
                self.kill()
                message = f"gave no answer within {seconds:g} s and was killed"
                data = {"doing": self._doing} if self._doing else {}
                return Reply(op, False, Reason.TIMEOUT, message, data, True, spent)

    def _at(self, op: str) -> str:
        """What the worker does, for a line of progress."""
        if self.job.role == "candidate":
            return _WORDS.get(op, f"the candidate's process ({op})")
        return self._doing or f"the reference's process ({op})"

    def _send(self, data: bytes, deadline: float) -> None:
        while data:
            try:
                data = data[os.write(self._fds["requests"], data) :]
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise TimeoutError from None
                time.sleep(0.001)

    def _witnessed(self, reply: Reply) -> Reply:
        """Add what was seen so far: a worker may have been made to forget it."""
        if self._seen:
            told = reply.data.get("tampering") or []
            reply.data["tampering"] = [*told, *(seen for seen in self._seen if seen not in told)]
        return reply

    def _decode(self, line: bytes, op: str, spent: float) -> Reply | None:
        """Return the reply in a line, or None for a line that only tells what was seen."""
        try:
            doing = decode_doing(line) if self.job.role == "reference" else None
            if doing is not None:
                self._doing = doing
                return None
            seen = decode_seen(line)
            if seen is None:
                return decode_reply(line, op, spent)
            if len(self._seen) < _MOST_SEEN:
                self._seen.append(seen)
            return None
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            self.kill()
            return Reply(
                op, False, Reason.TAMPERING, f"wrote to the judge's channel ({error})", {}, True, spent
            )

    def _pump(self, timeout: float, closed: set[str]) -> bytes | None:
        """Read what there is; return a complete reply line when there is one."""
        if b"\n" in self._buffer:
            timeout = 0.0
        for key, _events in self._selector.select(timeout):
            name = key.data
            try:
                data = os.read(key.fd, 1 << 20)
            except BlockingIOError:
                continue
            if not data:
                self._selector.unregister(key.fd)
                closed.add(name)
                if name == "status" and self._ending is None:
                    self._ending = {"lost": True}
            elif name == "status":
                self._ending = json.loads(data)
            elif name == "replies":
                self._buffer += data
            else:
                self._streams[name].add(data)
        line, newline, rest = self._buffer.partition(b"\n")
        if newline:
            self._buffer = rest
            return line
        if len(self._buffer) > MAXIMUM_REPLY_BYTES:
            self._buffer = b""
            return b"too long"
        return None

    def _settle(self) -> None:
        """Give the status and the last output a moment to arrive after the channel closed."""
        deadline = time.monotonic() + 1.0
        while self._ending is None and time.monotonic() < deadline:
            self._pump(0.05, set())

    def _ended(self, op: str, spent: float) -> Reply:
        for _ in range(8):
            self._pump(0, set())
        reason, message = explain_end(self._ending or {})
        if message.endswith(f"exit status {FAILED_TO_RUN}"):
            last = self._streams["stderr"].text().strip().splitlines()[-1:]
            message += "".join(f": {line[:300]}" for line in last)
        return self._witnessed(Reply(op, False, reason, message, {}, True, spent))

    def kill(self) -> None:
        """Kill the worker and all that it started, and wait until they are gone."""
        with contextlib.suppress(OSError):
            os.write(self._fds["leash"], b"k")
        deadline = time.monotonic() + _KILL_SECONDS
        while self._ending is None and time.monotonic() < deadline:
            self._pump(0.05, set())
        if self._ending is None:
            self._ending = {"lost": True}

    def close(self) -> None:
        """Kill the worker if need be and let go of everything."""
        if not self._fds:
            return
        if self._ending is None:
            self.kill()
        self._selector.close()
        for fd in self._fds.values():
            os.close(fd)
        self._fds = {}


def explain_end(ending: dict[str, Any]) -> tuple[Reason, str]:
    """Return the typed reason and a sentence for how a worker ended without answering."""
    if "harness" in ending:
        return Reason.HARNESS_ERROR, "the keeper failed: " + str(ending["harness"]).strip().splitlines()[-1]
    if ending.get("limit") == "memory":
        return Reason.OOM, f"used {int(ending['value']) >> 20} MiB of memory, over its limit, and was killed"
    if ending.get("limit") == "disk":
        return Reason.TAMPERING, f"had written {int(ending['value']) >> 20} MiB of files when it was killed"
    if ending.get("limit") == "processes":
        return Reason.TAMPERING, f"had started {ending['value']} processes when it was killed"
    if "wait_status" not in ending:
        return Reason.HARNESS_ERROR, "was lost: its keeper ended without a word"
    status = int(ending["wait_status"])
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = f"signal {number}"
        extra = " (from outside, or by the kernel for lack of memory)" if number == signal.SIGKILL else ""
        return Reason.CRASH, f"was ended by {name}{extra}"
    return Reason.CRASH, f"ended itself with exit status {os.WEXITSTATUS(status)}"
