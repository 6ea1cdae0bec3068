"""Run on this machine, in a copy of the workspace under a temporary folder."""

from __future__ import annotations

import contextlib
import json
import site
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kernel_lint.errors import KernelLintError
from kernel_lint.tools import sandbox_spec, supervisor
from kernel_lint.tools.sandbox_spec import Run, RunResult

SUPERVISOR = Path(supervisor.__file__).resolve()


class LocalExecutor:
    """Starts the supervisor as a child; closing its standard input is what cancels the run."""

    def run(self, run: Run, output: Path | None = None) -> RunResult:
        """See :class:`kernel_lint.tools.sandbox_spec.Executor`."""
        run.checked()
        with tempfile.TemporaryDirectory(prefix="kernel-lint-", ignore_cleanup_errors=True) as name:
            folder = Path(name)
            sandbox_spec.stage(run, folder)
            # The python that a command names is the one that runs this, unless PATH was given.
            first = None if "PATH" in run.environment else str(Path(sys.executable).parent)
            spec = sandbox_spec.supervisor_spec(run, path_first=first)
            if site.ENABLE_USER_SITE:  # found by way of HOME, which is private there
                spec["environment"].setdefault("PYTHONUSERBASE", site.getuserbase())
            spec_file = folder / "spec.json"
            spec_file.write_text(json.dumps(spec), encoding="utf-8")
            supervise([sys.executable, "-I", str(SUPERVISOR), str(spec_file)], output)
            return read_result(run, folder)


def supervise(command: list[str], output: Path | None) -> int:
    """Run a supervisor's command line until it ends; on any exception here, cancel it and wait."""
    with _sink(output) as stream:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=stream, stderr=stream and subprocess.STDOUT
        )
        assert process.stdin is not None
        try:
            return process.wait()
        except BaseException:
            process.stdin.close()
            process.wait()
            raise
        finally:
            process.stdin.close()


def read_result(run: Run, folder: Path) -> RunResult:
    """Bring the outputs back from a staging folder and return the supervisor's status.

    Raises :class:`KernelLintError` when the supervisor left no status or could not start the command.
    """
    try:
        status = json.loads((folder / "status.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise KernelLintError(
            "the run ended without a status", "look at the output above, then repeat it"
        ) from error
    return finish(run, status, sandbox_spec.bring_back(run, folder / "work"))


def finish(run: Run, status: dict[str, object], missing: tuple[str, ...]) -> RunResult:
    """Return the result of a status.

    Raises :class:`KernelLintError` when the command was never started.
    """
    result = RunResult.from_json(status, missing)
    if result.reason == "not-started":
        raise KernelLintError(
            f"{run.command[0]} was not started: {result.message}", "see `kernel-lint doctor`"
        )
    return result


@contextlib.contextmanager
def _sink(output: Path | None) -> Iterator[int | None]:
    """Open the output file, or give None for this process's own streams."""
    if output is None:
        sys.stdout.flush()
        yield None
        return
    with output.open("ab") as file:
        yield file.fileno()
