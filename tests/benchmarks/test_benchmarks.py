"""The benchmarks on tiny inputs: what they write, never how fast anything is."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def load(name: str) -> Any:
    return importlib.import_module(name)


def test_a_power_is_fitted_to_the_larger_half() -> None:
    fit = load("growth").fit
    sizes = [1, 10, 100, 1000]
    assert fit(sizes, [7.0, 1.0, 10.0, 100.0]) == pytest.approx(1.0)
    assert fit(sizes, [0.0, 0.1, 10.0, 1000.0]) == pytest.approx(2.0)
    assert fit(sizes, [0.0, 0.0, 0.0, 5.0]) is None
    assert fit([], []) is None


def test_tables() -> None:
    table = load("measure").Table("Title", ("", "n", "s"), (("a", 1234, 0.125), ("b", None, 250.4)), "a note")
    assert table.text().splitlines() == [
        "Title (a note)",
        "       n     s",
        "a  1,234  0.12",
        "b          250",
    ]
    assert table.markdown().splitlines()[2:] == [
        "|  | n | s |",
        "|---|--:|--:|",
        "| a | 1,234 | 0.12 |",
        "| b |  | 250 |",
    ]


def test_commands_are_measured_in_turns() -> None:
    measure = load("measure")
    commands = [measure.Command(name, (sys.executable, "-c", "pass")) for name in ("one", "two")]
    rows = measure.compare(commands, 2)
    assert [(row.name, row.runs) for row in rows] == [("one", 2), ("two", 2)]
    assert all(row.cpu > 0 and row.wall > 0 and row.peak > 0 for row in rows)
    assert measure.table("t", rows, "one").rows[0][2] == 1.0
    with pytest.raises(SystemExit, match="bad: exit 3"):
        measure.once(measure.Command("bad", (sys.executable, "-c", "raise SystemExit(3)")))


def test_instructions_do_not_move() -> None:
    measure = load("measure")
    if measure.counter() is None:
        pytest.skip("neither perf nor valgrind is here")
    command = measure.Command("true", ("true",))
    first, second = measure.instructions(command), measure.instructions(command)
    assert first > 10_000
    assert abs(first - second) < 0.02 * first


def test_lint_sections() -> None:
    speed = load("lint_speed")
    table, rows = speed.one_file(40, 1, slow=False)
    assert {"kernel-lint, cold", "kernel-lint, warm cache", speed.PYTHON, speed.CLICK} <= {
        r.name for r in rows
    }
    assert table.title.startswith("One file of ")
    table, rows = speed.many_files(2, 40, 1)
    assert "kernel-lint, warm, one file changed" in {row.name for row in rows}
    assert all(len(row) == len(table.columns) for row in table.rows)


def test_workspaces_package_whole(tmp_path: Path) -> None:
    from kernel_lint.packager import package

    entry = load("packager_speed").write_workspace(tmp_path / "work", 5)
    text = package(entry).text
    assert all(f"def used_{n}(" in text for n in range(5))
    assert "unused_" not in text


def test_growth() -> None:
    growth = load("growth")
    grown = growth.file_lines((30, 60))
    assert grown.sizes == (30, 60)
    table = grown.table()
    assert [row[0] for row in table.rows] == ["30", "60"]
    assert "power" in table.note
    assert growth.known_files((1, 2)).unit == "files"


def test_run_writes_results_plots_and_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, measure = load("run"), load("measure")
    rows = [measure.Measured("kernel-lint, cold", 0.2, 0.3, 1), measure.Measured("ruff", 0.1, 0.2, 1)]

    def small(options: Any) -> Any:
        section = run.Section("lint")
        section.add((measure.table("One file", rows, "ruff"), rows))
        section.grow(
            load("growth").Growth(
                "Files", "files", (1, 10), (measure.Sample(1, 1, 1),) * 2, measure.Sample(0, 0, 0)
            )
        )
        return section

    monkeypatch.setattr(run, "SECTIONS", {"lint": small})
    assert run.main(["--quick", "--output", str(tmp_path / "out")]) == 0
    data = json.loads((tmp_path / "out" / "results.json").read_text())
    assert data["machine"]["python"]
    assert [table["title"] for table in data["tables"]] == ["One file", "Files"]
    page = "# Speed\n<!-- begin lint -->\nstale\n<!-- end lint -->\nrest\n"
    new = run.updated(page, [small(None)], data["machine"])
    assert "stale" not in new
    assert "| kernel-lint, cold | 200 | 2.00 | 300 |" in new
    assert new.endswith("<!-- end lint -->\nrest\n")
    with pytest.raises(SystemExit, match="no place for lint"):
        run.updated("nothing", [small(None)], data["machine"])


def test_the_page_has_a_place_for_every_part() -> None:
    run = load("run")
    page = run.PAGE.read_text(encoding="utf-8")
    for name in run.SECTIONS:
        assert f"<!-- begin {name} -->\n" in page
        assert f"<!-- end {name} -->" in page


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git = ["git", "-C", str(folder), "-c", "user.name=n", "-c", "user.email=e@example.com"]
    subprocess.run([*git, "init", "-q"], check=True)
    for number in (1, 2):
        (folder / "file").write_text(str(number))
        subprocess.run([*git, "add", "file"], check=True)
        subprocess.run([*git, "commit", "-q", "-m", str(number)], check=True)
    return folder


def test_worktrees_come_and_go(repository: Path, tmp_path: Path) -> None:
    regression = load("regression")
    with regression.worktree("HEAD~1", tmp_path / "base", repository) as tree:
        assert (tree / "file").read_text() == "1"
    assert not (tmp_path / "base").exists()
    words = ["git", "-C", str(repository), "worktree", "list"]
    assert len(subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()) == 1
    with (
        pytest.raises(SystemExit, match="cannot be checked out"),
        regression.worktree("nope", tmp_path / "x", repository),
    ):
        pass


@pytest.mark.parametrize(("head", "code"), [(109, 0), (111, 1), (50, 0)])
def test_more_than_a_tenth_more_fails(
    head: int, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    regression = load("regression")
    monkeypatch.setattr(regression, "worktree", lambda commit, folder: nullcontext(folder))
    monkeypatch.setattr(regression, "count", lambda tree, name, folder: 100 if tree.name == "base" else head)
    assert regression.main(["A", "B", "--only", "lint-cold", "--json", str(tmp_path / "r.json")]) == code
    assert json.loads((tmp_path / "r.json").read_text())["over"] == ["lint-cold"] * code


def test_every_scenario_runs_the_checkout_it_is_given(tmp_path: Path) -> None:
    regression, measure = load("regression"), load("measure")
    for scenario in regression.SCENARIOS.values():
        command = scenario(BENCHMARKS.parent, tmp_path)
        assert dict(command.env)["PYTHONPATH"] == str(BENCHMARKS.parent)
        measure.once(command)


def test_imports_are_those_of_a_run(tmp_path: Path) -> None:
    startup, commands = load("lint_startup"), load("lint_commands")
    (tmp_path / "ops.py").write_text("x = 1\n")
    cold, _ = commands.ours(tmp_path / "ops.py", tmp_path)
    loaded = startup.imports(cold.argv)
    assert "kernel_lint.engine" in loaded
    assert "torch" not in loaded
