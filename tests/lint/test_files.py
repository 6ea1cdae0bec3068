"""Paths without pathlib."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_lint.files import kind_of, python_files, tidy


@pytest.mark.skipif(os.name == "nt", reason="there it is pathlib itself")
@given(st.text(alphabet="/.ab", max_size=12))
def test_tidied_paths_are_pathlibs(path: str) -> None:
    assert tidy(path) == str(Path(path))


def test_kinds(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to("nowhere")
    names = {
        name: kind_of(str(tmp_path / name)) for name in ("file", "link", "nothing", "file/x", "a\0b", "")
    }
    assert names == {"file": "file", "link": "", "nothing": "", "file/x": "", "a\0b": "", "": "directory"}


def test_walks_in_order_and_around_what_is_excluded(tmp_path: Path) -> None:
    for name in ("b.py", "a/z.py", "a/y.py", "skip/x.py", "c.txt", "skip.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "loop").symlink_to(tmp_path)
    found = [os.path.relpath(path, tmp_path) for path in python_files(str(tmp_path), {"skip", "skip.py"})]
    assert found == ["b.py", "a/y.py", "a/z.py"]
