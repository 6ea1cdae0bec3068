"""Where settings come from, and how mistakes in them are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernel_lint import config
from kernel_lint.errors import KernelLintError


def _write(folder: Path, text: str) -> Path:
    path = folder / "pyproject.toml"
    path.write_text(text)
    return path


def test_the_nearest_file_with_our_table_counts(tmp_path: Path) -> None:
    _write(tmp_path, "[tool.kernel-lint]\nignore = ['KL206']\n")
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    _write(tmp_path / "a", "[project]\nname = 'kernel-lint-user'\n")
    assert config.load(inner / "x.py").ignore == ("KL206",)


def test_no_merging_up_the_tree_but_extend(tmp_path: Path) -> None:
    _write(tmp_path, "[tool.kernel-lint]\nignore = ['KL206']\nframework = 'cutedsl'\n")
    inner = tmp_path / "a"
    inner.mkdir()
    _write(inner, "[tool.kernel-lint]\nselect = ['KL1']\n")
    assert config.load(inner).ignore == ()
    _write(inner, "[tool.kernel-lint]\nextend = '../pyproject.toml'\nselect = ['KL1']\n")
    found = config.load(inner)
    assert (found.ignore, found.select, found.framework) == (("KL206",), ("KL1",), "cutedsl")


def test_isolated_reads_nothing(tmp_path: Path) -> None:
    _write(tmp_path, "[tool.kernel-lint]\nignore = ['KL206']\n")
    assert config.load(tmp_path, isolated=True) == config.Settings()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[tool.kernel-lint]\nselct = []\n", "did you mean 'select'?"),
        ("[tool.kernel-lint]\nselect = 'KL1'\n", "'select' must be a list of strings"),
        ("[tool.kernel-lint]\nframework = 'cuda'\n", "'framework' must be one of flydsl, cutedsl"),
        ("[tool.kernel-lint]\njobs = -1\n", "'jobs' must be a whole number"),
        ("[tool.kernel-lint]\njobs = true\n", "'jobs' must be a whole number"),
        ("[tool.kernel-lint\n", "is not valid TOML"),
        ("[tool]\nkernel-lint = 3\n", "is not a table"),
        ("[tool.kernel-lint]\nextend = 'pyproject.toml'\n", "extends itself"),
        ("[tool.kernel-lint]\nper-file-ignores = ['a']\n", "a table of pattern = [codes]"),
    ],
)
def test_mistakes_are_errors(tmp_path: Path, text: str, words: str) -> None:
    path = _write(tmp_path, text)
    with pytest.raises(KernelLintError) as caught:
        config.load(tmp_path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)


def test_per_file_ignores() -> None:
    settings = config.Settings(per_file_ignores={"ops/*.py": ("KL104",), "*_test.py": ("KL1",)})
    assert settings.ignored_for("ops/load.py") == ("KL104",)
    assert settings.ignored_for("x/gemm_test.py") == ("KL1",)
    assert settings.ignored_for("kernel.py") == ()
