"""Files that are not what one hopes for: one clear line each, and the rest is still linted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from kernel_lint.cli import cli, main


def _run(*arguments: str, stdin: bytes | None = None) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli, [*arguments], input=stdin, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.return_value or 0, result.stdout, result.stderr


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.py"
    path.write_text("print('found')\n")
    return path


def test_missing(tmp_path: Path, good: Path) -> None:
    code, out, err = _run(str(tmp_path / "missing.py"), str(good), "--isolated")
    assert code == 2
    assert "missing.py does not exist" in err
    assert "KL102" in out


def test_broken_link(tmp_path: Path, good: Path) -> None:
    link = tmp_path / "link.py"
    link.symlink_to("nowhere.py")
    code, out, err = _run(str(link), str(good), "--isolated")
    assert code == 2
    assert "link.py is a symbolic link to nothing" in err
    assert "KL102" in out


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable(tmp_path: Path, good: Path) -> None:
    path = tmp_path / "secret.py"
    path.write_text("x = 1\n")
    path.chmod(0)
    code, out, err = _run(str(path), str(good), "--isolated")
    assert code == 2
    assert "secret.py cannot be read: Permission denied" in err
    assert "KL102" in out


def test_too_big(tmp_path: Path, good: Path) -> None:
    path = tmp_path / "big.py"
    path.write_bytes(b"x = 1\n" * 2_000_000)
    code, out, err = _run(str(path), str(good), "--isolated")
    assert code == 2
    assert "big.py has 12.0 MB, more than the limit of 4.0 MB" in err
    assert "KL102" in out


def test_an_empty_directory(tmp_path: Path) -> None:
    code, out, err = _run(str(tmp_path), "--isolated")
    assert code == 0
    assert "0 files checked" in out
    assert err == f"kernel-lint: warning: no Python files in {tmp_path}\n"


def test_nothing_is_said_of_others_where_there_are_none(tmp_path: Path, good: Path) -> None:
    assert _run(str(tmp_path / "missing.py"), "--isolated")[1] == "No file could be checked.\n"
    good.write_text("x = 1\n")
    out = _run(str(tmp_path / "missing.py"), str(good), "--isolated")[1]
    assert out == "No findings in the other 1 file.\n"


@pytest.mark.parametrize(
    ("paths", "words"),
    [
        ([""], "one of the paths is empty"),
        (["-", "good.py"], "'-' (standard input) cannot be linted together with files"),
    ],
)
def test_paths_that_can_only_be_a_mistake(
    paths: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", *paths]) == 2
    assert words in capsys.readouterr().err


def test_closed_standard_input(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert main(["check", "-", "--isolated"]) == 2
    assert "standard input is closed" in capsys.readouterr().err


def test_a_directory_is_walked(tmp_path: Path, good: Path) -> None:
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "skipped.py").write_text("print(1)\n")
    (tmp_path / "notes.txt").write_text("print(1)\n")
    code, out, _ = _run(str(tmp_path), "--isolated", "--output-format", "concise")
    assert code == 1
    assert [line.split(":")[0] for line in out.splitlines()] == [str(good)]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x7fELF\x00\x00\x01", "NUL byte"),
        (b"caf\xe9 = 1\n", "not valid UTF-8"),
        (b"x = " + b"(" * 5000 + b")" * 5000, "nested"),
        (b"```python\nx = 1\n```\n", "Markdown fence"),
        (b"\xff\xfeh\x00i\x00", "UTF-16"),
        (b"\n".join([b"if x:"] * 120), "indent"),
    ],
)
def test_not_python(tmp_path: Path, good: Path, data: bytes, words: str) -> None:
    path = tmp_path / "odd.py"
    path.write_bytes(data)
    code, out, _ = _run(str(path), str(good), "--isolated", "--select", "KL001,KL102")
    assert code == 1
    found = [line for line in out.splitlines() if "odd.py" in line]
    # No excerpt of what cannot be read, with a mark under nothing.
    assert "  1 | \n" not in out
    assert len(found) == 1
    assert "KL001" in found[0]
    assert words in out
    assert "KL102" in out


@pytest.mark.parametrize(
    "data", [b"", b"\xef\xbb\xbf", b"\xef\xbb\xbfx = 1\r\n", b"\tx = 1\n"[1:], b"x = 1\r"]
)
def test_unusual_but_fine(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "fine.py"
    path.write_bytes(data)
    assert _run(str(path), "--isolated")[0] == 0


def test_an_empty_final_file_lacks_its_model(tmp_path: Path) -> None:
    path = tmp_path / "generated_kernel.py"
    path.write_bytes(b"")
    code, out, _ = _run(str(path), "--isolated")
    assert code == 1
    assert "defines no class `Model`" in out


def test_deep_but_legal_expressions(tmp_path: Path) -> None:
    path = tmp_path / "deep.py"
    path.write_text("x = " + " + ".join(["1"] * 900) + "\ny = x" + ".a" * 500 + "\nz = f" + "()" * 90 + "\n")
    code, _, err = _run(str(path), "--isolated", "--select", "KL1,KL3")
    assert (code, err) in ((0, ""), (2, err))
    assert "Traceback" not in err


def test_standard_input(tmp_path: Path) -> None:
    code, out, _ = _run(
        "-", "--stdin-filename", "generated_kernel.py", "--isolated", "--select", "KL102", stdin=b"print(1)\n"
    )
    assert code == 1
    assert "generated_kernel.py:1:1" in out


def test_control_characters_do_not_reach_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "evil.py"
    path.write_text("print('\x1b[2J')  # \x07\n")
    _, out, _ = _run(str(path), "--isolated")
    assert "\x1b" not in out
    assert "\x07" not in out


def test_usage_errors_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--no-such-option"]) == 2
    assert main(["check", "--select", "KL999", "--isolated", "."]) == 2
    assert "no rule is called 'KL999'" in capsys.readouterr().err
