"""The zygote: a process that has imported torch once, and forks a worker for each job.

Importing torch and FlyDSL costs seconds, a fork milliseconds. The zygote itself never runs
anything but this module and its imports, so what it hands to a worker is clean. For each
job three processes follow each other::

    zygote -> keeper -> init (first process of a PID namespace) -> worker

The keeper holds the leash: it kills everything below it when the judge says so, when the
judge is gone, or when a limit is passed, and it tells the judge how the worker ended. The
init exists because killing the first process of a PID namespace kills all of them, however
they hid (setsid, double fork). Where there are no namespaces the keeper is a subreaper, and
hunts its descendants.

Run as ``python -c ... FD``; the judge's side is :mod:`kernel_lint.verify.session`.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import time
import traceback
from typing import NoReturn

from kernel_lint.verify import isolation, pids
from kernel_lint.verify.protocol import FAILED_TO_RUN, Job

# File descriptors of one job, in the order in which they are sent.
FD_NAMES = ("requests", "replies", "stdout", "stderr", "status", "leash")
_MAXIMUM_MESSAGE = 1 << 20
_WATCH_SECONDS = 0.05
_FIRST_PRIVATE_FD = 100
_CAP_MARGIN = 16


def serve(control_fd: int, modules: list[str]) -> NoReturn:
    """Import ``modules``, then fork a keeper for each job that arrives; ends with the judge."""
    isolation.die_with_parent()
    control = socket.socket(fileno=control_fd)
    for name in modules:
        importlib.import_module(name)
    # Everything that lives now is shared with every worker: keep the collector from touching it.
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    pids.sweep()
    control.send(b'{"ready": true}')
    while True:
        text, fds, _flags, _address = socket.recv_fds(control, _MAXIMUM_MESSAGE, len(FD_NAMES))
        if not text:
            os._exit(0)
        if os.fork() == 0:
            control.close()
            _keep(Job.from_json(text.decode()), dict(zip(FD_NAMES, fds, strict=True)))
        for fd in fds:
            os.close(fd)


def _keep(job: Job, fds: dict[str, int]) -> NoReturn:
    """Be the keeper of one job; never returns."""
    cap: pids.ProcessCap | None = None
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        isolation.die_with_parent()
        isolation.become_subreaper()
        # Room above the limit, so that the watch still sees and names what goes over it.
        cap, uncapped = (
            pids.ProcessCap.enter(job.limits.processes + _CAP_MARGIN) if job.isolate else (None, "")
        )
        entered, problems = isolation.enter_namespaces(job.device != "cpu") if job.isolate else ({}, ())
        problems += (uncapped,) if uncapped else ()
        record = isolation.Isolation(**entered, process_cap=cap is not None, problems=problems)
        ended_read, ended_write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(ended_read)
            _first_process(job, fds, record, ended_write)
        os.close(ended_write)
        for name in ("requests", "replies", "stdout", "stderr"):
            os.close(fds[name])
        _watch(job, child, ended_read, fds["leash"], fds["status"])
    except BaseException:
        _tell(fds["status"], {"harness": traceback.format_exc()})
    finally:
        if cap is not None:
            cap.leave()
        os._exit(0)


def _first_process(job: Job, fds: dict[str, int], record: isolation.Isolation, ended: int) -> NoReturn:
    """Start the worker and report how it ended; the first process of the PID namespace."""
    try:
        isolation.die_with_parent()
        worker = os.fork()
        if worker == 0:
            os.close(ended)
            _become_worker(job, fds, record)
        for fd in fds.values():
            os.close(fd)
        while True:
            pid, status = os.wait()
            if pid == worker:
                os.write(ended, str(status).encode())
                break
    finally:
        os._exit(0)


def _become_worker(job: Job, fds: dict[str, int], record: isolation.Isolation) -> NoReturn:
    """Put the standard streams and the private pipes in place, and run the worker."""
    code = FAILED_TO_RUN
    try:
        os.setsid()
        isolation.die_with_parent()
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(fds["stdout"], 1)
        os.dup2(fds["stderr"], 2)
        requests = fcntl.fcntl(fds["requests"], fcntl.F_DUPFD_CLOEXEC, _FIRST_PRIVATE_FD)
        replies = fcntl.fcntl(fds["replies"], fcntl.F_DUPFD_CLOEXEC, _FIRST_PRIVATE_FD)
        os.closerange(3, min(requests, replies))
        os.environ.clear()
        os.environ.update(job.environment)
        os.chdir(os.path.join(job.folder, "work"))
        module = importlib.import_module(f"kernel_lint.verify.{job.role}_worker")
        module.main(job, requests, replies, record)
        code = 0
    except BaseException:
        with contextlib.suppress(OSError):
            os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)


def _watch(job: Job, child: int, ended: int, leash: int, status: int) -> None:
    """Wait for the worker's end, the judge's word or a limit; then leave nothing alive."""
    verdict: dict[str, object] = {}
    next_look = time.monotonic()
    while not verdict:
        ready, _, _ = select.select([ended, leash], [], [], _WATCH_SECONDS)
        if ended in ready:
            text = os.read(ended, 64)
            verdict = {"wait_status": int(text)} if text else {"lost": True}
        elif leash in ready:
            verdict = {"killed": True}
        elif time.monotonic() >= next_look:
            started = time.monotonic()
            verdict = _over_limit(job)
            # Looking costs time in proportion to the processes of the machine; keep it under 5%.
            next_look = time.monotonic() + max(0.1, 20 * (time.monotonic() - started))
    _kill_all(child)
    _tell(status, verdict)


def _over_limit(job: Job) -> dict[str, object]:
    import psutil

    family = psutil.Process().children(recursive=True)
    if len(family) > job.limits.processes + 2:
        return {"limit": "processes", "value": len(family)}
    # Forked processes share pages: only the slow proportional count says what they really use.
    for measure in ("rss", "pss"):
        memory = 0
        for process in family:
            with contextlib.suppress(psutil.Error):
                info = process.memory_info() if measure == "rss" else process.memory_full_info()
                memory += getattr(info, measure, info.rss)
        if memory <= job.limits.memory_bytes:
            break
    else:
        return {"limit": "memory", "value": memory}
    written = sum(_written(os.path.join(job.folder, name)) for name in ("outbox", "scratch"))
    return {"limit": "disk", "value": written} if written > job.limits.disk_bytes else {}


def _written(folder: str) -> int:
    """Bytes on the disk of all files below a folder; what vanishes while it is looked at counts as none."""
    total, left = 0, [folder]
    while left:
        with contextlib.suppress(OSError), os.scandir(left.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    left.append(entry.path)
                else:
                    with contextlib.suppress(OSError):
                        total += entry.stat(follow_symlinks=False).st_blocks * 512
    return total


def _kill_all(child: int) -> None:
    """Kill the child and every descendant, also those that left its session."""
    import psutil

    deadline = time.monotonic() + 1.5
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    while time.monotonic() < deadline:
        family = psutil.Process().children(recursive=True)
        for process in family:
            with contextlib.suppress(psutil.Error):
                process.kill()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not family:
            return
        time.sleep(0.005)


def _tell(status: int, message: dict[str, object]) -> None:
    with contextlib.suppress(OSError):
        os.write(status, json.dumps(message).encode())


def main() -> NoReturn:
    """Entry point: the control socket's descriptor and the modules to import, as arguments."""
    serve(int(sys.argv[1]), sys.argv[2:])
