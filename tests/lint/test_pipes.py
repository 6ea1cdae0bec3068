"""What is there but is no file is named and passed over; nothing waits for a pipe that nobody writes to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
_NO_FILE = "is a pipe, a socket or a device, not a file"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "good.py").write_text("X = 1\n")
    return tmp_path


def kernel_lint(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command; a hang ends the test."""
    command = [sys.executable, "-m", "kernel_lint", *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=60)


def bash(line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("words", [(), ("--no-cache",), ("--fix",), ("--diff",), ("--statistics",)])
def test_a_pipe_in_a_folder_is_an_error_and_the_rest_is_checked(folder: Path, words: tuple[str, ...]) -> None:
    (folder / "bad.py").write_text("print(1)\n")
    done = kernel_lint("check", ".", "--select", "KL102", *words, cwd=folder)
    assert done.returncode == 2
    assert f"pipe.py {_NO_FILE}" in done.stderr
    if not {"--fix", "--diff"} & set(words):
        assert "KL102" in done.stdout


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("pipe.py",), 2, _NO_FILE),
        (("package", "pipe.py"), 2, "there is no such file"),
        (("gate", "pipe.py"), 1, "pipe.py cannot be read (not a regular file)"),
        (("good.py", "--config", "pipe.toml"), 2, "pipe.toml is not a file"),
        (("good.py", "--reference", "pipe.py"), 2, _NO_FILE),
        (("/dev/zero",), 2, _NO_FILE),
    ],
)
def test_every_command_says_so(folder: Path, words: tuple[str, ...], code: int, said: str) -> None:
    os.mkfifo(folder / "pipe.toml")
    done = kernel_lint(*words, cwd=folder)
    assert said in done.stdout + done.stderr
    assert done.returncode == code


def test_a_pipe_in_the_place_of_the_configuration(folder: Path) -> None:
    os.mkfifo(folder / "pyproject.toml")
    assert kernel_lint("good.py", cwd=folder).returncode == 0


@pytest.mark.parametrize("line", ["{0} <(echo 'print(1)')", "echo 'print(1)' | {0} /dev/stdin"])
def test_what_a_shell_pipes_is_read(line: str) -> None:
    done = bash(line.format(f"{sys.executable} -m kernel_lint --select KL102"))
    assert done.returncode == 1, done.stderr
    assert ":1:1: error KL102" in done.stdout


def test_nothing_is_an_empty_file(folder: Path) -> None:
    assert kernel_lint(os.devnull, cwd=folder).returncode == 0


def test_a_pipe_that_does_not_end_is_cut_at_the_limit() -> None:
    done = bash(f"yes 'x = 1' | {sys.executable} -m kernel_lint /dev/stdin")
    assert done.returncode == 2
    assert "has over 4.0 MB, more than the limit of 4.0 MB" in done.stderr
