"""The packaged examples make the kernels of their workspaces; a changed file does not."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from kernel_lint.diagnostics import StageStatus
from kernel_lint.errors import KernelLintError
from kernel_lint.packager import package, prove

EXAMPLES = Path(__file__).parents[2] / "examples"


def workspace(name: str, folder: Path, shapes: int = 1) -> Path:
    """Copy an example with its first shapes only; return its entry."""
    target = folder / name
    shutil.copytree(EXAMPLES / name, target)
    listed = json.loads((target / "shapes.json").read_text())
    (target / "shapes.json").write_text(json.dumps(dict(list(listed.items())[:shapes])))
    return target / "kernel.py"


@pytest.mark.flydsl
@pytest.mark.parametrize("name", ["softmax", "rmsnorm", "gemm"])
def test_examples_compile_to_the_same_code_objects(name: str, tmp_path: Path) -> None:
    entry = workspace(name, tmp_path)
    stages = prove(entry, package(entry), targets=["gfx942"])
    assert [stage.status for stage in stages] == [StageStatus.PASSED], stages[0].message
    assert stages[0].data["ir_equal"]


@pytest.mark.flydsl
def test_a_change_is_found_and_located(tmp_path: Path) -> None:
    entry = workspace("softmax", tmp_path)
    result = package(entry)
    number = next(
        index for index, line in enumerate(result.text.splitlines()) if "float(" in line or "0.0" in line
    )
    lines = result.text.splitlines()
    lines[number] = lines[number].replace("0.0", "1.0").replace('"-inf"', '"-1"')
    changed = replace(result, text="\n".join(lines) + "\n")
    assert changed.text != result.text
    (stage,) = prove(entry, changed, targets=["gfx942"])
    assert stage.status is StageStatus.FAILED
    assert "first difference in the IR" in stage.message


@pytest.mark.flydsl
def test_a_file_that_does_not_import_fails(tmp_path: Path) -> None:
    entry = workspace("softmax", tmp_path)
    broken = replace(package(entry), text="raise RuntimeError('no')\n")
    (stage,) = prove(entry, broken, targets=["gfx942"])
    assert stage.status is StageStatus.FAILED
    assert stage.message == "the packaged file does not trace: RuntimeError: no"


def test_a_missing_task_is_said(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text("class Model:\n    pass\n")
    result = package(tmp_path / "kernel.py")
    with pytest.raises(KernelLintError, match=r"shapes\.json cannot be read"):
        prove(tmp_path / "kernel.py", result)
