"""The local sandbox: isolation, limits, and that nothing is left running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernel_lint.errors import KernelLintError
from kernel_lint.tools.executors import choose
from kernel_lint.tools.executors.local import LocalExecutor
from kernel_lint.tools.sandbox_spec import Limits, Run, RunResult

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="orphans are found through Linux's /proc")

# Forks twice into sessions of their own, ignores signals, closes its pipes, and tells all its process ids.
STUBBORN = """
import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
def note():
    with open(sys.argv[1], "a") as log:
        log.write(f"{os.getpid()}\\n")
note()
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setsid()
            note()
            for handle in (0, 1, 2):
                os.close(handle)
            while True:
                time.sleep(1)
        os._exit(0)
os.close(1)
os.close(2)
while LOOP:
    time.sleep(1)
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "kernel.py").write_text("VALUE = 1\n")
    return folder


def python(
    workspace: Path, code: str, *arguments: str, output: Path | None = None, **more: object
) -> RunResult:
    run = Run(("python", "-c", code, *arguments), workspace, **more)  # type: ignore[arg-type]
    return LocalExecutor().run(run, output or workspace.parent / "output.txt")


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def read_pids(path: Path, count: int) -> list[int]:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        lines = path.read_text().split() if path.exists() else []
        if len(lines) >= count:
            return [int(line) for line in lines]
        time.sleep(0.02)
    raise AssertionError("the command did not start")


@pytest.mark.parametrize("code", [0, 1, 7, 77, 255])
def test_exit_code(workspace: Path, code: int) -> None:
    assert python(workspace, f"raise SystemExit({code})").exit_code == code


def test_a_signal_shows_as_a_shell_shows_it(workspace: Path) -> None:
    assert python(workspace, "import os; os.kill(os.getpid(), 11)").exit_code == 128 + 11


def test_the_last_line_survives(workspace: Path) -> None:
    code = (
        "import sys; print('x' * 100000); print('err', file=sys.stderr)\n"
        "print('[test_kernel] RESULT_JSON={}')"
    )
    python(workspace, code)
    output = (workspace.parent / "output.txt").read_text()
    assert output.splitlines()[-1] == "[test_kernel] RESULT_JSON={}"
    assert "err" in output


def test_the_workspace_stays_as_it_is(workspace: Path) -> None:
    python(workspace, "open('kernel.py', 'w').write('broken'); open('new.txt', 'w').write('x')")
    assert (workspace / "kernel.py").read_text() == "VALUE = 1\n"
    assert not (workspace / "new.txt").exists()


def test_declared_outputs_come_back(workspace: Path) -> None:
    code = (
        "import os; os.makedirs('memory'); open('memory/v0.json', 'w').write('{}');"
        "os.makedirs('logs/deep'); open('logs/deep/a.txt', 'w').write('a'); open('other', 'w').write('x')"
    )
    result = python(workspace, code, outputs=("memory/v0.json", "logs", "absent"))
    assert (workspace / "memory/v0.json").read_text() == "{}"
    assert (workspace / "logs/deep/a.txt").read_text() == "a"
    assert not (workspace / "other").exists()
    assert result.missing == ("absent",)


@pytest.mark.parametrize("link", ["/etc/hostname", "../../secret"])
def test_links_do_not_come_back(workspace: Path, link: str) -> None:
    (workspace.parent / "secret").write_text("s")
    result = python(workspace, f"import os; os.symlink({link!r}, 'out')", outputs=("out",))
    assert not (workspace / "out").exists()
    assert result.missing == ("out",)


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "a/../../x", "", ".git"])
def test_outputs_outside_are_refused(workspace: Path, name: str) -> None:
    with pytest.raises(KernelLintError, match="inside the workspace"):
        python(workspace, "", outputs=(name,))


def test_a_link_in_the_workspace_cannot_be_written_through(workspace: Path) -> None:
    outside = workspace.parent / "outside.txt"
    outside.write_text("safe")
    (workspace / "link.txt").symlink_to(outside)
    python(workspace, "open('link.txt', 'w').write('changed')")
    assert outside.read_text() == "safe"


def test_only_allowed_variables_are_seen(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "t")
    monkeypatch.setenv("SSH_AUTH_SOCK", "s")
    monkeypatch.setenv("TEST_TIMEOUT_SEC", "5")
    python(workspace, "import os; print(sorted(os.environ))", environment={"MY_FLAG": "1"})
    seen = (workspace.parent / "output.txt").read_text()
    assert "GITHUB_TOKEN" not in seen
    assert "SSH_AUTH_SOCK" not in seen
    assert "TEST_TIMEOUT_SEC" in seen
    assert "MY_FLAG" in seen


@pytest.mark.parametrize("home", ["HOME", "TMPDIR"])
def test_home_is_private(workspace: Path, home: str) -> None:
    python(workspace, f"import os; print(os.environ[{home!r}])")
    folder = (workspace.parent / "output.txt").read_text().strip()
    assert folder != os.environ.get(home)
    assert not Path(folder).exists()


