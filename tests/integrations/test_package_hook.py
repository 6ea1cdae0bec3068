"""The pre-commit hook that keeps generated_kernel.py current."""

from __future__ import annotations

from pathlib import Path

import pytest
from integrations.workspaces import make_workspace, package_into

from kernel_lint.cli import main
from kernel_lint.integrations.package_hook import workspaces


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = make_workspace(tmp_path)
    package_into(made)
    return made


def test_a_current_result_passes(folder: Path) -> None:
    assert main(["hook", "package", str(folder / "ops" / "reduce.py"), str(folder / "kernel.py")]) == 0


def test_a_stale_result_is_written_anew_and_stops_the_commit(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = folder / "generated_kernel.py"
    good = result.read_bytes()
    result.write_text("x = 1\n")
    assert main(["hook", "package", str(folder / "ops" / "reduce.py")]) == 1
    assert "is written anew" in capsys.readouterr().err
    assert result.read_bytes() == good


def test_what_cannot_be_packaged_stops_the_commit_and_changes_nothing(folder: Path) -> None:
    result = folder / "generated_kernel.py"
    before = result.read_bytes()
    (folder / "kernel.py").write_text("import ops.gone\n\nclass Model(ops.gone.M): pass\n")
    assert main(["hook", "package", str(folder / "kernel.py")]) == 1
    assert result.read_bytes() == before


def test_files_outside_a_workspace_are_nobodys(tmp_path: Path, folder: Path) -> None:
    other = tmp_path / "other.py"
    assert workspaces([other]) == []
    assert workspaces([folder / "ops" / "reduce.py", folder / "kernel.py"]) == [folder]
    assert main(["hook", "package", str(other)]) == 0
