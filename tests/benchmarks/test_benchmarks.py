"""The benchmarks on tiny inputs: what they write, never how fast anything is."""

from __future__ import annotations

import importlib
import json
import os
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
    assert fit(sizes, [None, 0.1, 10.0, 1000.0]) == pytest.approx(2.0)
    assert fit(sizes, [None, None, None, 5.0]) is None
    assert fit([], []) is None


def test_what_is_lost_in_the_noise_is_left_open() -> None:
    growth, sample = load("growth"), load("measure").Sample
    samples = (sample(0.0501, 0.1, 20.1), sample(0.06, 0.1, 20.2), sample(0.15, 0.2, 20.3))
    grown = growth.Growth("Files", "files", (1, 10, 100), samples, sample(0.05, 0.1, 20.0))
    assert grown.beyond() == [None, pytest.approx(0.01), pytest.approx(0.1)]
    assert grown.memory_beyond() == [None, None, None]
    table = grown.table()
    assert table.rows[0][2] is None
    assert table.rows[2][2] == pytest.approx(1000.0)
    assert table.note == "CPU time grows with the power 1.00 of the files, memory hardly grows"


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


def test_small_numbers_keep_two_digits() -> None:
    table = load("tables").Table("", ("", "s"), (("a", 0.0046), ("b", 0.0), ("c", 0.5)))
    assert [line.split()[-1] for line in table.text().splitlines()[2:]] == ["0.0046", "0.00", "0.50"]


def test_commands_are_measured_in_turns() -> None:
    measure = load("measure")
    commands = [measure.Command(name, (sys.executable, "-c", "pass")) for name in ("one", "two")]
    rows = measure.compare(commands, 2)
    assert [(row.name, row.runs) for row in rows] == [("one", 2), ("two", 2)]
    assert all(row.cpu > 0 and row.wall > 0 and row.peak > 0 for row in rows)
    assert measure.table("t", rows, "one").rows[0][2] == 1.0
    with pytest.raises(SystemExit, match="bad: exit 3"):
        measure.once(measure.Command("bad", (sys.executable, "-c", "raise SystemExit(3)")))


def test_memory_is_the_program_s_own() -> None:
    """The kernel hands the size of whoever starts a program down to it."""
    measure = load("measure")
    ballast = bytearray(300 << 20)
    for page in range(0, len(ballast), 4096):
        ballast[page] = 1
    assert measure.once(measure.Command("small", ("true",))).peak < 60
    code = "x = bytearray(100 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1"
    assert 100 < measure.once(measure.Command("large", (sys.executable, "-c", code))).peak < 200


def test_a_program_that_is_not_there_is_an_error_that_names_it() -> None:
    measure = load("measure")
    with pytest.raises(SystemExit, match="gone cannot be run"):
        measure.once(measure.Command("gone", ("/no/such/program",)))
    assert measure.once(measure.Command("the next one", ("true",))).wall > 0


def test_a_program_that_takes_too_long_is_ended() -> None:
    measure = load("measure")
    with pytest.raises(SystemExit, match=r"slow: no end within 0\.2 s"):
        measure.once(measure.Command("slow", ("sleep", "60"), timeout=0.2))
    assert measure.once(measure.Command("the next one", ("true",), timeout=60)).wall > 0


def test_a_peer_that_does_not_work_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    measure = load("measure")
    good = measure.Command("good", ("true",))
    bad = measure.Command("bad", (sys.executable, "-c", "raise SystemExit('broken')"), ok=(0,), optional=True)
    assert [row.name for row in measure.compare([good, bad], 1)] == ["good"]
    assert "left out: bad: exit 1: broken" in capsys.readouterr().err


def test_slow_commands_run_in_every_third_round(monkeypatch: pytest.MonkeyPatch) -> None:
    measure = load("measure")
    ran: list[str] = []

    def once(command: Any) -> Any:
        ran.append(command.name)
        return measure.Sample(1.0, 5.0 if command.name == "slow" else 0.1, 1.0)

    monkeypatch.setattr(measure, "once", once)
    commands = [measure.Command(name, ("true",)) for name in ("fast", "slow")]
    rows = measure.compare(commands, 9)
    assert [(row.name, row.runs) for row in rows] == [("fast", 9), ("slow", 3)]
    assert ran[:6] == ["fast", "slow", "fast", "slow", "fast", "fast"]
    assert measure.runs(rows) == "medians of 9 interleaved runs (3 of slow)"
    assert [row.runs for row in measure.compare(commands, 3)] == [3, 3]


