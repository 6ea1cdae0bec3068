"""Run as a job of an existing Ray cluster (Ray's job submission API)."""

from __future__ import annotations

import base64
import io
import json
import shutil
import sys
import tarfile
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel_lint.errors import KernelLintError
from kernel_lint.hardware import get_gpu
from kernel_lint.tools import sandbox_spec
from kernel_lint.tools.executors import local
from kernel_lint.tools.sandbox_spec import Run, RunResult
from kernel_lint.tools.supervisor import RESULT_MARK

_ACCELERATORS = {"MI308X": "AMD-Instinct-MI308X", "H100-PCIe": "H100"}
"""Names that differ from the rule in ray.util.accelerators."""

POLL_SECONDS = 0.5
STOP_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class RayExecutor:
    """``address`` of the cluster's job server, for instance ``http://head:8265``.

    ``gpus`` are reserved for the job; with ``Run.hardware`` also Ray's ``accelerator_type`` resource.
    """

    address: str | None = None
    gpus: float = 0.0

    def run(self, run: Run, output: Path | None = None) -> RunResult:
        """See :class:`kernel_lint.tools.sandbox_spec.Executor`.

        Outputs travel in the job's log, as one compressed line of 16 MiB at most.
        """
        run.checked()
        client = self._client()
        with tempfile.TemporaryDirectory(prefix="kernel-lint-", ignore_cleanup_errors=True) as name:
            folder = Path(name)
            sandbox_spec.stage(run, folder)
            # Ray leaves out what a .gitignore names, so the copy travels as one archive.
            with tarfile.open(folder / "work.tar", "w") as archive_file:
                archive_file.add(folder / "work", arcname="work")
            shutil.rmtree(folder / "work")
            more = {"watch_stdin": False, "unpack": "work.tar", "inline_outputs": list(run.brought_back)}
            (folder / "spec.json").write_text(
                json.dumps(sandbox_spec.supervisor_spec(run) | more), encoding="utf-8"
            )
            shutil.copyfile(local.SUPERVISOR, folder / "supervisor.py")
            job = client.submit_job(
                entrypoint="exec python3 -I supervisor.py spec.json",
                runtime_env={"working_dir": str(folder)},
                **self._resources(run),
            )
        try:
            status, archive = self._follow(client, job, output)
        except BaseException:
            self._stop(client, job)
            raise
        return local.finish(run, status, self._unpack(run, archive))

    def _client(self) -> Any:
        try:
            from ray.job_submission import JobSubmissionClient
        except ImportError as error:
            remedy = "install it with `pip install 'kernel-lint[ray]'`"
            raise KernelLintError(f"{sys.executable} has no Ray job client ({error})", remedy) from error
        try:
            return JobSubmissionClient(self.address)
        except (ConnectionError, RuntimeError) as error:
            place = self.address or "the address in RAY_ADDRESS"
            raise KernelLintError(
                f"no Ray job server answers at {place}", "give it with --address http://head:8265"
            ) from error

    def _resources(self, run: Run) -> dict[str, Any]:
        """Return what the job reserves: GPUs, and a share of the accelerator type's resource."""
        resources: dict[str, Any] = {}
        if self.gpus or run.hardware:
            resources["entrypoint_num_gpus"] = self.gpus or 1
        if run.hardware:
            name = get_gpu(run.hardware).name
            accelerator = _ACCELERATORS.get(
                name, f"AMD-Instinct-{name}-OAM" if name.startswith("MI") else name
            )
            resources["entrypoint_resources"] = {f"accelerator_type:{accelerator}": 0.001}
        return resources

    def _follow(self, client: Any, job: str, output: Path | None) -> tuple[dict[str, Any], str | None]:
        """Print the log as it grows until the job ends; return the supervisor's result and archive."""
        shown = 0
        while True:
            over = client.get_job_status(job).is_terminal()
            log: str = client.get_job_logs(job)
            text, mark, tail = log.partition(f"\n{RESULT_MARK}")
            # The last line may still be growing into the mark, so it waits until the job is over.
            ready = len(text) if mark or over else text.rfind("\n") + 1
            _emit(text[shown:ready], output)
            shown = max(shown, ready)
            if mark and "\n" in tail:
                result = json.loads(tail.partition("\n")[0])
                return result, result.get("archive")
            if over:
                info = client.get_job_info(job)
                raise KernelLintError(
                    f"the Ray job {job} ended without a result: {info.message}", "look at its log in Ray"
                )
            time.sleep(POLL_SECONDS)

    def _unpack(self, run: Run, archive: str | None) -> tuple[str, ...]:
        if not run.brought_back:
            return ()
        if archive is None:
            raise KernelLintError(
                "the outputs are over 16 MiB", "use --executor ssh, or write smaller outputs"
            )
        with tempfile.TemporaryDirectory(prefix="kernel-lint-") as name:
            with tarfile.open(fileobj=io.BytesIO(base64.b64decode(archive))) as tar:
                tar.extractall(name, filter="data")
            return sandbox_spec.bring_back(run, Path(name))

    def _stop(self, client: Any, job: str) -> None:
        """Stop the job and wait until Ray says that it is over."""
        client.stop_job(job)
        deadline = time.monotonic() + STOP_SECONDS
        while time.monotonic() < deadline and not client.get_job_status(job).is_terminal():
            time.sleep(POLL_SECONDS)


def _emit(text: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    with output.open("a", encoding="utf-8") as file:
        file.write(text)
