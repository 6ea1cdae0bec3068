"""The structural rules run the same under our engine and under ast-grep itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_lint import structural

ROOT = Path(__file__).parents[2]


def test_compiled_rules_are_current() -> None:
    compiled = json.loads(Path(structural.COMPILED).read_text(encoding="utf-8"))
    assert compiled == structural.compile_rules(), "run python -m kernel_lint.structural"


@pytest.mark.parametrize("verb", [["test", "--skip-snapshot-tests"], ["scan", "examples"]])
def test_ast_grep_runs_them(verb: list[str]) -> None:
    program = Path(sys.executable).with_name("ast-grep")
    if not program.exists():
        pytest.skip("ast-grep's command is not installed beside this Python (pip install ast-grep-cli)")
    done = subprocess.run([program, *verb], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    # Findings of a scan (relative imports in the examples' helpers) exit with 1.
    assert done.returncode in ((0,) if verb[0] == "test" else (0, 1)), done.stdout + done.stderr