def _counter() -> Any:
    counting = load("counting")
    if counting.counter() is None:
        pytest.skip("neither perf nor valgrind is here")
    return load("measure").instructions


def test_instructions_do_not_move() -> None:
    count, command = _counter(), load("measure").Command("true", ("true",))
    first, second = count(command), count(command)
    assert first > 10_000
    assert abs(first - second) < 0.02 * first


_WORK = "for i in range(300_000): pass\n"
_FORK = "import os\n{before}if os.fork() == 0:\n    {child}\n    os._exit(0)\nos.wait()\n"


def test_instructions_of_children_count_once() -> None:
    count, command = _counter(), load("measure").Command

    def of(code: str) -> int:
        return int(count(command("python", (sys.executable, "-S", "-c", code))))

    nothing, work = of("import os"), of("import os\n" + _WORK)
    cost = work - nothing
    in_child = of(_FORK.format(before="", child=f"exec({_WORK!r})"))
    before_fork = of(_FORK.format(before=_WORK, child="pass"))
    assert 0.7 * cost < in_child - nothing < 1.6 * cost
    assert 0.7 * cost < before_fork - nothing < 1.6 * cost
    spawned = f"import os\nos.spawnl(os.P_WAIT, {sys.executable!r}, 'python', '-S', '-c', {_WORK!r})"
    assert of(spawned) > nothing + 0.9 * work


_PERF = """#!/bin/sh
# As perf stat -x, writes it (perf-stat(1), CSV FORMAT).
while [ $# -gt 0 ]; do
  case "$1" in
    -o) out="$2"; shift ;;
    --|true) break ;;
  esac
  shift
done
[ "$1" = -- ] && shift
"$@"; code=$?
line="{value},,instructions:u,1000,100.00,,"
if [ -n "$out" ]; then printf '# started on Tue\\n\\n%s\\n' "$line" > "$out"; else echo "$line" >&2; fi
exit $code
"""


