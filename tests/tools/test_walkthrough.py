"""The commands of docs/walkthrough.md, as they stand there, for three kinds of kernel."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(__file__).resolve().parent / "data"
pytestmark = [pytest.mark.slow, pytest.mark.flydsl]


def documented_commands() -> list[str]:
    """Return the lines of the page's sh blocks."""
    text = (ROOT / "docs/walkthrough.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line]


def run(commands: list[str], folder: Path) -> str:
    script = "set -ex\n" + "\n".join(commands)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "TEST_TIMEOUT_SEC": "240", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def check(workspace: Path, pattern: str, extra: set[str]) -> None:
    """Look at what the contract asks for in B9, B10 and B11."""
    committed = ["git", "show", "--format=%s", "--name-only", "HEAD"]
    lines = subprocess.run(committed, cwd=workspace, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    assert lines[0] == "V0: baseline kernel"
    five = {"kernel.py", "test_kernel.py", "baseline_report.md", "memory/v0.json", "README.md"}
    assert {
        line.split("/")[0] if line.split("/")[0] in extra else line for line in lines[1:] if line
    } == five | extra
    memory = json.loads((workspace / "memory/v0.json").read_text())
    assert memory["quality_gate"]["passed"] is True
    assert memory["correctness"]["status"] == "passed"
    assert memory["correctness"]["max_rel_err"] < 0.01
    assert memory["correctness"]["timeouts"] == []
    assert memory["optimization"]["configuration"]["launches"]
    assert (
        memory["performance"]["latency_us"] is None
    )  # the emulator measures no time, and nobody makes one up
    report = (workspace / "baseline_report.md").read_text()
    assert pattern in report
    assert "not measured" in report
    assert "TIMEOUT_FAIL: none" in report
    generated = (workspace / "generated_kernel.py").read_text()
    assert "class Model(nn.Module)" in generated


def test_rmsnorm_as_documented(tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    assert "normalization" in run(documented_commands(), tmp_path)
    check(tmp_path / "rmsnorm", "normalization", {"norm_ops"})


@pytest.mark.parametrize(("name", "pattern"), [("gemm_gelu", "GEMM + GELU"), ("attention", "attention")])
def test_other_kernels(tmp_path: Path, name: str, pattern: str) -> None:
    (tmp_path / "examples").mkdir()
    shutil.copytree(DATA / name, tmp_path / "examples" / name)
    commands = [
        line.replace(" examples/rmsnorm/norm_ops", "").replace("rmsnorm", name)
        for line in documented_commands()
    ]
    run(commands, tmp_path)
    check(tmp_path / name, pattern, set())
