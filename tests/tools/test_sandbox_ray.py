"""The ray executor against a real Ray cluster of one node on the loopback interface."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
JOB_SERVER = all(importlib.util.find_spec(name) is not None for name in ("ray", "aiohttp", "opencensus"))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("ray"),
    pytest.mark.skipif(not JOB_SERVER, reason="no Ray job server here (pip install 'ray[default]')"),
]


def free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    gcs, dashboard, agent, metrics = free_ports(4)
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        options = {
            "--port": gcs,
            "--dashboard-port": dashboard,
            "--dashboard-agent-listen-port": agent,
            "--metrics-export-port": metrics,
            "--num-cpus": 1,
            "--object-store-memory": 80 << 20,
            "--temp-dir": folder,
            "--node-ip-address": "127.0.0.1",
        }
        flags = [f"{key}={value}" for key, value in options.items()]
        ray = [sys.executable, "-c", "from ray.scripts.scripts import main; main()"]
        command = [
            *ray,
            "start",
            "--head",
            "--block",
            "--disable-usage-stats",
            "--include-dashboard=true",
            *flags,
        ]
        environment = {**os.environ, "RAY_DISABLE_MEMORY_MONITOR": "1", "PATH": _path()}
        log = Path(folder) / "start.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, env=environment, start_new_session=True
            )
        try:
            url = f"http://127.0.0.1:{dashboard}"
            _wait_for(f"{url}/api/version", process, log)
            yield url
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _path() -> str:
    return f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            urllib.request.urlopen(url, timeout=2).close()
        except (OSError, urllib.error.URLError):
            time.sleep(0.2)
        else:
            return
    raise AssertionError(f"Ray did not start: {log.read_text()[-2000:]}")


def sandbox(address: str, workspace: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own: Ray's imports warn, and warnings are errors here."""
    command = [sys.executable, str(ROOT / "tools/sandbox.py"), "--executor", "ray", "--address", address]
    command += ["--workspace", str(workspace), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "kernel.py").write_text("VALUE = 1\n")
    (folder / ".gitignore").write_text("kernel.py\n")
    return folder


def test_exit_code_last_line_and_outputs(address: str, workspace: Path) -> None:
    code = (
        "import kernel, os, sys; os.makedirs('memory'); open('memory/v0.json', 'w').write('{}');"
        "open('other', 'w').write('x'); print('first'); print('[test_kernel] RESULT_JSON={}'); sys.exit(7)"
    )
    done = sandbox(address, workspace, "--sync", "memory/v0.json", "--", "python3", "-c", code)
    assert done.returncode == 7, done.stderr
    assert done.stdout.splitlines()[-1] == "[test_kernel] RESULT_JSON={}"
    assert (workspace / "memory/v0.json").read_text() == "{}"
    assert sorted(path.name for path in workspace.iterdir()) == [".gitignore", "kernel.py", "memory"]


def test_time_limit(address: str, workspace: Path) -> None:
    log = workspace.parent / "pids"
    code = (
        "import os, signal, time; signal.signal(15, signal.SIG_IGN)\n"
        "if os.fork() == 0: os.setsid()\n"
        f"open({str(log)!r}, 'a').write(f'{{os.getpid()}}\\n')\n"
        "os.close(1); os.close(2)\nwhile True: time.sleep(1)"
    )
    done = sandbox(address, workspace, "--timeout", "1.5", "--", "python3", "-c", code)
    assert done.returncode == 124, done.stderr
    pids = log.read_text().split()
    assert len(pids) == 2
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def test_cancelling_stops_the_job(address: str, workspace: Path) -> None:
    log = workspace.parent / "pid"
    code = f"import os, time; open({str(log)!r}, 'w').write(str(os.getpid())); time.sleep(100)"
    command = [sys.executable, str(ROOT / "tools/sandbox.py"), "--executor", "ray", "--address", address]
    command += ["--workspace", str(workspace), "--", "python3", "-c", code]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 60
        while not (log.exists() and log.read_text()) and time.monotonic() < deadline:
            time.sleep(0.05)
        process.terminate()
        process.wait(30)
    assert not Path(f"/proc/{log.read_text()}").exists()


def test_no_server_is_an_error_of_ours(workspace: Path) -> None:
    done = sandbox("http://127.0.0.1:1", workspace, "--", "true")
    assert done.returncode == 2
    assert "no Ray job server" in done.stderr
    assert "Traceback" not in done.stderr
