"""Sharing files out among processes: order, what goes wrong in one of them, and no waiting for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_lint import parallel
from kernel_lint.diagnostics import Applicability, Diagnostic, Edit, Fix, Severity, Span
from kernel_lint.encoding import decode, encode

SPAN = Span(1, 2, 3, 4)
FOUND = Diagnostic(
    "KL101", "main-block", Severity.WARNING, "said 'ü' \udc80", "a.py", SPAN, ("X1",), "do it",
    Fix("cut", (Edit(SPAN, "x"),), Applicability.UNSAFE),
)  # fmt: skip
PARENT = os.getpid()
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux")


@pytest.fixture(autouse=True)
def _forks(monkeypatch: pytest.MonkeyPatch) -> None:
    # The runner of parallel tests has a thread; these workers do not touch it.
    monkeypatch.setattr(parallel, "_can_fork", lambda: True)


def _check(path: str) -> parallel.Checked:
    if path.startswith("bad"):
        return parallel.Checked(parallel.FileError(path, "is bad", "mend it"))
    return parallel.Checked([FOUND] * (int(path) % 3), {path: "file"})


def test_a_finding_comes_back_as_it_was() -> None:
    assert decode(encode(FOUND)) == FOUND


@pytest.mark.parametrize("count", [1, 2, 3, 31, 500])
@pytest.mark.parametrize("jobs", [2, 3])
def test_results_are_in_order_however_many_there_are(count: int, jobs: int) -> None:
    paths = [f"bad{n}" if n % 7 == 3 else str(n) for n in range(count)]
    assert parallel.check_all(_check, paths, jobs, lambda: None) == [_check(path) for path in paths]


def test_large_results_do_not_block() -> None:
    def check(path: str) -> parallel.Checked:
        return parallel.Checked([FOUND] * 2000, {})

    found = parallel.check_all(check, ["x"] * 40, 3, lambda: None)
    assert [len(item.outcome) for item in found if isinstance(item.outcome, list)] == [2000] * 40


def test_files_of_a_killed_process_are_errors_and_the_others_are_not_lost(tmp_path: Path) -> None:
    ready = tmp_path / "ready"

    def check(path: str) -> parallel.Checked:
        if os.getpid() != PARENT:
            ready.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        while path != "0" and not ready.exists():
            pass
        return _check(path)

    found = parallel.check_all(check, [str(n) for n in range(64)], 2, lambda: None)
    lost = [item.outcome for item in found if isinstance(item.outcome, parallel.FileError)]
    assert 1 <= len(lost) <= 4
    assert "was ended by signal 9" in str(lost[0])
    assert "--jobs 1" in lost[0].remedy


def test_what_one_process_raises_is_raised(tmp_path: Path) -> None:
    ready = tmp_path / "ready"

    def check(path: str) -> parallel.Checked:
        if os.getpid() != PARENT:
            ready.touch()
            raise ValueError("no good")
        while path != "0" and not ready.exists():
            pass
        return _check(path)

    with pytest.raises(ValueError, match="no good"):
        parallel.check_all(check, [str(n) for n in range(64)], 2, lambda: None)


PROGRAM = """\
import sys
from kernel_lint import engine, parallel
parallel._can_fork = lambda: FORKS
result = engine.check_paths(["."], engine.Settings(select=("KL102",), jobs=int(sys.argv[1])))
print(*result.diagnostics, sep="\\n")
"""


@pytest.mark.parametrize("forks", [True, False])
def test_several_processes_find_what_one_finds(tmp_path: Path, forks: bool) -> None:
    for number in range(60):
        (tmp_path / f"m{number:02}.py").write_text(f"print({number})\n")
    texts = []
    for jobs in ("1", "4"):
        words = [sys.executable, "-c", PROGRAM.replace("FORKS", str(forks)), jobs]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
        texts.append(done.stdout)
    assert texts[0] == texts[1]
    assert texts[0].count("KL102") == 60
