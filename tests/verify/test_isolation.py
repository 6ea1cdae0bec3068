"""What a candidate's process can reach, and how surely it ends, seen from outside."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from verify_tasks import ADD_ONE, HEADER, OPTIONS, judge

from kernel_lint.diagnostics import Reason
from kernel_lint.verify import Verdict, VerifyOptions, landlock
from kernel_lint.verify import session as sessions
from kernel_lint.verify.backends import load_backend
from kernel_lint.verify.contract import load_task
from kernel_lint.verify.session import Session, explain_end
from kernel_lint.verify.workplace import Workplace

needs_landlock = pytest.mark.skipif(landlock.abi_version() == 0, reason="this kernel has no Landlock")

_TRY = (
    HEADER
    + """
REACHED = []


def attempt(name, action):
    try:
        action()
    except OSError:
        return
    REACHED.append(name)


{attempts}


class Model(nn.Module):
    def forward(self, a, b):
        assert not REACHED, ",".join(REACHED)
        return a + b
"""
)


def _start(place: Workplace) -> Session:
    session = place.start_candidate("cpu")
    assert session.ask("prepare", 60).ok
    return session


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Workplace]:
    task = load_task(ADD_ONE.write(tmp_path / "task"))
    source = b"import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
    source += b"        time.sleep(600)\n"
    source += b"    os._exit(0)\n"
    source += b"while True:\n    time.sleep(1)\n"
    with Workplace(task, source, VerifyOptions(**OPTIONS), load_backend("torch")) as made:
        yield made


def test_a_deadline_ends_all_of_a_family_within_two_seconds(place: Workplace) -> None:
    with _start(place) as session:
        folder = str(session.folder)
        reply = session.ask("import", 1.0)
        assert (reply.reason, reply.ended) == (Reason.TIMEOUT, True)
        # The keeper answered within the two seconds that the session grants it.
        assert session._ending == {"killed": True}
        alive = [p for p in psutil.process_iter(["cwd"]) if (p.info["cwd"] or "").startswith(folder)]
        assert alive == []


def test_letting_go_of_the_leash_is_enough(place: Workplace) -> None:
    session = _start(place)
    folder = str(session.folder)
    os.close(session._fds.pop("leash"))
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        if not [p for p in psutil.process_iter(["cwd"]) if (p.info["cwd"] or "").startswith(folder)]:
            break
        time.sleep(0.05)
    else:
        pytest.fail("the worker outlived its judge's hold on it")
    session._ending = {"killed": True}
    session.close()


def test_a_session_that_has_ended_keeps_saying_so(place: Workplace) -> None:
    with _start(place) as session:
        session.kill()
        assert session.ended
        assert session.ask("run", 5).ended
        session.kill()


@needs_landlock
@pytest.mark.parametrize(
    "attempt",
    [
        "lambda: open('{task}/reference.py')",
        "lambda: open('/etc/shadow')",
        "lambda: open('/root/x', 'w')",
        "lambda: open('/tmp/kernel-lint-was-here', 'w')",
        "lambda: os.mkdir('/tmp/kernel-lint-was-here')",
        "lambda: os.chmod(__file__, 0o777) or open(__file__, 'a')",
        "lambda: open('../inbox/x', 'w')",
        "lambda: os.listdir('../..')",
        "lambda: open(f'/proc/{os.getppid()}/environ')",
    ],
)
def test_the_file_system_is_closed(tmp_path: Path, attempt: str) -> None:
    source = "import os\n" + _TRY.replace("{attempts}", f"attempt('it', {attempt})")
    report = judge(tmp_path, ADD_ONE, source)
    assert report.verdict is not Verdict.INVALID_TASK
    assert "REACHED" not in report.headline, report.headline
    assert "AssertionError" not in report.headline, report.headline


@pytest.mark.parametrize(
    "attempt",
    [
        "lambda: socket.create_connection(('127.0.0.1', 9), 1)",
        "lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 9))",
        "lambda: socket.getaddrinfo('example.org', 80)",
    ],
)
def test_there_is_no_network(tmp_path: Path, attempt: str) -> None:
    source = "import socket\n" + _TRY.replace("{attempts}", f"attempt('it', {attempt})")
    report = judge(tmp_path, ADD_ONE, source)
    assert report.reason is Reason.FILE_ACCESS, report.headline
    assert "AssertionError" not in report.headline


def test_the_users_environment_stays_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", "secret")
    source = HEADER + (
        "import os\nassert 'SOME_TOKEN' not in os.environ\n"
        "assert b'SOME_TOKEN' not in open('/proc/self/environ', 'rb').read()\n" + ADD_ONE.reference
    )
    report = judge(tmp_path, ADD_ONE, source)
    assert report.verdict is Verdict.PASS, report.headline


def test_the_candidate_stands_alone_in_its_folder(tmp_path: Path) -> None:
    source = HEADER + (
        "import os, sys\nassert os.listdir('.') == ['generated_kernel.py'], os.listdir('.')\n"
        "assert __name__ == 'generated_kernel'\nassert not hasattr(sys.modules['__main__'], 'zygote')\n"
    )
    report = judge(tmp_path, ADD_ONE, source + ADD_ONE.reference)
    assert report.verdict is Verdict.PASS, report.headline


def test_the_report_says_which_layers_were_active(tmp_path: Path) -> None:
    report = judge(tmp_path, ADD_ONE, HEADER + ADD_ONE.reference)
    assert report.isolation["audit_hook"] is True
    assert report.isolation["landlock_abi"] == landlock.abi_version()
    if not report.isolation["pid_namespace"]:
        assert report.isolation["problems"]


def test_without_isolation_the_report_says_so(tmp_path: Path) -> None:
    report = judge(tmp_path, ADD_ONE, HEADER + ADD_ONE.reference, isolate=False)
    assert report.verdict is Verdict.PASS, report.headline
    assert "not isolated" in " ".join(report.relaxed)
    assert report.isolation["landlock_abi"] == 0


@pytest.mark.parametrize(
    ("ending", "reason", "words"),
    [
        ({"wait_status": 0}, Reason.CRASH, "exit status 0"),
        ({"wait_status": 256 * 3}, Reason.CRASH, "exit status 3"),
        ({"wait_status": 11}, Reason.CRASH, "SIGSEGV"),
        ({"wait_status": 9}, Reason.CRASH, "SIGKILL"),
        ({"limit": "memory", "value": 1 << 30}, Reason.OOM, "1024 MiB"),
        ({"limit": "processes", "value": 99}, Reason.TAMPERING, "99 processes"),
        ({"lost": True}, Reason.HARNESS_ERROR, "lost"),
        ({"harness": "Traceback\nValueError: x"}, Reason.HARNESS_ERROR, "ValueError: x"),
        ({}, Reason.HARNESS_ERROR, "lost"),
    ],
)
def test_every_end_has_a_reason(ending: dict[str, object], reason: Reason, words: str) -> None:
    found, message = explain_end(ending)
    assert found is reason
    assert words in message


_WITHOUT = (
    "import sys; sys.path[:0] = {path!r}; from kernel_lint.verify import isolation, landlock, zygote; "
    "isolation.enter_namespaces = lambda gpu=False: ({{}}, ('refused',)); landlock.abi_version = lambda: 0; "
    "zygote.main()"
)


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine without namespaces and without Landlock."""
    monkeypatch.setattr(sessions, "_BOOT", _WITHOUT)
    monkeypatch.setattr(sessions, "_zygotes", {})
    yield
    sessions.close_zygotes()


@pytest.mark.usefixtures("bare")
def test_without_namespaces_stray_processes_are_hunted(place: Workplace) -> None:
    with _start(place) as session:
        folder = str(session.folder)
        reply = session.ask("import", 1.5)
        assert reply.reason is Reason.TIMEOUT
        alive = [p for p in psutil.process_iter(["cwd"]) if (p.info["cwd"] or "").startswith(folder)]
        assert alive == []


@pytest.mark.usefixtures("bare")
def test_without_landlock_the_audit_hook_still_sees(tmp_path: Path) -> None:
    source = HEADER + "open('{task}/reference.py').read()\n" + ADD_ONE.reference
    report = judge(tmp_path, ADD_ONE, source)
    assert report.reason is Reason.FILE_ACCESS
    assert report.isolation["landlock_abi"] == 0
    assert "refused" in report.isolation["problems"]
    assert "this kernel has no Landlock" in report.isolation["problems"]


@pytest.mark.usefixtures("bare")
def test_without_anything_a_right_candidate_passes(tmp_path: Path) -> None:
    report = judge(tmp_path, ADD_ONE, HEADER + ADD_ONE.reference)
    assert report.verdict is Verdict.PASS, report.headline
