"""Run on another machine with the system's ssh and rsync."""

from __future__ import annotations

import contextlib
import json
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from kernel_lint.errors import KernelLintError
from kernel_lint.tools import sandbox_spec
from kernel_lint.tools.executors import local
from kernel_lint.tools.sandbox_spec import Run, RunResult

# A dead connection must be noticed: the remote supervisor then loses its input and stops the command.
OPTIONS = ("-o", "BatchMode=yes", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3")
TRANSFER_SECONDS = 600


@dataclass(frozen=True, slots=True)
class SshExecutor:
    """``host`` as ssh takes it; ``options`` go before it, ``python`` runs the supervisor there."""

    host: str
    options: tuple[str, ...] = ()
    python: str = "python3"

    def run(self, run: Run, output: Path | None = None) -> RunResult:
        """See :class:`kernel_lint.tools.sandbox_spec.Executor`."""
        run.checked()
        if not self.host or self.host.startswith("-"):
            raise KernelLintError(f"{self.host!r} is not a host", "give one with --host user@machine")
        for tool in ("ssh", "rsync"):
            if shutil.which(tool) is None:
                raise KernelLintError(f"there is no {tool} on PATH", f"install {tool} on both machines")
        remote = PurePosixPath(self._ask("mktemp", "-d", "/tmp/kernel-lint.XXXXXXXX"))
        try:
            return self._run_in(run, remote, output)
        finally:
            with contextlib.suppress(KernelLintError):
                self._ask("rm", "-rf", "--", str(remote))

    def _run_in(self, run: Run, remote: PurePosixPath, output: Path | None) -> RunResult:
        """Send, run and bring back, by way of a local staging folder."""
        with tempfile.TemporaryDirectory(prefix="kernel-lint-", ignore_cleanup_errors=True) as name:
            folder = Path(name)
            sandbox_spec.stage(run, folder)
            spec = sandbox_spec.supervisor_spec(run)
            (folder / "spec.json").write_text(json.dumps(spec), encoding="utf-8")
            shutil.copyfile(local.SUPERVISOR, folder / "supervisor.py")
            self._copy(f"{folder}/", f"{self.host}:{remote}/")
            # The remote shell splits the line again, so it is quoted for that shell.
            line = shlex.join([self.python, "-I", str(remote / "supervisor.py"), str(remote / "spec.json")])
            local.supervise([*self._ssh(), self.host, line], output)
            shutil.rmtree(folder / "work")
            self._copy(f"{self.host}:{remote}/", f"{folder}/", *self._filters(run))
            return local.read_result(run, folder)

    def _filters(self, run: Run) -> list[str]:
        """Bring only the status and the declared outputs."""
        filters = ["--include=/status.json", "--include=/work/"]
        for name in run.brought_back:
            parts = PurePosixPath(name).parts
            for depth in range(1, len(parts)):
                filters.append(f"--include=/work/{'/'.join(parts[:depth])}/")
            filters += [f"--include=/work/{'/'.join(parts)}", f"--include=/work/{'/'.join(parts)}/**"]
        return [*filters, "--exclude=*"]

    def _ssh(self) -> list[str]:
        return ["ssh", "-T", *OPTIONS, *self.options]

    def _ask(self, *command: str) -> str:
        """Run a short command there and return its output, stripped."""
        return self._tool([*self._ssh(), self.host, shlex.join(command)])

    def _copy(self, source: str, target: str, *filters: str) -> None:
        # rsync links are not followed: the staged copy has none, and none may come back.
        self._tool(["rsync", "-r", "-p", "-t", "-z", "-e", shlex.join(self._ssh()), *filters, source, target])

    def _tool(self, command: list[str]) -> str:
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=TRANSFER_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise KernelLintError(
                f"{command[0]} to {self.host} took over {TRANSFER_SECONDS} s", "check the network"
            ) from error
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip().splitlines()
            why = said[-1] if said else f"exit code {done.returncode}"
            raise KernelLintError(
                f"{command[0]} to {self.host} failed: {why}", f"try `ssh {self.host} true` by hand"
            )
        return done.stdout.strip()