def test_a_stubborn_command_is_gone_within_two_seconds_of_its_limit(workspace: Path) -> None:
    log = workspace.parent / "pids"
    result = python(workspace, STUBBORN.replace("LOOP", "True"), str(log), timeout=1.5)
    assert (result.exit_code, result.reason) == (124, "timeout")
    assert result.seconds < 1.5 + 2
    pids = read_pids(log, 4)
    assert alive(pids) == []


def test_what_a_command_leaves_behind_is_ended(workspace: Path) -> None:
    log = workspace.parent / "pids"
    result = python(
        workspace, STUBBORN.replace("LOOP", "len(open(sys.argv[1]).readlines()) < 4"), str(log), timeout=20
    )
    assert (result.exit_code, result.reason) == (0, "exited")
    assert alive(read_pids(log, 4)) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_cancelling_leaves_nothing_running(workspace: Path, number: int) -> None:
    log = workspace.parent / "pids"
    script = [
        sys.executable,
        str(ROOT / "tools/sandbox.py"),
        "--workspace",
        str(workspace),
        "--no-sync",
        "--",
    ]
    command = [*script, "python", "-c", STUBBORN.replace("LOOP", "True"), str(log)]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        pids = read_pids(log, 4)
        process.send_signal(number)
        process.wait(20)
        deadline = time.monotonic() + 5
        while alive(pids) and time.monotonic() < deadline:
            time.sleep(0.02)
    assert alive(pids) == []
    assert process.returncode == (-number if number == signal.SIGKILL else 130)


def test_memory_limit(workspace: Path) -> None:
    code = "x = bytearray(300 << 20); x[::4096] = b'1' * len(x[::4096]); import time; time.sleep(30)"
    result = python(workspace, code, limits=Limits(memory_bytes=150 << 20), timeout=30)
    assert (result.exit_code, result.reason) == (137, "limit")
    assert "over the limit" in result.message


def test_process_limit(workspace: Path) -> None:
    code = "import os, time\nfor _ in range(20):\n    if os.fork() == 0: time.sleep(30)\ntime.sleep(30)"
    result = python(workspace, code, limits=Limits(processes=10), timeout=30)
    assert (result.exit_code, result.reason) == (137, "limit")


def test_file_size_limit(workspace: Path) -> None:
    code = "import signal as s; s.signal(s.SIGXFSZ, s.SIG_IGN); open('big', 'wb').write(bytes(1 << 20))"
    assert python(workspace, code, limits=Limits(file_bytes=1 << 16)).exit_code == 1


def test_a_missing_program_is_an_error_of_ours(workspace: Path) -> None:
    with pytest.raises(KernelLintError, match="no program"):
        LocalExecutor().run(Run(("no-such-program",), workspace), workspace.parent / "out")


def test_a_missing_gpu_is_an_error_of_ours(workspace: Path) -> None:
    with pytest.raises(KernelLintError, match="shows no MI355X"):
        python(workspace, "", hardware="MI355X")


def test_profile_without_a_profiler_says_so(workspace: Path) -> None:
    environment = {"PATH": str(workspace)}
    with pytest.raises(KernelLintError, match="no profiler here"):
        python(workspace, "", kind="profile", environment=environment)


def test_profile_wraps_the_command_and_brings_the_report(workspace: Path) -> None:
    tools = workspace.parent / "bin"
    tools.mkdir()
    fake = tools / "rocprofv3"
    record = 'echo "$@" > profile/arguments.csv'
    strip = 'while [ "$1" != -- ]; do shift; done; shift'
    fake.write_text(f'#!/bin/sh\n{record}\n{strip}\nexec "$@"\n')
    fake.chmod(0o755)
    path = f"{tools}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    result = python(workspace, "raise SystemExit(3)", kind="profile", environment={"PATH": path})
    assert result.exit_code == 3
    assert (workspace / "profile/arguments.csv").read_text().startswith("--kernel-trace --stats")


def test_the_command_of_the_contract(workspace: Path) -> None:
    (workspace / "test_kernel.py").write_text("import sys\nprint(sys.argv[1:])\nraise SystemExit(1)\n")
    (workspace / "tools").mkdir()
    for name in ("sandbox.py", "launcher.py"):
        (workspace / "tools" / name).write_text((ROOT / "tools" / name).read_text())
    line = "tools/sandbox.py --kind run --no-sync -- python test_kernel.py --version v0 --no-memory"
    done = subprocess.run(
        [sys.executable, *line.split()], cwd=workspace, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "['--version', 'v0', '--no-memory']\n"), done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--no-sync", "--sync", "x", "--", "true"],
        ["--timeout", "0", "--", "true"],
        ["--hardware", "MI9", "--", "true"],
        ["--env", "NOT_SET_ANYWHERE", "--", "true"],
        ["--executor", "ssh", "--", "true"],
        ["--workspace", "/nowhere", "--", "true"],
        [],
    ],
)
def test_usage_errors(arguments: list[str]) -> None:
    command = [sys.executable, str(ROOT / "tools/sandbox.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_executors_by_name() -> None:
    assert type(choose("local")).__name__ == "LocalExecutor"
    assert type(choose("ssh", host="h")).__name__ == "SshExecutor"
    assert type(choose("ray")).__name__ == "RayExecutor"
