"""The way around click, and the answers that it gives without linting."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_lint import answers, cli, engine, shortcut
from kernel_lint.check_options import OPTIONS, parse
from kernel_lint.commands.check import command

Run = Callable[..., tuple[int, str]]
Sleep = Callable[[], None]
Capture = pytest.CaptureFixture[str]
HEAVY = "click typing re enum dataclasses json kernel_lint.engine kernel_lint.config kernel_lint.rule".split()
WORDS = (
    *(name for option in OPTIONS for name in option.names),
    *"--no-final -j4 --jobs=2 --select=KL1 --output-format=json --color=always --fix=1 -j=3 --nope".split(),
    *"-x - --".split(),
    *"a.py ops KL101,KL102 , 4 -4 flydsl auto full check -- --output-format= ''".split(),
    "",
    "a b.py",
)


@given(st.lists(st.sampled_from(WORDS), max_size=6))
def test_plain_command_lines_are_read_as_click_reads_them(words: list[str]) -> None:
    read = parse(words)
    if read is None:
        return
    try:
        context = command.make_context("check", list(words))
    except click.ClickException as error:
        pytest.fail(f"click refuses {words}: {error}")
    assert read == context.params


def test_every_option_is_read() -> None:
    words = ["a.py"]
    values = {"choice": None, "count": "3", "flag": "", "switch": ""}
    for option in OPTIONS:
        value = option.choices[0] if option.choices else values.get(option.kind, "KL1,KL2")
        words += [option.names[0], value] if value else [option.names[0]]
    assert parse(words) == command.make_context("check", list(words)).params


@pytest.mark.parametrize(
    "words",
    [[], ["--help"], ["-h"], ["--version"], ["verify", "x.py"], ["test-kernel"], ["-"], ["a.py", "--fix"]]
    + [["a.py", "--watch"], ["a.py", "--reference", "r.py"], ["a.py", "--nope"], ["check", "--select"]],
)
def test_the_rest_is_left_to_click(words: list[str]) -> None:
    assert shortcut.run(words) is None


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> Callable[..., tuple[int, str]]:
    monkeypatch.chdir(tmp_path)

    def _run(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        code = shortcut.run([*words, "--cache-dir", "cache"])
        assert code is not None
        out = capsys.readouterr().out
        assert cli.main([*words, "--no-cache"]) == code
        assert capsys.readouterr().out == out
        return code, out

    return _run


@pytest.fixture
def asleep(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Let what follows fail when it lints."""

    def _asleep() -> None:
        original = engine.check_paths

        def check(paths: object, settings: object, *, use_cache: bool = False) -> object:
            assert not use_cache, "linted although the answer was known"
            return original(paths, settings)  # type: ignore[arg-type]

        monkeypatch.setattr(engine, "check_paths", check)

    return _asleep


@pytest.mark.parametrize(
    "words", [["ops.py"], ["."], ["ops.py", "--output-format", "json"], ["--exit-zero", "."]]
)
def test_an_answer_is_what_linting_says(run: Run, asleep: Sleep, tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "ops.py").write_text("print(1)\n")
    first = run(*words)
    asleep()
    assert run(*words) == first


