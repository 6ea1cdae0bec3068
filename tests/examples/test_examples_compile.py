"""Each example compiles for both targets, for every shape, without spilling registers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from example_workspaces import WORKSPACES, Workspace

from kernel_lint.verify.backends.metadata import read_gpu_binary
from kernel_lint.verify.linker import find_linker, write_rocm_shim

pytestmark = pytest.mark.flydsl
pytest.importorskip("flydsl")

KERNELS = {
    "gemm": {"gemm_tile"},
    "rmsnorm": {"rmsnorm_block", "rmsnorm_wave"},
    "softmax": {"softmax_rows"},
}


def compile_workspace(workspace: Workspace, target: str, rocm: Path, dumps: Path) -> None:
    environment = {
        **os.environ,
        "COMPILE_ONLY": "1",
        "ARCH": target,
        "FLYDSL_GPU_ARCH": target,
        "FLYDSL_RUNTIME_ENABLE_CACHE": "0",
        "FLYDSL_DUMP_IR": "1",
        "ROCM_PATH": str(rocm),
        "CUDA_VISIBLE_DEVICES": "",
        "HIP_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    child = Path(__file__).with_name("compile_child.py")
    run = subprocess.run(
        [sys.executable, str(child), str(workspace.folder), str(dumps)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-4000:]


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
@pytest.mark.parametrize("workspace", WORKSPACES, ids=lambda w: w.name)
def test_example_compiles(workspace: Workspace, target: str, tmp_path: Path) -> None:
    linker, _ = find_linker()
    rocm = tmp_path / "rocm" if linker is None else write_rocm_shim(linker, tmp_path / "rocm")
    compile_workspace(workspace, target, rocm, tmp_path / "dumps")

    kernels = set()
    for shape in workspace.shapes:
        files = "assembly.mlir" if linker is None else "*/*_gpu_module_to_binary.mlir"
        (binary,) = (tmp_path / "dumps" / shape).glob(files)
        (artifact,) = read_gpu_binary(binary.read_text("utf-8"), target)
        assert artifact.scratch_bytes == 0
        assert (artifact.vgpr_spills, artifact.sgpr_spills) == (0, 0)
        assert linker is None or artifact.code_bytes > 0
        kernels.add(artifact.kernel.rsplit("_", 1)[0])
    assert kernels == KERNELS[workspace.name]
