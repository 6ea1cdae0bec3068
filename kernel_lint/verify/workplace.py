"""Folders and worker processes of one verify run: where each lives, and how it is started."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path
from types import TracebackType

import psutil

from kernel_lint.verify.backends import Backend, BackendContext
from kernel_lint.verify.contract import Task
from kernel_lint.verify.isolation import device_paths, python_paths
from kernel_lint.verify.options import VerifyOptions
from kernel_lint.verify.pace import Pace
from kernel_lint.verify.protocol import FOLDERS, Job
from kernel_lint.verify.session import Session, base_environment, shared_zygote

CANDIDATE_NAME = "generated_kernel.py"
# Imported by every zygote: what the workers themselves use.
_ALWAYS = (
    "torch", "numpy", "psutil", "safetensors", "torch.utils.flop_counter",
    "kernel_lint.verify.candidate_worker", "kernel_lint.verify.reference_worker",
)  # fmt: skip


# Of folders for one process; its id follows.
PREFIX = "kernel-lint-verify-"
_making = threading.Lock()
_ATTEMPTS = 50


def _remove_orphans() -> None:
    """Remove the folders of judges that were killed; each carries its judge's process id."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        owner = folder.name.removeprefix(PREFIX).split("-", 1)[0]
        if owner.isdigit() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)


def new_folder() -> Path:
    """Make a folder that, should this process be killed, the next judge on this machine removes."""
    with _making:
        return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))


def make_no_more_folders() -> None:
    """Let a thread that asks for a folder from now on wait until the process ends."""
    _making.acquire()


def remove_own_folders() -> None:
    """Remove all folders of this process, which must have no worker left and is about to end."""
    for _ in range(_ATTEMPTS):
        found = list(Path(tempfile.gettempdir()).glob(f"{PREFIX}{os.getpid()}-*"))
        if not found:
            return
        # What another thread writes meanwhile would keep a folder from going.
        for folder in found:
            shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.01)


class Workplace:
    """A private temporary folder in which each worker gets a fresh place; removed on exit."""

    def __init__(self, task: Task, source: bytes, options: VerifyOptions, backend: Backend) -> None:
        self._task = task
        self._source = source
        self._options = options
        self._backend = backend
        self._numbers = itertools.count(1)
        self.pace = Pace(options.progress)
        _remove_orphans()
        self.root = new_folder()
        self.private = self.root / "judge"
        self.private.mkdir(mode=0o700)

    def __enter__(self) -> Workplace:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self.root, ignore_errors=True)

    @property
    def task_timeout(self) -> float:
        """The limit of each thing that is asked of the task's own code, in seconds."""
        return self._options.task_timeout

    def start_candidate(self, target: str) -> Session:
        """Start a worker for the candidate, in an empty folder that holds only its file."""
        folder = self._folder(f"candidate-{next(self._numbers)}")
        module = folder / "work" / CANDIDATE_NAME
        module.write_bytes(self._source)
        module.chmod(0o444)
        context = BackendContext(target, folder / "scratch", self._options.backend_options)
        device = self._backend.device(self._options.backend_options)
        readable = (*python_paths(), Path(__file__).parents[1], *self._backend.readable())
        if device != "cpu":
            readable += device_paths()
        return self._start(
            Job(
                "candidate",
                str(folder),
                str(module),
                self._options.backend,
                target,
                device,
                dict(self._options.backend_options),
                {**self._environment(folder), **self._backend.environment(context)},
                tuple(map(str, readable)),
                (str(self._task.folder.resolve()), str(self.private)),
                self._options.limits,
                self._options.isolate,
                self._options.threads,
            )
        )

    def start_reference(self, target: str) -> Session:
        """Start the reference's worker: the task's own code, so it is limited but not shut in."""
        folder = self._folder(f"reference-{next(self._numbers)}")
        return self._start(
            Job(
                "reference",
                str(folder),
                str(self._task.reference.resolve()),
                self._options.backend,
                target,
                self._backend.device(self._options.backend_options),
                environment={**self._environment(folder), "HOME": str(Path.home())},
                isolate=False,
                threads=self._options.threads,
            )
        )

    def _start(self, job: Job) -> Session:
        return Session(shared_zygote((*_ALWAYS, *self._backend.preload())), job, self.pace)

    def _folder(self, name: str) -> Path:
        folder = self.root / name
        for part in FOLDERS:
            (folder / part).mkdir(parents=True)
        return folder

    def _environment(self, folder: Path) -> dict[str, str]:
        scratch = str(folder / "scratch")
        return {
            **base_environment(),
            "HOME": scratch,
            "TMPDIR": scratch,
            "XDG_CACHE_HOME": scratch,
            "USER": "candidate",
            "LOGNAME": "candidate",
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": str(self._options.threads),
        }
