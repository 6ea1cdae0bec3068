"""How the program ends: at once, but not under the eyes of a profiler."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

WORDS = ("check", "a.py", "--isolated", "--no-cache", "--select", "KL102", "--output-format", "concise")
AT_EXIT = "import atexit, sys\natexit.register(lambda: print('taken apart'))\n"
RUN = f"sys.argv[1:] = {list(WORDS)!r}\nfrom kernel_lint.__main__ import entry\nentry()\n"


@pytest.mark.parametrize(
    ("before", "apart"),
    [
        ("", False),
        ("sys.setprofile(lambda *_: None)\n", True),
        ("sys.settrace(lambda *_: None)\n", True),
    ],
)
@pytest.mark.parametrize(("text", "code"), [("print(1)\n", 1), ("x = 1\n", 0)])
def test_ends_at_once_unless_watched(tmp_path: Path, before: str, apart: bool, text: str, code: int) -> None:
    (tmp_path / "a.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-c", AT_EXIT + before + RUN], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == code, done.stderr
    assert ("taken apart" in done.stdout) is apart
    assert ("KL102" in done.stdout) is bool(code)
