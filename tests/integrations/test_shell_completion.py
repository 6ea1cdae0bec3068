"""Click's completion through our lazy group."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def _complete(words: str, index: int) -> list[str]:
    env = {
        **os.environ,
        "_KERNEL_LINT_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(index),
    }
    run = subprocess.run(
        [sys.executable, "-m", "kernel_lint"],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return [line.partition(",")[2] for line in run.stdout.splitlines()]


@pytest.mark.parametrize(
    ("words", "index", "wanted"),
    [
        ("kernel-lint ga", 1, ["gate"]),
        ("kernel-lint gate --write", 2, ["--write-limitations"]),
        ("kernel-lint hook st", 2, ["stop"]),
        ("kernel-lint gate --output-format j", 3, ["json"]),
    ],
)
def test_completion(words: str, index: int, wanted: list[str]) -> None:
    assert _complete(words, index) == wanted
