"""The ssh executor against a real sshd on the loopback interface."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernel_lint.errors import KernelLintError
from kernel_lint.tools.executors.ssh import SshExecutor
from kernel_lint.tools.sandbox_spec import Run

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
MISSING = [tool for tool in ("ssh", "ssh-keygen", "rsync") if shutil.which(tool) is None]
pytestmark = [
    pytest.mark.skipif(SSHD is None, reason="no sshd here (Debian: openssh-server)"),
    pytest.mark.skipif(bool(MISSING), reason=f"no {', '.join(MISSING)} here"),
]


@pytest.fixture(scope="module")
def executor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshExecutor]:
    folder = tmp_path_factory.mktemp("ssh")
    for name in ("host", "user"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(command, check=True)
    shutil.copyfile(folder / "user.pub", folder / "authorized_keys")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (folder / "sshd_config").write_text(
        f"ListenAddress 127.0.0.1\nPort {port}\nHostKey {folder}/host\nPidFile none\nStrictModes no\n"
        f"AuthorizedKeysFile {folder}/authorized_keys\nPermitRootLogin yes\n"
        "UsePAM no\nPasswordAuthentication no\n"
    )
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # sshd's privilege separation folder on Debian
    assert SSHD is not None
    with subprocess.Popen(
        [SSHD, "-D", "-e", "-f", str(folder / "sshd_config")], stderr=subprocess.DEVNULL
    ) as server:
        options = [
            "-p",
            str(port),
            "-i",
            str(folder / "user"),
            "-F",
            "none",
            "-o",
            f"UserKnownHostsFile={folder}/known",
        ]
        options += ["-o", "StrictHostKeyChecking=accept-new", "-o", "IdentitiesOnly=yes"]
        target = SshExecutor(f"{getpass.getuser()}@127.0.0.1", tuple(options), sys.executable)
        _wait_for(port)
        yield target
        server.terminate()


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 10
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work space"
    folder.mkdir()
    (folder / "kernel.py").write_text("VALUE = 1\n")
    return folder


def mark(workspace: Path) -> str:
    """Give the workspace a file of a name that no other test has, to find its copies by."""
    name = f"marker-{uuid.uuid4().hex}"
    (workspace / name).touch()
    return name


def staging_folders(marker: str) -> list[Path]:
    return [path.parents[1] for path in Path("/tmp").glob(f"kernel-lint.*/work/{marker}")]


def python(executor: SshExecutor, workspace: Path, code: str, **more: object) -> tuple[int, str]:
    output = workspace.parent / "output.txt"
    run = Run((sys.executable, "-c", code), workspace, **more)  # type: ignore[arg-type]
    result = executor.run(run, output)
    return result.exit_code, output.read_text()


def test_exit_code_and_last_line(executor: SshExecutor, workspace: Path) -> None:
    code = "import os, sys; print(sorted(os.listdir())); print('last \"line\" $HOME'); sys.exit(255)"
    marker = mark(workspace)
    exit_code, output = python(executor, workspace, code)
    assert exit_code == 255
    assert output.splitlines() == [f"['kernel.py', '{marker}']", 'last "line" $HOME']
    assert not staging_folders(marker)


def test_outputs_come_back_and_nothing_else(executor: SshExecutor, workspace: Path) -> None:
    code = (
        "import os; os.makedirs('a/b'); open('a/b/c.txt', 'w').write('c'); open('a/no.txt', 'w').write('n');"
        "open('kernel.py', 'w').write('broken')"
    )
    assert python(executor, workspace, code, outputs=("a/b",))[0] == 0
    assert (workspace / "a/b/c.txt").read_text() == "c"
    assert not (workspace / "a/no.txt").exists()
    assert (workspace / "kernel.py").read_text() == "VALUE = 1\n"


def test_time_limit_ends_everything_there(executor: SshExecutor, workspace: Path) -> None:
    log = workspace.parent / "pids"
    code = (
        "import os, signal, time; signal.signal(15, signal.SIG_IGN)\n"
        "if os.fork() == 0: os.setsid()\n"
        f"open({str(log)!r}, 'a').write(f'{{os.getpid()}}\\n')\n"
        "os.close(1); os.close(2)\nwhile True: time.sleep(1)"
    )
    run = Run((sys.executable, "-c", code), workspace, timeout=1.5)
    result = executor.run(run, workspace.parent / "output.txt")
    assert (result.exit_code, result.reason) == (124, "timeout")
    pids = log.read_text().split()
    assert len(pids) == 2
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def test_a_lost_connection_ends_the_command(executor: SshExecutor, workspace: Path) -> None:
    log = workspace.parent / "pid"
    code = f"import os, time; open({str(log)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    script = (
        "import sys; from pathlib import Path; from kernel_lint.tools.executors.ssh import SshExecutor;"
        "from kernel_lint.tools.sandbox_spec import Run;"
        f"SshExecutor({executor.host!r}, {executor.options!r}, {executor.python!r})"
        f".run(Run((sys.executable, '-c', {code!r}), Path({str(workspace)!r})))"
    )
    marker = mark(workspace)
    with subprocess.Popen([sys.executable, "-c", script]) as process:
        deadline = time.monotonic() + 20
        while not (log.exists() and log.read_text()) and time.monotonic() < deadline:
            time.sleep(0.02)
        process.kill()
    pid = log.read_text()
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline + 10:
        time.sleep(0.02)
    assert not Path(f"/proc/{pid}").exists()
    (folder,) = staging_folders(marker)
    shutil.rmtree(folder)  # whoever was killed cannot remove it


def test_an_unreachable_host_is_an_error_of_ours(executor: SshExecutor, workspace: Path) -> None:
    nowhere = SshExecutor(executor.host, ("-p", "1", *executor.options[2:]), sys.executable)
    with pytest.raises(KernelLintError, match="by hand"):
        nowhere.run(Run(("true",), workspace), workspace.parent / "out")


@pytest.mark.parametrize("host", ["", "-oProxyCommand=touch /tmp/x"])
def test_a_host_is_never_an_option(workspace: Path, host: str) -> None:
    with pytest.raises(KernelLintError, match="is not a host"):
        SshExecutor(host).run(Run(("true",), workspace))
