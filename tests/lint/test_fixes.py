"""Fixes keep everything else byte for byte, and end."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_lint import engine
from kernel_lint.config import Settings
from kernel_lint.fixes import fix_until_stable
from kernel_lint.source import SourceModule

SETTINGS = Settings(select=("KL101", "KL102"))


def _fix(text: str, *, unsafe: bool = False) -> str:
    module = SourceModule.from_text(text, "f.py")
    return fix_until_stable(module, lambda m: engine.check_module(m, SETTINGS), unsafe=unsafe).text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        ("x = 1\n", "x = 1\n"),
        ("print(1)\nx = 1\n", "x = 1\n"),
        ("x = 1\r\nprint(1)\r\ny = 2\r\n", "x = 1\r\ny = 2\r\n"),
        ("if x:\n    print(1)\n", "if x:\n    pass\n"),
        ("if x:\n    print(1)\n    y = 1\n", "if x:\n    y = 1\n"),
        ("if x:\n    print(1)\n    print(2)\nprint(3)\n", "if x:\n    pass\n"),
        (
            "if x:\n    y = 1\nelse:\n    print(1)\n\n    # two\n    print(2)\n",
            "if x:\n    y = 1\nelse:\n\n    # two\n    pass\n",
        ),
        (
            "if x:\n    if y:\n        print(1)\n        print(2)\n    print(3)\n",
            "if x:\n    if y:\n        pass\n",
        ),
        ("x = 1; print(1)\n", "x = 1; pass\n"),
        ("def f():\n    print(\n        1,\n    )\n    return 1\n", "def f():\n    return 1\n"),
        ("x = 1\nprint(x)  # shown\n", "x = 1\n"),
        ("print(1)", ""),
        ("if __name__ == '__main__':\n    print(1)\n", ""),
        ("é = 'ü'\nprint(é)\n", "é = 'ü'\n"),
        ("exec('print(1)')\n", "exec('print(1)')\n"),
        # Each of two fixes is right, both together would leave an empty block.
        ("def f():\n    print(1)\n    print(2)\n\nprint(3)\nx = 1\n", "def f():\n    pass\n\nx = 1\n"),
        ("# coding: latin-1\nx = 'é'\nprint(x)\n", "# coding: latin-1\nx = 'é'\n"),
        (
            "try:\n    print(1)\nexcept ValueError:\n    print(2)\n",
            "try:\n    pass\nexcept ValueError:\n    pass\n",
        ),
    ],
)
def test_safe_fixes(before: str, after: str) -> None:
    assert _fix(before) == after


def test_a_print_with_a_call_is_left_unless_unsafe() -> None:
    assert _fix("print(f())\n") == "print(f())\n"
    assert _fix("print(f())\n", unsafe=True) == ""


LINES = [
    "x = 1",
    "print(x)",
    "if x:\n    print(1)",
    "for i in y:\n    print(i)\n    z = i",
    "# note",
    "print(1); y = 2",
    "s = 'print(1)'",
]


@given(st.lists(st.sampled_from(LINES), max_size=8))
def test_fixing_is_idempotent_and_removes_only_prints(parts: list[str]) -> None:
    text = "\n".join(parts) + "\n"
    fixed = _fix(text)
    assert _fix(fixed) == fixed
    kept = [n for n in ast.walk(ast.parse(fixed)) if isinstance(n, (ast.Assign, ast.For, ast.If))]
    had = [n for n in ast.walk(ast.parse(text)) if isinstance(n, (ast.Assign, ast.For, ast.If))]
    assert len(kept) == len(had)
    assert not any(isinstance(n, ast.Name) and n.id == "print" for n in ast.walk(ast.parse(fixed)))
