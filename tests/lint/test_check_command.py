"""The check command: fixing, diffs, statistics, the cache, colour."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from kernel_lint import cache, engine, fixing, reporters
from kernel_lint.cli import cli
from kernel_lint.config import Settings, load
from kernel_lint.errors import KernelLintError

ONE = ["--isolated", "--no-cache", "--select", "KL102"]


def _run(*arguments: object, stdin: str | None = None, env: dict[str, str] | None = None) -> tuple[int, str]:
    words = [str(a) for a in arguments]
    result = CliRunner().invoke(cli, words, input=stdin, env=env, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.return_value or 0, result.stdout


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "ops.py"
    path.write_bytes(b"\xef\xbb\xbfx = 1\r\nprint(x)\r\nprint(f())\r\n")
    return path


def test_fix_keeps_encoding_and_line_ends(file: Path) -> None:
    assert _run(file, "--fix", *ONE)[0] == 1
    assert file.read_bytes() == b"\xef\xbb\xbfx = 1\r\nprint(f())\r\n"
    assert _run(file, "--fix", "--unsafe-fixes", *ONE)[0] == 0
    assert file.read_bytes() == b"\xef\xbb\xbfx = 1\r\n"


def test_diff_changes_nothing(file: Path) -> None:
    before = file.read_bytes()
    code, out = _run(file, "--diff", *ONE)
    assert code == 1
    assert "-print(x)" in out
    assert "print(f())" in out
    assert file.read_bytes() == before


def test_fix_only_reports_nothing(file: Path) -> None:
    assert _run(file, "--fix-only", *ONE) == (0, "")


def test_fixing_standard_input_prints_the_text() -> None:
    assert _run("-", "--fix", *ONE, stdin="print(1)\nx = 2\n") == (0, "x = 2\n")


def test_statistics(file: Path) -> None:
    assert _run(file, "--statistics", *ONE) == (1, "     2  KL102  [*] debug-output\n")


def test_statistics_as_json(file: Path) -> None:
    code, out = _run(file, "--statistics", "--output-format", "json", *ONE)
    assert code == 1
    assert json.loads(out) == [{"code": "KL102", "name": "debug-output", "count": 2, "fixable": True}]
    with pytest.raises(KernelLintError, match="--statistics has no form 'sarif'"):
        _run(file, "--statistics", "--output-format", "sarif", *ONE)


def test_fix_keeps_a_declared_encoding(tmp_path: Path) -> None:
    path = tmp_path / "ops.py"
    path.write_bytes(b"# coding: latin-1\nx = 'caf\xe9'\nprint(x)\n")
    assert _run(path, "--fix", *ONE)[0] == 0
    assert path.read_bytes() == b"# coding: latin-1\nx = 'caf\xe9'\n"


def test_fix_takes_away_what_stands_around_the_code(tmp_path: Path) -> None:
    path = tmp_path / "ops.py"
    path.write_text("Here is the kernel:\n\n```python\nx = 1\n```\n")
    assert _run(path, "--fix", "--isolated", "--no-cache")[0] == 0
    assert path.read_text() == "\nx = 1\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"\xef\xbb\xbfx = 1\r\nprint(1)\r\n", b"\xef\xbb\xbfx = 1\r\n"),
        (b"# coding: latin-1\nx = '\xe9'\nprint(1)\n", b"# coding: latin-1\nx = '\xe9'\n"),
        # What is no text comes out as it was: an editor puts our output in its place.
        (b"\x7fELF\x00\xff", b"\x7fELF\x00\xff"),
        (b"x = '\xe9'\nprint(1)\n", b"x = '\xe9'\nprint(1)\n"),
    ],
)
def test_fixing_standard_input_keeps_its_bytes(before: bytes, after: bytes) -> None:
    result = CliRunner().invoke(cli, ["-", "--fix", *ONE], input=before, standalone_mode=False)
    assert result.stdout_bytes == after


def test_a_file_too_deep_to_analyse_is_neither_fixed_nor_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deep(*_arguments: object, **_options: object) -> None:
        raise RecursionError

    monkeypatch.setattr(engine, "check_module", deep)
    path = tmp_path / "ops.py"
    path.write_text("print(1)\n")
    assert _run(path, "--fix", *ONE)[0] == 2
    assert path.read_text() == "print(1)\n"
    assert _run("-", "--fix", *ONE, stdin="print(1)\n") == (2, "print(1)\n")


def test_what_could_not_be_written_is_not_counted_as_fixed(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("kernel_lint.fixing.replace_bytes", refuse)
    outcome = fixing.fix_files([file], Settings(select=("KL102",)), unsafe=False, write=True)
    assert outcome.applied == 0
    assert [str(error) for error in outcome.errors] == [
        f"{file} cannot be written: Permission denied\n  remedy: check its permissions"
    ]


def test_show_settings_prints_toml(tmp_path: Path) -> None:
    config = tmp_path / "own.toml"
    config.write_text('ignore = ["KL206"]\nper-file-ignores = { "ops/*.py" = ["KL104"] }\nfinal = true\n')
    out = _run("--show-settings", "--config", config, tmp_path)[1]
    assert out.startswith(f"# from {config}\n")
    again = tmp_path / "again.toml"
    again.write_text(out)
    assert load(tmp_path, config=again) == replace(load(tmp_path, config=config), source=str(again))


def test_help_names_every_format() -> None:
    text = " ".join(_run("check", "--help")[1].split())
    assert [name for name in reporters.formats() if name not in text] == []


def test_exit_zero(file: Path) -> None:
    assert _run(file, "--exit-zero", *ONE)[0] == 0


def test_json_is_as_documented(file: Path) -> None:
    _, out = _run(file, "--output-format", "json", *ONE)
    first = json.loads(out)[0]
    assert first["code"] == "KL102"
    assert first["name"] == "debug-output"
    assert first["location"] == {"row": 2, "column": 1}
    assert first["end_location"] == {"row": 2, "column": 6}
    assert first["clauses"] == ["X2"]
    assert first["fix"]["applicability"] == "safe"
    assert first["filename"] == str(file)


@pytest.mark.parametrize(
    ("options", "env", "colored"),
    [
        ([], {}, False),
        (["--color", "always"], {}, True),
        ([], {"FORCE_COLOR": "1"}, True),
        ([], {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        (["--color", "never"], {"FORCE_COLOR": "1"}, False),
    ],
)
def test_color(file: Path, options: list[str], env: dict[str, str], colored: bool) -> None:
    clean = {"NO_COLOR": "", "FORCE_COLOR": "", **env}
    assert ("\x1b[" in _run(file, *ONE, *options, env=clean)[1]) is colored


# -- the cache -------------------------------------------------------------------------


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(select=("KL102", "KL104"), cache_dir=str(tmp_path / "cache"))


def test_a_cached_result_is_the_result(file: Path, settings: Settings) -> None:
    first = engine.check_paths([file], settings, use_cache=True)
    assert any((Path(settings.cache_dir or "")).rglob("*"))
    assert engine.check_paths([file], settings, use_cache=True) == first
    assert engine.check_paths([file], settings) == first
    assert first.diagnostics[0].fix is not None


def test_the_cache_is_never_stale(file: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.check_paths([file], settings, use_cache=True)
    other = replace(settings, select=("KL101",))
    assert engine.check_paths([file], other, use_cache=True).diagnostics == ()
    file.write_text("x = 1\n")
    assert engine.check_paths([file], settings, use_cache=True).diagnostics == ()
    keys = {cache.Cache(settings).key("a.py", b"x"), cache.Cache(settings).key("b.py", b"x")}
    monkeypatch.setattr(cache, "fingerprint", lambda: "another version")
    assert len(keys | {cache.Cache(settings).key("a.py", b"x")}) == 3


def test_what_depends_on_neighbours_is_not_cached(tmp_path: Path, settings: Settings) -> None:
    entry = tmp_path / "kernel.py"
    entry.write_text("import helper\n")
    assert engine.check_paths([entry], settings, use_cache=True).diagnostics[0].severity.value == "error"
    (tmp_path / "helper.py").write_text("")
    assert engine.check_paths([entry], settings, use_cache=True).diagnostics[0].severity.value == "info"


def test_a_damaged_entry_is_no_entry(file: Path, settings: Settings) -> None:
    first = engine.check_paths([file], settings, use_cache=True)
    for entry in Path(settings.cache_dir or "").rglob("*"):
        if entry.is_file():
            entry.write_bytes(b"[[1")
    assert engine.check_paths([file], settings, use_cache=True) == first


def test_an_unwritable_cache_is_no_error(file: Path, settings: Settings) -> None:
    blocked = replace(settings, cache_dir=str(file))
    assert engine.check_paths([file], blocked, use_cache=True) == engine.check_paths([file], settings)


def test_the_cache_is_bounded(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernel_lint.store.MAX_ENTRIES", 10)
    # No key ends so: nothing is removed before it is asked for.
    monkeypatch.setattr("kernel_lint.store._PRUNE_ENDS", "never")
    store = cache.Cache(settings)
    for number in range(14):
        key = store.key("a.py", str(number).encode())
        store.put(key, [], {})
        os.utime(Path(settings.cache_dir or "") / key[:2] / key, (number, number))
    store.prune()
    left = [number for number in range(14) if store.get(store.key("a.py", str(number).encode())) is not None]
    assert left == [9, 10, 11, 12, 13]
