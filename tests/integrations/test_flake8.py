"""The plugin under the real flake8, beside bugbear, on files and on unsaved buffers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = """\
def f(x=[]):  # B006 is bugbear's
    print(x)
    return x
"""


def _flake8(folder: Path, *arguments: str, stdin: str | None = None) -> tuple[int, list[str]]:
    words = [sys.executable, "-m", "flake8", "--isolated", "-j1", *arguments]
    run = subprocess.run(
        words, cwd=folder, input=stdin, capture_output=True, text=True, timeout=120, encoding="utf-8"
    )
    assert run.stderr == ""
    return run.returncode, run.stdout.splitlines()


def _final(folder: Path, source: str, name: str = "generated_kernel.py") -> Path:
    path = folder / name
    path.write_text(source, encoding="utf-8")
    return path


def test_beside_bugbear(tmp_path: Path) -> None:
    pytest.importorskip("bugbear")
    _final(tmp_path, SOURCE)
    code, lines = _flake8(tmp_path, "--select", "B006,KL102", "generated_kernel.py")
    assert code == 1
    assert len(lines) == 2
    assert lines[0].startswith("generated_kernel.py:1:9: B006")
    assert lines[1] == "generated_kernel.py:2:5: KL102 debug-output: `print` writes debug output"


def test_the_plugin_is_listed(tmp_path: Path) -> None:
    assert "kernel-lint: 0.1.0" in " ".join(_flake8(tmp_path, "--version")[1])


def test_an_unsaved_buffer(tmp_path: Path) -> None:
    _final(tmp_path, "x = 1\n")
    options = ("--select", "KL", "--ignore", "KL2", "--stdin-display-name", "generated_kernel.py", "-")
    code, lines = _flake8(tmp_path, *options, stdin='é = 1\nprint("é")\n')
    assert code == 1
    assert lines == ["generated_kernel.py:2:1: KL102 debug-output: `print` writes debug output"]


@pytest.mark.parametrize(
    ("comment", "line", "told"),
    [
        ("", 2, False),
        ("# noqa", 0, True),
        ("# NoQA: KL102", 0, True),
        ("# noqa: KL1,E501", 0, True),
        ("# noqa: it must print", 0, True),
        ("# noqa: E501", 2, False),
    ],
)
def test_noqa_hides_nothing_in_the_final_file(tmp_path: Path, comment: str, line: int, told: bool) -> None:
    _final(tmp_path, f"x = 1\nprint(x)  {comment}\n".replace("  \n", "\n"))
    code, lines = _flake8(tmp_path, "--select", "KL102", "generated_kernel.py")
    assert code == 1
    assert len(lines) == 1
    assert lines[0].startswith(f"generated_kernel.py:{line}:")
    assert ("line 2: " in lines[0] and "noqa" in lines[0]) is told


def test_noqa_at_the_end_of_a_statement_of_several_lines(tmp_path: Path) -> None:
    _final(tmp_path, 'print("""a\nb""")  # noqa\n')
    _, lines = _flake8(tmp_path, "--select", "KL102", "generated_kernel.py")
    assert len(lines) == 1
    assert "line 1: " in lines[0]


def test_noqa_counts_in_development_files_and_may_be_disabled(tmp_path: Path) -> None:
    _final(tmp_path, "print(1)  # noqa\n", "kernel.py")
    assert _flake8(tmp_path, "--select", "KL102", "kernel.py") == (0, [])
    _, lines = _flake8(tmp_path, "--select", "KL102", "--disable-noqa", "kernel.py")
    assert len(lines) == 1
    assert lines[0].startswith("kernel.py:1:1: KL102")
    _final(tmp_path, "print(1)  # noqa\n")
    _, lines = _flake8(tmp_path, "--select", "KL102", "--disable-noqa", "generated_kernel.py")
    assert lines[0].startswith("generated_kernel.py:1:1: KL102")


def test_a_file_wide_noqa_is_out_of_reach(tmp_path: Path) -> None:
    """flake8 never shows such a file to a plugin: the documentation says so, `kernel-lint` still finds it."""
    _final(tmp_path, "# flake8: noqa\nprint(1)\n")
    assert _flake8(tmp_path, "--select", "KL102", "generated_kernel.py") == (0, [])


def test_settings_come_from_pyproject(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.kernel-lint]\nignore = ["KL102"]\n')
    _final(tmp_path, "print(1)\n")
    assert _flake8(tmp_path, "--select", "KL102", "generated_kernel.py") == (0, [])


def test_notes_fail_no_run(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("y = 1\n")
    _final(tmp_path, "import helper\n\nprint = helper.y\n", "kernel.py")
    assert _flake8(tmp_path, "--select", "KL104", "kernel.py") == (0, [])


def test_a_syntax_error_is_flake8s_own(tmp_path: Path) -> None:
    _final(tmp_path, "```python\nx = 1\n")
    code, lines = _flake8(tmp_path, "--select", "E9,KL", "generated_kernel.py")
    assert code == 1
    assert any("E999" in line or "E902" in line for line in lines)
