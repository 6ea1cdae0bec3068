"""Spread tasks over worker processes of this machine: one for each GPU, or for each CPU slot."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path

from kernel_lint.errors import KernelLintError
from kernel_lint.verify.fleet.execute import find_targets, run_task
from kernel_lint.verify.fleet.executor import MAX_RETRIES, Done, Work, cpu_slots, lost_outcome, needs_gpu
from kernel_lint.verify.fleet.outcome import Outcome
from kernel_lint.verify.fleet.plan import FleetTask
from kernel_lint.verify.fleet.worker import READY
from kernel_lint.verify.options import VerifyOptions

_COUNT_GPUS = "import torch; print(torch.cuda.device_count(), int(bool(torch.version.hip)))"
# Without the current folder on the path, which may hold a candidate's files.
_BOOT = (
    f"import sys; sys.path[:] = [{str(Path(__file__).parents[3])!r}, *filter(None, sys.path)]; "
    "from kernel_lint.verify.fleet import worker; worker.main()"
)
_END_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Slot:
    """Room for one task; ``environment`` shows its worker the GPU that it has to itself."""

    name: str
    environment: tuple[tuple[str, str], ...] = ()


class WorkerLostError(Exception):
    """A worker ended without an answer; the message says how."""


class _Worker:
    """One worker process and the two pipes to it."""

    def __init__(self, slot: Slot) -> None:
        to_read, requests = os.pipe()
        replies, to_write = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _BOOT, str(to_read), str(to_write)],
            pass_fds=(to_read, to_write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env={**os.environ, **dict(slot.environment)},
            # Ctrl-C is for the driver: it ends the workers, once the journal is closed.
            start_new_session=True,
        )
        os.close(to_read)
        os.close(to_write)
        self._requests = os.fdopen(requests, "wb")
        self._replies = os.fdopen(replies, encoding="utf-8")
        if self._replies.readline().strip() != READY:
            status = self._ending()
            self.close()
            raise KernelLintError(
                f"a worker process did not start: it {status}",
                "see its message above; try kernel-lint doctor",
            )

    def run(self, work: Work, task: FleetTask) -> str:
        try:
            pickle.dump((work, task), self._requests)
            self._requests.flush()
            line = self._replies.readline()
        except (OSError, ValueError):
            line = ""
        if not line.endswith("\n"):
            raise WorkerLostError(self._ending())
        return line.rstrip("\n")

    def _ending(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
        code = self._process.poll()
        if code is None:
            return "closed its channel and went on"
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit status {code}"

    def end(self) -> None:
        """Have it end, whatever it does, and kill it if it does not."""
        with contextlib.suppress(OSError):
            self._requests.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """End it and let go of its pipes; nobody may wait for its answer any more."""
        self.end()
        with contextlib.suppress(OSError):
            self._replies.close()


class LocalExecutor:
    """See :class:`kernel_lint.verify.fleet.executor.Executor`. ``jobs`` None takes all slots there are."""

    def __init__(self, options: VerifyOptions, jobs: int | None = None, work: Work = run_task) -> None:
        self._slots = find_slots(options, jobs)
        self._gpus = bool(self._slots[0].environment)
        self._work = work
        self._free = list(reversed(self._slots))
        self._workers: dict[str, _Worker] = {}
        self._lock = threading.Lock()
        self._closing = False
        self._pool = ThreadPoolExecutor(len(self._slots), thread_name_prefix="fleet")
        self._running: set[Future[Done]] = set()

    def describe(self) -> str:
        """Return ``4 workers on this machine``."""
        what = "GPUs" if self._gpus else "workers"
        return f"{len(self._slots)} {what if len(self._slots) != 1 else what[:-1]} of this machine"

    def targets(self, options: VerifyOptions) -> tuple[str, ...]:
        """Return the targets; the workers are on the same machine."""
        return find_targets(options)

    def window(self) -> int:
        """Return two for each worker."""
        return 2 * len(self._slots)

    def submit(self, task: FleetTask) -> None:
        """Hand a task to the first worker that is free."""
        self._running.add(self._pool.submit(self._judge, task))

    def wait(self) -> list[Done]:
        """Return what is done, at least one task; raises :class:`KernelLintError` where no worker starts."""
        # A wait without end would keep Ctrl-C waiting too.
        done: set[Future[Done]] = set()
        while not done:
            done, self._running = wait(self._running, timeout=1.0, return_when=FIRST_COMPLETED)
        return [future.result() for future in done]

    def close(self) -> None:
        """End what still runs and wait for that."""
        with self._lock:
            self._closing = True
            workers = list(self._workers.values())
        for future in self._running:
            future.cancel()
        for worker in workers:
            worker.end()
        self._pool.shutdown(wait=True, cancel_futures=True)
        for worker in workers:
            worker.close()

    def _judge(self, task: FleetTask) -> Done:
        """Judge a task on a free slot; a worker that is lost is replaced, and the task tried again."""
        with self._lock:
            slot = self._free.pop()
        try:
            lost: list[str] = []
            while len(lost) <= MAX_RETRIES:
                worker = self._worker(slot)
                try:
                    text = worker.run(self._work, task)
                except WorkerLostError as error:
                    lost.append(str(error))
                    self._discard(slot)
                    continue
                return Done(task, replace(Outcome.from_text(text), lost=tuple(lost)))
            return Done(task, lost_outcome(task, tuple(lost)))
        finally:
            with self._lock:
                self._free.append(slot)

    def _worker(self, slot: Slot) -> _Worker:
        with self._lock:
            if self._closing:
                raise KernelLintError("the run is being ended")
            known = self._workers.get(slot.name)
        if known is not None:
            return known
        worker = _Worker(slot)
        with self._lock:
            self._workers[slot.name] = worker
            late = self._closing
        if late:
            worker.end()
        return worker

    def _discard(self, slot: Slot) -> None:
        with self._lock:
            worker = self._workers.pop(slot.name, None)
        if worker is not None:
            worker.close()


def find_slots(options: VerifyOptions, jobs: int | None) -> tuple[Slot, ...]:
    """Return the slots of this machine: its GPUs where the backend needs one, else ``jobs`` CPU slots.

    ``jobs`` None means as many as there are GPUs, or as this machine's processors and memory bear.
    Raises :class:`KernelLintError` when a GPU is needed and there is none.
    """
    if not needs_gpu(options):
        count = jobs or cpu_slots(options)
        return tuple(Slot(f"cpu{number}") for number in range(count))
    variable, devices = _find_gpus()
    if not devices:
        raise KernelLintError(
            f"backend {options.backend} needs a GPU, and torch sees none here",
            "run where the GPU is, or use --backend emulate",
        )
    # More workers than GPUs would disturb each other's times.
    return tuple(Slot(f"gpu{device}", ((variable, device),)) for device in devices[:jobs])


def _find_gpus() -> tuple[str, list[str]]:
    """Return the variable that shows a process its GPUs, and the name of each GPU that we may use.

    Asked in a process of its own: a runtime that was started here would be of no use after a fork.
    """
    done = subprocess.run([sys.executable, "-c", _COUNT_GPUS], capture_output=True, text=True, check=False)
    try:
        count, amd = (int(word) for word in done.stdout.split())
    except ValueError:
        return "", []
    variable = "HIP_VISIBLE_DEVICES" if amd else "CUDA_VISIBLE_DEVICES"
    shown = [word.strip() for word in os.environ.get(variable, "").split(",") if word.strip()]
    return variable, (shown or [str(number) for number in range(count)])[:count]
