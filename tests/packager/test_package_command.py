"""Plain command lines of ``package`` go past click, with the same outcome."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_lint import packaging, shortcut
from kernel_lint.commands.package import command

WORDS = (
    *(name for option in packaging.OPTIONS for name in option.names),
    *"kernel.py missing.py -o out.py --root=. --root /tmp --inline pkg --map=m.json - -- -x --nope".split(),
    *"--output-format=json text --keep-comments --explain=f --output= -oout.py tests".split(),
    "",
)
FORBIDDEN = {"click", "libcst", "dataclasses", "inspect", "typing", "tempfile", "tokenize", "json", "hashlib"}


@given(st.lists(st.sampled_from(WORDS), max_size=6))
def test_plain_command_lines_are_read_as_click_reads_them(words: list[str]) -> None:
    read = packaging.plain(words)
    if read is None:
        return
    try:
        context = command.make_context("package", list(words))
    except click.ClickException as error:
        pytest.fail(f"click refuses {words}: {error}")
    assert context.params == {
        "entry": Path(read["paths"][0]),
        "output": Path(read["output"]),
        "roots": tuple(map(Path, read["root"])),
        "inline": read["inline"],
        "keep_comments": read["keep_comments"],
        "map_file": Path(read["map"]) if read["map"] else None,
        "explain": read["explain"],
        "output_format": read["output_format"],
    }


def test_click_says_what_is_wrong_with_a_path(tmp_path: Path) -> None:
    assert packaging.plain([str(tmp_path / "kernel.py"), "-o", str(tmp_path)]) is None
    assert packaging.plain(["-"]) is None
    assert packaging.plain(["a.py", "b.py"]) is None
    assert shortcut.run(["package", "--help"]) is None


def test_writes_maps_and_reports(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    entry, out, places = tmp_path / "kernel.py", tmp_path / "generated_kernel.py", tmp_path / "map.json"
    entry.write_text("class Model:\n    pass\n")
    words = ["package", str(entry), "-o", str(out), "--map", str(places), "--output-format", "json"]
    assert shortcut.run(words) == 0
    assert json.loads(capfd.readouterr().out)["kept"] == ["kernel.Model"]
    assert out.read_text() == "class Model:\n    pass\n"
    assert json.loads(places.read_text())["lines"]["1"] == [str(entry), 1]
    assert (tmp_path / ".kernel-lint" / "record.json").exists()
    assert shortcut.run(["package", str(entry), "-o", str(entry)]) == 2
    assert "is the entry itself" in capfd.readouterr().err
    assert shortcut.run(["package", str(entry), "--explain", "Model", "-o", str(out)]) == 0
    assert capfd.readouterr().out.startswith("kernel.Model is in the result")


def test_loads_little(tmp_path: Path) -> None:
    entry = tmp_path / "kernel.py"
    entry.write_text("class Model:\n    pass\n")
    words = ["package", str(entry), "-o", str(tmp_path / "out.py")]
    run = "import sys; before = set(sys.modules); from kernel_lint import shortcut; "
    run += f"code = shortcut.run({words!r}); print(*set(sys.modules) - before); sys.exit(code)"
    done = subprocess.run([sys.executable, "-c", run], capture_output=True, text=True, check=True)
    assert not FORBIDDEN & {name.partition(".")[0] for name in done.stdout.split()}
