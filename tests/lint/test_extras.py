"""Without the extra that a command needs, it says which one to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kernel_lint.cli import EXTRAS

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def run_without(module: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``kernel-lint`` where a module cannot be imported, as if it were missing."""
    code = f"import sys; sys.modules[{module!r}] = None; from kernel_lint.cli import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_command_names_the_extra_that_it_needs(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text("import torch\n", encoding="utf-8")

    done = run_without("torch", tmp_path, "emulate", "kernel.py")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "kernel-lint: error: this needs torch, which is not installed\n"
        "  remedy: pip install 'kernel-lint[verify]'\n"
    )


def test_a_missing_module_of_our_own_is_no_missing_extra(tmp_path: Path) -> None:
    done = run_without("kernel_lint.verify", tmp_path, "verify", "x.py")

    assert done.returncode == 1
    assert "ModuleNotFoundError" in done.stderr


def test_each_package_is_in_the_extra_that_is_named() -> None:
    tomllib = pytest.importorskip("tomllib", reason="reads pyproject.toml")
    extras = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["optional-dependencies"]

    for package, extra in EXTRAS.items():
        assert any(line.split(">")[0] == package for line in extras[extra]), package
