"""The examples compute the right numbers without a GPU, and every barrier in them is needed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from example_workspaces import EXAMPLES, WORKSPACES, Workspace

pytestmark = pytest.mark.flydsl
pytest.importorskip("flydsl")


def emulate(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the emulator with all its checks, loads past a tensor counted as errors."""
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "kernel_lint",
            "emulate",
            str(folder / "kernel.py"),
            "--load-errors",
            *options,
        ],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize("workspace", WORKSPACES, ids=lambda w: w.name)
def test_example_is_right_at_every_shape(workspace: Workspace) -> None:
    run = emulate(workspace.folder)
    assert run.returncode == 0, run.stdout
    assert "error" not in run.stdout.replace("relative error", "")


@pytest.mark.parametrize(
    ("name", "file", "kept", "shape"),
    [
        ("softmax", "ops/reduce.py", 0, "odd_f16"),
        ("rmsnorm", "norm_ops/sums.py", 0, "tail_f32"),
        ("gemm", "gemm_ops/gemm.py", 0, "odd"),
        ("gemm", "gemm_ops/gemm.py", 1, "tails"),
        ("gemm", "gemm_ops/gemm.py", 2, "odd"),
    ],
)
def test_a_barrier_left_out_is_a_race(name: str, file: str, kept: int, shape: str, tmp_path: Path) -> None:
    """Drop the barrier that follows the first ``kept`` ones of the file."""
    folder = shutil.copytree(EXAMPLES / name, tmp_path / name)
    parts = (folder / file).read_text("utf-8").split("fx.gpu.barrier()")
    head, tail = parts[: kept + 1], parts[kept + 1 :]
    (folder / file).write_text(
        "fx.gpu.barrier()".join(head) + "pass" + "fx.gpu.barrier()".join(tail), "utf-8"
    )
    run = emulate(folder, "--shape", shape)
    assert run.returncode == 1, run.stdout
    assert "RACE" in run.stdout
