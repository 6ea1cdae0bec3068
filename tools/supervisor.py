"""Run one command under limits and leave nothing of it running. Standard library only.

The sandbox starts this file, on this machine or copied to another one, as
``python3 -I supervisor.py SPEC.json``. It makes itself the reaper of orphans (Linux,
``PR_SET_CHILD_SUBREAPER``), so that a process that forks, changes its session, ignores SIGTERM and
closes its pipes is still one of its descendants, and is found in /proc and killed. It stops at the
command's end, at the time limit, at a limit on memory or processes, on SIGTERM, SIGINT or SIGHUP,
and when its standard input closes, which is how the death of whoever started it shows.

Exit codes: the command's own; 128 + N when signal N ended it; 124 at the time limit; 137 at another
limit; 130 when cancelled; 125 when the command could not be started.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import io
import json
import os
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from types import FrameType
from typing import Any

RESULT_MARK = "[kernel-lint sandbox] RESULT "
TICK_SECONDS = 0.05
LOOK_SECONDS = 0.2
TERM_GRACE_SECONDS = 0.4
KILL_SECONDS = 10.0
MAX_INLINE_BYTES = 16 << 20
PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h

TIMEOUT, LIMIT, CANCELLED, NOT_STARTED = 124, 137, 130, 125


def main(argv: list[str]) -> int:
    """Supervise the command that the spec file describes and return the exit code."""
    spec_file = Path(argv[1]).resolve()
    folder = spec_file.parent
    spec: dict[str, Any] = json.loads(spec_file.read_text(encoding="utf-8"))
    if spec.get("unpack"):
        with tarfile.open(folder / spec["unpack"]) as archive:
            archive.extractall(folder)
    result = Supervisor(spec, folder).run()
    (folder / "status.json").write_text(json.dumps(result), encoding="utf-8")
    if spec.get("inline_outputs") is not None:
        result["archive"] = _archive(folder / "work", spec["inline_outputs"])
        sys.stdout.write(f"\n{RESULT_MARK}{json.dumps(result)}\n")
        sys.stdout.flush()
    code = result["exit_code"]
    assert isinstance(code, int)
    return code


class Supervisor:
    """One command's life in ``folder/work``, with a home and a temporary folder of its own."""

    def __init__(self, spec: dict[str, Any], folder: Path) -> None:
        self.spec = spec
        self.work = folder / "work"
        self.cancelled = False
        self.peak_bytes = 0
        allowed = re.compile("|".join(spec["environment_allowed"]) or "(?!)")
        self.environment = {key: value for key, value in os.environ.items() if allowed.fullmatch(key)}
        for name, private in (("HOME", folder / "home"), ("TMPDIR", folder / "tmp")):
            private.mkdir(exist_ok=True)
            self.environment[name] = str(private)
        self.environment.update(spec["environment"])
        if spec.get("path_first"):
            path = self.environment.get("PATH", os.defpath)
            self.environment["PATH"] = os.pathsep.join([spec["path_first"], path])

    def run(self) -> dict[str, Any]:
        """Run the command to its end and return how it ended."""
        start = time.monotonic()
        _adopt_orphans()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._cancel)
        try:
            command = self._command()
            child = subprocess.Popen(
                command,
                cwd=self.work,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=self._limit,
            )
        except (OSError, ValueError, LookupError) as error:
            return self._result(NOT_STARTED, "not-started", start, str(error))
        code, reason, message = self._watch(child.pid, start)
        if reason != "exited":
            self._terminate(child.pid)
        _kill_descendants()
        child.returncode = code
        return self._result(code, reason, start, message)

    def _command(self) -> list[str]:
        """Return the command, checked against the machine and wrapped in a profiler if one is asked for."""
        self._check_hardware()
        command: list[str] = self.spec["command"]
        path = self.environment.get("PATH")
        wrappers: list[list[str]] = self.spec.get("profilers") or []
        if wrappers:
            found = [wrapper for wrapper in wrappers if shutil.which(wrapper[0], path=path)]
            if not found:
                names = ", ".join(wrapper[0] for wrapper in wrappers)
                raise LookupError(f"no profiler here: none of {names} is on PATH")
            command = [*found[0], *command]
        program = shutil.which(command[0], path=path) if os.sep not in command[0] else command[0]
        if program is None:
            raise LookupError(f"no program {command[0]!r} on PATH ({path})")
        return [program, *command[1:]]

    def _check_hardware(self) -> None:
        """Raise LookupError unless a tool of the vendor lists the GPU that the spec asks for."""
        wanted = self.spec.get("hardware")
        if not wanted:
            return
        seen = ""
        for probe in wanted["probes"]:
            if shutil.which(probe[0]):
                seen += subprocess.run(probe, capture_output=True, text=True, timeout=30, check=False).stdout
        if not re.search(rf"\b{re.escape(wanted['name'])}\b", seen, re.IGNORECASE):
            tools = ", ".join(probe[0] for probe in wanted["probes"])
            raise LookupError(f"this machine shows no {wanted['name']} (asked {tools})")

    def _limit(self) -> None:
        """Set the limits that the kernel keeps, in the child."""
        limits: dict[str, int | None] = self.spec["limits"]
        kinds = {"open_files": resource.RLIMIT_NOFILE, "file_bytes": resource.RLIMIT_FSIZE}
        for name, kind in kinds.items():
            value = limits.get(name)
            if value:
                resource.setrlimit(kind, (value, value))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def _watch(self, pid: int, start: float) -> tuple[int, str, str]:
        """Wait for the command, a limit or a cancellation; return code, reason and message."""
        timeout = self.spec.get("timeout")
        control = [sys.stdin] if self.spec.get("watch_stdin") else []
        next_look = 0.0
        while True:
            code = _reap(pid)
            if code is not None:
                return code if code >= 0 else 128 - code, "exited", ""
            if timeout and time.monotonic() - start >= timeout:
                return TIMEOUT, "timeout", f"the command ran past its limit of {timeout:g} s"
            if time.monotonic() >= next_look:
                next_look = time.monotonic() + LOOK_SECONDS
                if over := self._over_limit():
                    return LIMIT, "limit", over
            if self.cancelled:
                return CANCELLED, "cancelled", "cancelled by a signal"
            readable, _, _ = select.select(control, [], [], TICK_SECONDS)
            if readable and not os.read(sys.stdin.fileno(), 1024):
                return CANCELLED, "cancelled", "whoever started the command is gone"

    def _over_limit(self) -> str:
        """Return which limit the process tree has passed, or nothing."""
        limits: dict[str, int | None] = self.spec["limits"]
        tree = _descendants()
        used = sum(_resident_bytes(pid) for pid in tree)
        self.peak_bytes = max(self.peak_bytes, used)
        most_bytes, most_processes = limits.get("memory_bytes"), limits.get("processes")
        if most_bytes and used > most_bytes:
            return f"the command's processes used {used:,} bytes, over the limit of {most_bytes:,}"
        if most_processes and len(tree) > most_processes:
            return f"the command ran {len(tree)} processes, over the limit of {most_processes}"
        return ""

    def _terminate(self, pid: int) -> None:
        """Ask the command's process group to end, and give it a moment."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGTERM)
        deadline = time.monotonic() + TERM_GRACE_SECONDS
        while time.monotonic() < deadline and _descendants():
            _reap(pid)
            time.sleep(TICK_SECONDS / 2)

    def _cancel(self, number: int, frame: FrameType | None) -> None:
        self.cancelled = True

    def _result(self, code: int, reason: str, start: float, message: str) -> dict[str, Any]:
        return {
            "exit_code": code,
            "reason": reason,
            "message": message,
            "seconds": round(time.monotonic() - start, 3),
            "peak_bytes": self.peak_bytes,
        }


def _adopt_orphans() -> None:
    """Make descendants whose parent died children of this process. Linux only; elsewhere groups must do."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _reap(pid: int) -> int | None:
    """Collect every child that has ended; return the command's exit status if it is among them."""
    code = None
    with contextlib.suppress(ChildProcessError):
        while True:
            ended, status = os.waitpid(-1, os.WNOHANG)
            if ended == 0:
                break
            if ended == pid:
                code = os.waitstatus_to_exitcode(status)
    return code


