"""Keeps the process that runs test cases, and ends it when a case runs past its limit."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import kernel_lint
from kernel_lint.errors import KernelLintError
from kernel_lint.tools.executors.local import SUPERVISOR
from kernel_lint.tools.sandbox_spec import Limits, Run, supervisor_spec

START_SECONDS = 300.0


class CaseProcess:
    """One supervised worker; :meth:`ask` starts it when there is none.

    ``warm_up`` is a request that it answers first, outside every case's limit.
    """

    def __init__(self, warm_up: dict[str, Any] | None = None) -> None:
        self._warm_up = warm_up
        self._folder = tempfile.TemporaryDirectory(prefix="kernel-lint-cases-", ignore_cleanup_errors=True)
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._pending = b""
        self._number = 0

    def __enter__(self) -> CaseProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        self._folder.cleanup()

    def ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any] | None:
        """Return the reply, or None when it took longer than ``seconds``; the process is then ended.

        Raises :class:`KernelLintError` when the process cannot be started.
        """
        if self._channel is None:
            self._start()
        assert self._channel is not None
        self._channel.settimeout(seconds)
        deadline = time.monotonic() + seconds
        try:
            self._channel.sendall(json.dumps(request).encode() + b"\n")
            return self._receive(deadline)
        except TimeoutError:
            self.end()
            return None
        except OSError as error:
            log = self._log()
            self.end()
            return {"error": f"the process that runs the case ended ({error})", "traceback": log}

    def end(self) -> None:
        """End the worker and everything below it."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._supervisor is not None:
            assert self._supervisor.stdin is not None
            self._supervisor.stdin.close()
            self._supervisor.wait()
            self._supervisor = None

    def _start(self) -> None:
        self._number += 1
        self._pending = b""
        folder = Path(self._folder.name) / str(self._number)
        (folder / "work").mkdir(parents=True)
        path = folder / "s"
        command = (sys.executable, "-m", "kernel_lint.tools.case_worker", str(path))
        spec = supervisor_spec(Run(command, folder / "work", limits=Limits()))
        # Our own process on our own machine: it sees the whole environment, and this package.
        spec["environment_allowed"] = [".*"]
        spec["environment"] = {name: os.environ[name] for name in ("HOME", "TMPDIR") if name in os.environ}
        package = str(Path(kernel_lint.__file__).parents[1])
        spec["environment"]["PYTHONPATH"] = os.pathsep.join(
            filter(None, [package, os.environ.get("PYTHONPATH")])
        )
        (folder / "spec.json").write_text(json.dumps(spec), encoding="utf-8")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen(1)
            listener.settimeout(START_SECONDS)
            with self._log_path().open("wb") as log:
                self._supervisor = subprocess.Popen(
                    [sys.executable, "-I", str(SUPERVISOR), str(folder / "spec.json")],
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            self._channel = self._accept(listener)
        try:
            self._channel.settimeout(START_SECONDS)
            self._receive(time.monotonic() + START_SECONDS)
            if self._warm_up is not None:
                self._channel.sendall(json.dumps(self._warm_up).encode() + b"\n")
                self._receive(time.monotonic() + START_SECONDS)
        except OSError as error:
            raise self._not_started() from error

    def _accept(self, listener: socket.socket) -> socket.socket:
        """Wait for the worker's connection, or for its early end."""
        assert self._supervisor is not None
        listener.settimeout(0.2)
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._supervisor.poll() is None:
            try:
                return listener.accept()[0]
            except TimeoutError:
                continue
        raise self._not_started()

    def _not_started(self) -> KernelLintError:
        log = self._log()
        self.end()
        last = log.strip().splitlines()[-1:] or ["it said nothing"]
        return KernelLintError(
            f"the process that runs the cases did not start: {last[0]}", "see `kernel-lint doctor`"
        )

    def _receive(self, deadline: float) -> dict[str, Any]:
        """Read one line; raises TimeoutError past the deadline and OSError when the worker is gone."""
        assert self._channel is not None
        while b"\n" not in self._pending:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._channel.settimeout(left)
            data = self._channel.recv(1 << 16)
            if not data:
                raise ConnectionError("it closed its channel")
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        reply = json.loads(line)
        assert isinstance(reply, dict)
        return reply

    def _log_path(self) -> Path:
        return Path(self._folder.name) / f"{self._number}.log"

    def _log(self) -> str:
        path = self._log_path()
        return path.read_text(encoding="utf-8", errors="replace")[-4000:] if path.exists() else ""