def test_an_answer_is_never_stale(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "ops.py"
    file.write_text("print(1)\n")
    assert "KL102" in run(".")[1]
    file.write_text("print()\nx = 1\nprint(2)\n")
    assert run(".")[1].count("KL102") == 2
    (tmp_path / "pyproject.toml").write_text('[tool.kernel-lint]\nignore = ["KL102"]\n')
    assert "KL102" not in run(".")[1]
    (tmp_path / "more.py").write_text("print(3)\n")
    (tmp_path / "pyproject.toml").write_text('[tool.kernel-lint]\nexclude = ["ops.py", "cache"]\n')
    assert run(".")[1].count("KL102") == 1
    (tmp_path / "more.py").unlink()
    assert "KL102" not in run(".")[1]


def test_neighbours_are_asked_again(run: Run, asleep: Sleep, tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text("import helper\n")
    assert "error KL104" in run("kernel.py")[1]
    (tmp_path / "helper.py").write_text("")
    assert "info KL104" in run("kernel.py")[1]
    asleep()
    assert "info KL104" in run("kernel.py")[1]


def test_another_working_directory_is_another_question(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "kernel.py").write_text("import helper\n")
    (tmp_path / "b" / "helper.py").write_text("")
    for folder, word in (("a", "error"), ("b", "info"), ("a", "error")):
        monkeypatch.chdir(tmp_path / folder)
        assert f"{word} KL104" in run("kernel.py", "--cache-dir", str(tmp_path / "cache"))[1]


def test_a_configuration_that_extends_another_has_no_answer(run: Run, tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text('[tool.kernel-lint]\nignore = ["KL102"]\n')
    (tmp_path / "pyproject.toml").write_text('[tool.kernel-lint]\nextend = "base.toml"\n')
    (tmp_path / "ops.py").write_text("print(1)\n")
    assert "KL102" not in run("ops.py")[1]
    (tmp_path / "base.toml").write_text("[tool.kernel-lint]\n")
    assert "KL102" in run("ops.py")[1]


def test_what_changes_while_it_is_checked_has_no_answer(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ops.py"
    file.write_text("print(1)\n")
    original = engine.check_paths

    def check(*arguments: object, **options: object) -> object:
        result = original(*arguments, **options)  # type: ignore[arg-type]
        file.write_text("x = 1\n")
        return result

    with monkeypatch.context() as patched:
        patched.setattr(engine, "check_paths", check)
        assert shortcut.run(["ops.py", "--cache-dir", "cache"]) == 1
    file.write_text("print(1)\n")
    assert "KL102" in run("ops.py")[1]


def test_errors_have_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert shortcut.run(["gone.py", "--cache-dir", "cache"]) == 2
        assert "does not exist" in capsys.readouterr().err
    assert shortcut.run(["x.py", "--config", "gone.toml"]) == 2
    assert "gone.toml is not a file" in capsys.readouterr().err


def test_a_damaged_answer_is_none(run: Run, tmp_path: Path) -> None:
    (tmp_path / "ops.py").write_text("print(1)\n")
    first = run(".")
    for entry in (tmp_path / "cache").rglob("*"):
        if entry.is_file():
            entry.write_bytes(entry.read_bytes()[:-1])
    assert run(".") == first


@given(st.lists(st.binary()))
def test_packed_parts_come_back(parts: list[bytes]) -> None:
    packed = answers.pack(*parts)
    assert answers.unpack(packed) == parts
    assert answers.unpack(packed[:-1]) != parts or not parts
    assert answers.unpack(None) is None


def test_a_repeated_run_loads_next_to_nothing(tmp_path: Path) -> None:
    (tmp_path / "ops.py").write_text("x = 1\n")
    code = (
        "import sys; before = set(sys.modules); from kernel_lint import shortcut;"
        "assert shortcut.run(['ops.py', '--cache-dir', 'cache']) == 0;"
        "print(sorted(m for m in set(sys.modules) - before))"
    )
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {code}"],
            cwd=tmp_path, capture_output=True, text=True, check=True,
        )  # fmt: skip
    loaded = done.stdout.splitlines()[-1]
    for heavy in (
        "click",
        "typing",
        "re",
        "enum",
        "dataclasses",
        "json",
        "kernel_lint.engine",
        "kernel_lint.config",
    ):
        assert f"'{heavy}'" not in loaded


def test_colour_is_part_of_the_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NO_COLOR", raising=False)
    (tmp_path / "ops.py").write_text("print(1)\n")
    for force in ("1", "", "1"):
        monkeypatch.setenv("FORCE_COLOR", force)
        shortcut.run(["ops.py", "--cache-dir", "cache"])
        assert ("\x1b[" in capsys.readouterr().out) is bool(force)


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "ops.py").write_text("print(1)\n" * 5000)
    run = f"{sys.executable} -m kernel_lint ops.py --no-cache --isolated"
    done = subprocess.run(
        ["bash", "-c", f"{run} | head -1; exit ${{PIPESTATUS[0]}}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert "Traceback" not in done.stderr
    assert done.returncode == 1
