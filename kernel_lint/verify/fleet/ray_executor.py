"""Spread tasks over a Ray cluster: one GPU, or one CPU slot, for each; Ray decides where and when.

The cluster is the one that ``RAY_ADDRESS`` names; without it a private Ray of this machine is started and
ended with the run. A task whose worker or node is lost is tried again by Ray itself (``max_retries``), on
whatever node is left. Nothing of a task is kept in Ray: answers are a few kilobytes and go straight to the
driver, so that the end of a node takes none of them along.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from kernel_lint.diagnostics import Reason
from kernel_lint.errors import KernelLintError
from kernel_lint.verify.fleet.execute import find_targets, run_task
from kernel_lint.verify.fleet.executor import MAX_RETRIES, Done, Work, cpu_slots, lost_outcome, needs_gpu
from kernel_lint.verify.fleet.outcome import Outcome
from kernel_lint.verify.fleet.plan import FleetTask
from kernel_lint.verify.options import VerifyOptions
from kernel_lint.verify.stages import failed
from kernel_lint.verify.wording import counted

# Answers are small and travel by themselves; Ray asks for a store of at least 75 MiB all the same.
_STORE_BYTES = 80 << 20
_REFRESH_SECONDS = 5.0
_KNOCK_SECONDS = 10.0
_SHORT, _PREFIX = "/tmp", "klray-"
# Nodes that may be lost under one task, beyond what Ray itself retries, before it is reported as not judged.
_NODE_LOSSES = 3


class RayExecutor:
    """See :class:`kernel_lint.verify.fleet.executor.Executor`. ``jobs`` bounds a private Ray only."""

    def __init__(self, options: VerifyOptions, jobs: int | None = None, work: Work = run_task) -> None:
        self._address = os.environ.get("RAY_ADDRESS", "")
        if not self._address:
            # A private Ray, which anyone who reaches it could run code in, then listens on the loopback
            # interface only, as it does by itself on macOS (ENABLE_RAY_CLUSTER in Ray's ray_constants.py).
            os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        self._ray = _import_ray()
        self._gpu = needs_gpu(options)
        self._threads = options.threads
        self._temporary: str | None = None
        self._running: dict[Any, FleetTask] = {}
        self._losses: dict[str, list[str]] = {}
        self._refreshed, self._slots = float("-inf"), 0
        self._seen: set[str] = set()
        # Of each worker and node that is lost Ray prints pages on standard output, the report's place. Its
        # logs have them; here they are said in one line, by the verdict and by describe().
        self._hush = contextlib.ExitStack()
        self._hush.enter_context(contextlib.redirect_stdout(_Nowhere()))
        try:
            self._connect(options, jobs)
            self._work, self._again = self._remote(work, MAX_RETRIES), self._remote(work, 0)
            if self._refresh() == 0:
                raise self._no_room()
        except BaseException:
            self.close()
            raise

    def _connect(self, options: VerifyOptions, jobs: int | None) -> None:
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if self._address:
            try:
                _knock(self._address)
                self._ray.init(**quiet)
            except (OSError, ValueError, RuntimeError) as error:
                why = _first_line(error)
                raise KernelLintError(
                    f"the Ray cluster at RAY_ADDRESS={self._address} cannot be reached ({why})",
                    "start it with: ray start --head, or unset RAY_ADDRESS to use this machine alone",
                ) from None
            return
        # Sockets live below it, and their paths have to be short.
        _remove_orphans()
        self._temporary = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=_SHORT)
        cpus = (jobs or cpu_slots(options)) * self._threads
        self._ray.init(
            address="local",
            num_cpus=cpus,
            num_gpus=None if self._gpu else 0,
            include_dashboard=False,
            object_store_memory=_STORE_BYTES,
            _temp_dir=self._temporary,
            _node_ip_address="127.0.0.1",
            _system_config={"task_oom_retries": MAX_RETRIES},
            **quiet,
        )

    def _remote(self, function: Any, retries: int) -> Any:
        # max_calls 0: a worker that has a GPU keeps its warm processes for the next task too. What holds
        # memory of the GPU are the processes of reference and candidate, and they end with their task.
        how = {"num_cpus": self._threads, "num_gpus": int(self._gpu), "max_retries": retries, "max_calls": 0}
        return self._ray.remote(**how)(function)

    def _refresh(self) -> int:
        """Return how many tasks the cluster has room for now; nodes may come and go."""
        if time.monotonic() - self._refreshed > _REFRESH_SECONDS:
            with contextlib.suppress(self._ray.exceptions.RayError):
                self._seen |= self._alive()
                have = self._ray.cluster_resources()
                room = have.get("CPU", 0) // self._threads
                self._slots = int(min(room, have.get("GPU", 0)) if self._gpu else room)
                self._refreshed = time.monotonic()
        return self._slots

    def _no_room(self) -> KernelLintError:
        what = "a GPU" if self._gpu else counted(self._threads, "CPU")
        return KernelLintError(
            f"no node of the Ray cluster has {what} for a task",
            "add nodes (ray start --address=...), or choose another --backend or --threads",
        )

    def describe(self) -> str:
        """Return how many slots the cluster has, on how many nodes, and how many nodes were lost."""
        self._refreshed = float("-inf")
        nodes = self._alive()
        what = "GPU" if self._gpu else "worker"
        lost = len(self._seen - nodes)
        text = f"{counted(self._refresh(), what)} of {counted(len(nodes), 'Ray node')}"
        return f"{text} ({counted(lost, 'node')} lost on the way)" if lost else text

    def _alive(self) -> set[str]:
        return {node["NodeID"] for node in self._ray.nodes() if node.get("Alive")}

    def targets(self, options: VerifyOptions) -> tuple[str, ...]:
        """Return the targets as a worker of the cluster finds them; the driver's machine may have no GPU."""
        if options.targets or not self._gpu:
            return find_targets(options)
        with self._as_errors():
            return tuple(self._ray.get(self._remote(find_targets, MAX_RETRIES).remote(options)))

    def window(self) -> int:
        """Return two for each slot, so that Ray always has the next one at hand."""
        return max(4, 2 * self._refresh())

    def submit(self, task: FleetTask) -> None:
        """Hand a task to Ray."""
        with self._as_errors():
            self._running[self._work.remote(task)] = task

    def wait(self) -> list[Done]:
        """Return what is done, at least one task; raises :class:`KernelLintError` without a cluster."""
        done: list[Done] = []
        with self._as_errors():
            while not done:
                # A wait without end would keep Ctrl-C waiting too.
                ready, _ = self._ray.wait(list(self._running), num_returns=1, timeout=1.0)
                if ready:
                    ready, _ = self._ray.wait(list(self._running), num_returns=len(self._running), timeout=0)
                for reference in ready:
                    task = self._running.pop(reference)
                    outcome = self._outcome(task, reference)
                    if outcome is not None:
                        done.append(Done(task, outcome))
        return done

    def _outcome(self, task: FleetTask, reference: Any) -> Outcome | None:
        """Return the outcome of a task that Ray is done with, or None when it has to run again."""
        errors = self._ray.exceptions
        try:
            return Outcome.from_text(self._ray.get(reference))
        except errors.WorkerCrashedError as error:
            return self._worker_lost(task, _first_line(error).split(". ")[0])
        except errors.OutOfMemoryError as error:
            message = f"Ray ended its judge for lack of memory: {_first_line(error)}"
            return Outcome(task.key, (failed("import", Reason.ENV_ERROR, message, task.shape),))
        except (errors.NodeDiedError, errors.LocalRayletDiedError, errors.ObjectLostError) as error:
            return self._node_lost(task, _first_line(error))

    def _worker_lost(self, task: FleetTask, ending: str) -> Outcome | None:
        """Ray gave up on the task. Once more by itself: that the last node was lost proves nothing yet."""
        endings = self._losses.setdefault(task.key, [])
        endings.append(ending)
        if len(endings) < 2:
            self._running[self._again.remote(task)] = task
            return None
        return lost_outcome(task, (*(ending for _ in range(MAX_RETRIES)), *endings))

    def _node_lost(self, task: FleetTask, ending: str) -> Outcome | None:
        losses = self._losses.setdefault(f"node {task.key}", [])
        losses.append(ending)
        if len(losses) <= _NODE_LOSSES:
            self._running[self._work.remote(task)] = task
            return None
        message = f"the nodes that judged this were lost {len(losses)} times: {ending}"
        return Outcome(task.key, (failed("import", Reason.ENV_ERROR, message, task.shape),))

    @contextlib.contextmanager
    def _as_errors(self) -> Iterator[None]:
        """Turn what Ray raises about itself into errors that say what to do."""
        try:
            yield
        except self._ray.exceptions.RayTaskError as error:
            raise KernelLintError(
                f"a worker of the Ray cluster cannot run kernel-lint: {_last_line(error)}",
                "install the same kernel-lint, with its verify extra, on every node",
            ) from None
        except (self._ray.exceptions.RayError, ConnectionError) as error:
            raise KernelLintError(
                f"the Ray cluster is gone: {_first_line(error)}", "start it again and go on with --resume"
            ) from None

    def close(self) -> None:
        """Leave the cluster, which ends this run's workers; end a Ray of our own."""
        self._running = {}
        self._ray.shutdown()
        self._hush.close()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)


def _remove_orphans() -> None:
    """Remove what private Rays left whose driver was killed; each folder carries its driver's process id."""
    for folder in Path(_SHORT).glob(f"{_PREFIX}*-*"):
        owner = folder.name.split("-")[1]
        if owner.isdigit() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)


class _Nowhere(io.TextIOBase):
    def write(self, text: str) -> int:
        return len(text)


def _import_ray() -> Any:
    try:
        import ray
        import ray.exceptions
    except ModuleNotFoundError:
        raise KernelLintError(
            "--executor ray needs Ray, which is not installed",
            "pip install 'kernel-lint[fleet]', or use --executor local on this machine",
        ) from None
    return ray


def _knock(address: str) -> None:
    """Raise OSError at once where nothing listens; Ray itself would wait for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=_KNOCK_SECONDS).close()


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _last_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]