def _descendants() -> list[int]:
    """Return the living processes below this one, from /proc (empty where there is none)."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir() if Path("/proc").is_dir() else ():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                # proc(5): "pid (comm) state ppid ..."; comm may hold anything, so cut at its last ")".
                state, parent = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
                if state not in "ZX":
                    parents[int(entry.name)] = int(parent)
    found = {os.getpid()}
    while True:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        if not more:
            return sorted(found - {os.getpid()})
        found |= more


def _resident_bytes(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
    return 0


def _kill_descendants() -> None:
    """Stop and kill everything below this process until nothing is left.

    Stopping first keeps a process that forks faster than one can kill from getting away.
    """
    deadline = time.monotonic() + KILL_SECONDS
    while time.monotonic() < deadline:
        tree = _descendants()
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in tree:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
        _reap(-1)
        if not tree:
            return
        time.sleep(0.005)


def _archive(folder: Path, names: list[str]) -> str | None:
    """Return the declared outputs as a base64 tar, or None when they are too large to send inline."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name in names:
            if (folder / name).exists():
                archive.add(folder / name, arcname=name)
    data = buffer.getvalue()
    return base64.b64encode(data).decode() if len(data) <= MAX_INLINE_BYTES else None


if __name__ == "__main__":
    sys.exit(main(sys.argv))