@pytest.mark.parametrize(("value", "found"), [("12345", "perf"), ("<not supported>", "valgrind")])
def test_perf_is_taken_where_it_counts(
    value: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counting = load("counting")
    for name, text in (("perf", _PERF.replace("{value}", value)), ("valgrind", "#!/bin/sh\nexit 1\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert counting.counter.__wrapped__() == found
    monkeypatch.setattr(counting, "counter", lambda: "perf")
    if found == "perf":
        assert counting.count("x", ("true",), (0,), dict(os.environ), None) == 12345
        with pytest.raises(SystemExit, match="x: exit 1 while counted"):
            counting.count("x", ("false",), (0,), dict(os.environ), None)


def test_without_a_counter_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    counting = load("counting")
    monkeypatch.setattr(counting, "counter", lambda: None)
    with pytest.raises(SystemExit, match="install it"):
        counting.count("x", ("true",), (0,), {}, None)
    with pytest.raises(SystemExit) as caught:
        load("run").main(["--instructions"])
    assert caught.value.code == 2


def test_lint_sections() -> None:
    speed, others = load("lint_speed"), load("lint_commands").Others()
    table, rows = speed.one_file(40, 1, others, slow=False)
    assert {"kernel-lint, cold", "kernel-lint, warm cache", speed.PYTHON, speed.CLICK} <= {
        r.name for r in rows
    }
    assert table.title.startswith("One file of ")
    table, rows = speed.many_files(2, 40, 1, others)
    assert "kernel-lint, warm, one file changed" in {row.name for row in rows}
    assert all(len(row) == len(table.columns) for row in table.rows)


def test_files_of_a_checkout_are_linted_without_its_settings(tmp_path: Path) -> None:
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops" / "scale.py").write_text("import torch\n\nprint(torch)\n")
    (tmp_path / "reference.py").write_text("import torch\n")
    (tmp_path / "setup.cfg").write_text("[flake8]\nnonsense = = =\nselect = [\n")
    speed, others = load("lint_speed"), load("lint_commands").Others()
    table, rows = speed.real_files(tmp_path, 1, others)
    assert table.title.startswith(f"{tmp_path.name} at ")
    assert table.title.endswith(": 2 files, 4 lines")
    assert {"kernel-lint, cold", "kernel-lint, warm cache"} <= {row.name for row in rows}
    with pytest.raises(SystemExit) as caught:
        load("run").main(["--checkout", str(tmp_path / "nothing")])
    assert caught.value.code == 2


_BAD = """\
import torch
from . import helper
from ..above import other
model = torch.compile(torch.nn.ReLU(), mode="max")
scripted = torch.jit.script(model)
if __name__ == "__main__":
    print(model)
"""


def test_every_peer_reads_the_file_that_it_is_given(tmp_path: Path) -> None:
    """A peer that skips its input in silence would be fast."""
    commands, once = load("lint_commands"), load("measure").once
    checker = tmp_path / "src" / "kernelbench" / "kernel_static_checker.py"
    checker.parent.mkdir(parents=True)
    checker.write_text("def validate_kernel_static(text): assert 'torch.compile' not in text\n")
    others = commands.Others(kernelbench=tmp_path)
    assert others.problem() is None
    path = tmp_path / "generated_kernel.py"
    path.write_text(_BAD)
    clean = tmp_path / "clean.py"
    clean.write_text('"""Nothing."""\n')
    found = {command.name: command for command in commands.peers(path, others)}
    fine = {command.name: command for command in commands.peers(clean, others)}
    assert "KernelBench's checker" in found
    for name, command in found.items():
        findings = tuple(set(range(1, 32)) - {2}) if name == "pylint" else (1,)
        once(load("measure").Command(name, command.argv, findings, command.env, command.cwd))
        once(load("measure").Command(name, fine[name].argv, (0,), command.env, command.cwd))


def test_semgrep_finds_what_the_structural_rules_find(tmp_path: Path) -> None:
    commands = load("lint_commands")
    semgrep, astgrep = commands.Others().semgrep_program(), load("machine").beside("ast-grep")
    if semgrep is None or astgrep is None:
        pytest.skip("semgrep or ast-grep is not here")
    path = tmp_path / "generated_kernel.py"
    path.write_text(_BAD)
    rules = str(commands.PEERS_FOLDER / "semgrep.yml")
    words = [semgrep, "scan", "--metrics=off", "--disable-version-check", "--quiet", "--json"]
    done = subprocess.run([*words, "--config", rules, str(path)], capture_output=True, text=True, check=True)
    theirs = {
        (item["check_id"].rpartition(".")[2], item["start"]["line"])
        for item in json.loads(done.stdout)["results"]
    }
    words = [astgrep, "scan", "--config", str(commands.ROOT / "sgconfig.yml"), "--json", str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    ours = {(item["ruleId"], item["range"]["start"]["line"] + 1) for item in json.loads(done.stdout)}
    assert theirs == ours
    assert len(ours) == 5


def test_who_is_asked_for_and_not_there_is_named(tmp_path: Path) -> None:
    others = load("lint_commands").Others
    assert "does not answer" in others(semgrep=str(tmp_path / "semgrep")).problem()
    assert "kernel_static_checker.py" in others(kernelbench=tmp_path).problem()
    assert any(line.startswith("KernelBench: git clone") for line in others().missing())


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
    assert table.note.startswith("CPU time ")
    assert growth.known_files((1, 2)).unit == "files"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The parts, replaced by small ones: one that works, one that fails, one that is over its limit."""
    parts, measure = load("parts"), load("measure")
    rows = [measure.Measured("kernel-lint, cold", 0.2, 0.3, 1), measure.Measured("ruff", 0.1, 0.2, 1)]

    def works(section: Any, options: Any) -> None:
        section.add((measure.table("One file", rows, "ruff"), rows))

    def fails(section: Any, options: Any) -> None:
        works(section, options)
        raise RuntimeError("it broke")

    def grows(section: Any, options: Any) -> None:
        sample = measure.Sample
        samples = (sample(1, 1, 1), sample(2, 2, 2))
        section.grow(load("growth").Growth("Files", "files", (1, 10), samples, sample(0, 0, 0)))
        section.problems.append("over the limit")

    made = {"lint": works, "package": fails, "growth": grows}
    monkeypatch.setattr(load("run"), "PARTS", parts.PARTS)
    for name in list(parts.PARTS):
        monkeypatch.delitem(parts.PARTS, name)
    for name, part in made.items():
        monkeypatch.setitem(parts.PARTS, name, parts.Part(part, "a part"))


def test_run_writes_results_and_plots(small: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = load("run")
    assert run.main(["--only", "lint", "--output", str(tmp_path / "out")]) == 0
    data = json.loads((tmp_path / "out" / "results.json").read_text())
    assert data["lint"]["machine"]["python"]
    assert [table["title"] for table in data["lint"]["tables"]] == ["One file"]
    assert (tmp_path / "out" / "lint.png").read_bytes().startswith(b"\x89PNG")
    assert "kernel-lint, cold" in capsys.readouterr().out


def test_a_part_that_fails_does_not_take_the_others_along(
    small: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = load("run")
    assert run.main(["--only", "package,growth", "--output", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "FAILED: package: RuntimeError: it broke" in said
    assert "FAILED: growth: over the limit" in said
    assert set(json.loads((tmp_path / "results.json").read_text())) == {"package", "growth"}
    assert (tmp_path / "growth.png").exists()


def test_a_part_during_which_the_sources_changed_stays_out_of_the_pages(
    small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run, states = load("run"), iter(range(9))
    monkeypatch.setattr(run, "sources", lambda: next(states))
    monkeypatch.setattr(run.results, "update_pages", lambda *_: pytest.fail("written into the pages"))
    assert run.main(["--only", "lint", "--update-docs", "--output", str(tmp_path)]) == 1
    assert "FAILED: lint: kernel-lint's own files changed meanwhile" in capsys.readouterr().err
    assert "lint" in json.loads((tmp_path / "results.json").read_text())


def test_the_sources_are_those_of_the_linter() -> None:
    names = {Path(path).name for path, _, _ in load("machine").sources()}
    assert {"engine.py", "torch_compute.py", "compiled.json"} <= names


@pytest.mark.parametrize(
    "words",
    [["--only", "nope"], ["--quick", "--update-docs"], ["--repetitions", "0"], ["--semgrep", "/no/such"]],
)
def test_what_cannot_be_run_is_a_usage_error(words: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        load("run").main(words)
    assert caught.value.code == 2


def test_only_whole_parts_go_into_the_pages(
    small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, results = load("run"), load("results")
    for page in ("docs/speed.md", "docs/fleet.md", "README.md"):
        path = tmp_path / page
        path.parent.mkdir(exist_ok=True)
        blocks = [block.name for block in results.BLOCKS if block.page == page]
        path.write_text("".join(f"<!-- begin {n} -->\nas it was\n<!-- end {n} -->\nrest\n" for n in blocks))
    (tmp_path / "docs" / "images").mkdir()
    monkeypatch.setattr(results, "ROOT", tmp_path)
    monkeypatch.setattr(results, "RESULTS", tmp_path / "results.json")
    monkeypatch.setattr(results.update_pages, "__defaults__", (tmp_path,))
    monkeypatch.setattr(results.read, "__defaults__", (tmp_path / "results.json",))
    assert run.main(["--update-docs", "--output", str(tmp_path / "out")]) == 1
    page = (tmp_path / "docs" / "speed.md").read_text()
    assert "| kernel-lint, cold | 200 | 2.00 | 300 |" in results.shown(page, "lint")
    assert results.shown(page, "package") == "as it was"
    assert results.shown(page, "growth") != "as it was"
    assert results.shown((tmp_path / "README.md").read_text(), "readme-speed") == "as it was"
    assert set(results.read(tmp_path / "results.json")) == {"lint", "growth"}
    assert (tmp_path / "docs" / "images" / "speed-lint.png").exists()


def test_pages_show_the_committed_results() -> None:
    """Figures come from benchmarks/results.json alone: python -m benchmarks --update-docs writes both."""
    results = load("results")
    found = results.read()
    for block in results.BLOCKS:
        page = (results.ROOT / block.page).read_text(encoding="utf-8")
        assert results.shown(page, block.name) == block.render(found).strip(), f"{block.page}: {block.name}"


def test_a_page_without_a_place_is_an_error() -> None:
    results = load("results")
    page = "# Speed\n<!-- begin lint -->\nstale\n<!-- end lint -->\nrest\n"
    new = results.updated(page, "lint", r"fresh \1")
    assert "stale" not in new
    assert results.shown(new, "lint") == r"fresh \1"
    assert new.endswith("<!-- end lint -->\nrest\n")
    assert results.updated(new, "lint", r"fresh \1") == new
    with pytest.raises(ValueError, match="no place for lint"):
        results.updated("nothing", "lint", "x")


def test_results_come_back_as_they_were(tmp_path: Path) -> None:
    results, table = load("results"), load("tables").Table("T", ("", "n"), (("a", 1), ("b", 0.1)), "note")
    found = {"lint": results.Result((table,), {"python": "3"}, {"click": "8"})}
    results.write(tmp_path / "r.json", found)
    assert results.read(tmp_path / "r.json") == found
    assert results.read(tmp_path / "none.json") == {}


def test_a_script_hands_over_its_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = load("parts")
    (tmp_path / "benchmarks").mkdir()
    script = tmp_path / "benchmarks" / "one.py"
    text = (
        "import sys, json\n"
        "data = [dict(title='T', columns=['', 'n'], rows=[['a', 1]], note='')]\n"
        "json.dump(data, open(sys.argv[-1], 'w')) if 'some' in sys.argv else None\n"
        "sys.exit('too slow' if 'slow' in sys.argv else 0)\n"
    )
    script.write_text(text)
    monkeypatch.setattr(parts, "ROOT", tmp_path)
    section = parts.Section("verify")
    section.script("one.py", "some")
    section.script("one.py", "some", "slow")
    assert [table.rows for table in section.tables] == [(("a", 1),)] * 2
    assert section.problems == ["benchmarks/one.py: exit 1: too slow"]
    with pytest.raises(SystemExit, match="too slow"):
        section.script("one.py", "slow")


def test_what_an_extra_brings_is_left_out_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = load("parts")
    monkeypatch.setattr(parts.importlib.util, "find_spec", lambda name: None)
    section = parts.Section("emulator")
    parts.measure("emulator", section, parts.Options())
    assert section.left_out == ["the emulator: needs flydsl, torch (pip install 'kernel-lint[verify]')"]
    assert not section.whole


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


def test_commits_are_known_before_anything_is_measured(repository: Path) -> None:
    regression = load("regression")
    assert len(regression.commit_of("HEAD~1", repository)) == 40
    for name in ("nope", "HEAD:file", "--all", ""):
        with pytest.raises(SystemExit, match="is no commit"):
            regression.commit_of(name, repository)
    assert not regression.is_dirty(repository)
    (repository / "file").write_text("changed")
    assert regression.is_dirty(repository)


def test_what_cannot_be_measured_is_no_regression(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    regression = load("regression")
    monkeypatch.setattr(regression, "counter", lambda: "valgrind")
    assert regression.main(["HEAD", "nope"]) == 2
    assert "nope is no commit" in capsys.readouterr().err
    with pytest.raises(SystemExit) as caught:
        regression.main(["HEAD", "--only", "nope"])
    assert caught.value.code == 2


@pytest.mark.parametrize(("head", "code"), [(109, 0), (111, 1), (50, 0)])
def test_more_than_a_tenth_more_fails(
    head: int, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    regression = load("regression")
    monkeypatch.setattr(regression, "counter", lambda: "valgrind")
    monkeypatch.setattr(regression, "commit_of", str)
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
