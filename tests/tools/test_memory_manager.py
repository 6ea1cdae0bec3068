"""The memory files: schema, edits, locking, and what a killed writer leaves."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from kernel_lint.cli import main
from kernel_lint.errors import KernelLintError
from kernel_lint.tools import memory_schema
from kernel_lint.tools.memory_store import Edits, MemoryStore

ROOT = Path(__file__).resolve().parents[2]
UPDATES = 200


def run(workspace: Path, *arguments: str) -> int:
    return main(["memory", *arguments, "--workspace", str(workspace)])


def load(workspace: Path, version: str = "v0") -> dict[str, object]:
    return MemoryStore(workspace).read(version)


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(memory_schema.schema())


def test_the_schema_has_the_fields_of_the_contract() -> None:
    wanted = "performance optimization profile_evidence correctness isa_metric_progress search_log"
    wanted += " pitfalls_and_fixes references quality_gate git_commit_hash"
    assert set(wanted.split()) <= set(memory_schema.schema()["required"])


def test_a_new_file_invents_nothing(tmp_path: Path) -> None:
    run(tmp_path, "create", "--version", "v0")
    memory = load(tmp_path)
    assert memory["git_commit_hash"] is None
    performance = memory["performance"]
    assert isinstance(performance, dict)
    assert all(value in (None, []) for value in performance.values())


@pytest.mark.parametrize(
    ("assignment", "path", "value"),
    [
        ("performance.latency_us=12.5", ("performance", "latency_us"), 12.5),
        ("performance.latency_us=null", ("performance", "latency_us"), None),
        ("optimization.summary=a = b", ("optimization", "summary"), "a = b"),
        ("optimization.summary=123", ("optimization", "summary"), "123"),
        ('optimization.summary="quoted"', ("optimization", "summary"), "quoted"),
        ("optimization.configuration.tile.bm=128", ("optimization", "configuration", "tile", "bm"), 128),
        ('optimization.changes=["x", "y"]', ("optimization", "changes"), ["x", "y"]),
        ("isa_metric_progress.counters.mfma=64", ("isa_metric_progress", "counters", "mfma"), 64),
        ("correctness.status=passed", ("correctness", "status"), "passed"),
        ("quality_gate.passed=true", ("quality_gate", "passed"), True),
        ("git_commit_hash=1234567", ("git_commit_hash",), "1234567"),
    ],
)
def test_set(tmp_path: Path, assignment: str, path: tuple[str, ...], value: object) -> None:
    assert run(tmp_path, "create", "--version", "v0", "--set", assignment) == 0
    found: object = load(tmp_path)
    for key in path:
        assert isinstance(found, dict)
        found = found[key]
    assert found == value


@pytest.mark.parametrize(
    ("assignment", "said"),
    [
        ("performance.latency=1", "did you mean latency_us"),
        ("latency_us=1", "did you mean performance.latency_us"),
        ("perfomance.latency_us=1", "did you mean performance"),
        ("nothing_like_it=1", "the fields there are"),
        ("performance.latency_us", "has no '='"),
        ("performance.latency_us=fast", "is not of type"),
        ("performance.latency_us=NaN", "is not of type"),
        ("performance.latency_us=-1", "less than the minimum"),
        ("correctness.status=maybe", "is not one of"),
        ("git_commit_hash=HEAD", "does not match"),
        ("masked=true", "use create, mask or unmask"),
        ("references.0.title=x", "no such item yet"),
        ("optimization.configuration.tile.m=1", "no such item yet"),
        ("references.first.title=x", "is not an index"),
        ("performance.latency_us.a=1", "there is no field"),
        (".=1", "there is no field"),
    ],
)
def test_set_refused(tmp_path: Path, assignment: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(tmp_path, "create", "--version", "v0", "--set", "optimization.configuration.tile=128")
    before = MemoryStore(tmp_path).path("v0").read_bytes()
    assert run(tmp_path, "update", "--version", "v0", "--set", assignment) == 2
    assert said in capsys.readouterr().err
    assert MemoryStore(tmp_path).path("v0").read_bytes() == before


def test_append(tmp_path: Path) -> None:
    run(tmp_path, "create", "--version", "v0", "--append", 'references={"title": "ISA guide"}')
    run(
        tmp_path,
        "update",
        "--version",
        "v0",
        "--append",
        'references={"title": "b"}',
    )
    run(tmp_path, "update", "--version", "v0", "--set", "references.1.url=u")
    run(tmp_path, "update", "--version", "v0", "--append", "optimization.changes=wider loads")
    memory = load(tmp_path)
    assert memory["references"] == [{"title": "ISA guide"}, {"title": "b", "url": "u"}]
    assert memory["optimization"]["changes"] == ["wider loads"]  # type: ignore[index]


@pytest.mark.parametrize("text", ['references={"name": "x"}', "performance.latency_us=1", "references=x"])
def test_append_refused(tmp_path: Path, text: str) -> None:
    run(tmp_path, "create", "--version", "v0")
    assert run(tmp_path, "update", "--version", "v0", "--append", text) == 2


@pytest.mark.parametrize("version", ["0", "v", "v-1", "v01", "../v0", "V0", "v1.5", ""])
def test_version_names(tmp_path: Path, version: str) -> None:
    assert run(tmp_path, "create", "--version", version) == 2
    assert not list(tmp_path.rglob("*.json"))


def test_a_misspelt_workspace_is_not_made(tmp_path: Path) -> None:
    assert run(tmp_path / "nowhere", "create", "--version", "v0") == 2
    assert not (tmp_path / "nowhere").exists()


def test_create_does_not_overwrite(tmp_path: Path) -> None:
    run(tmp_path, "create", "--version", "v0", "--set", "platform=MI300X")
    assert run(tmp_path, "create", "--version", "v0") == 2
    assert load(tmp_path)["platform"] == "MI300X"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": "v0"', "\x00\x01", "nonsense"])
@pytest.mark.parametrize("action", ["update", "mask", "unmask", "read", "create"])
def test_a_damaged_file_stays(tmp_path: Path, text: str, action: str) -> None:
    path = MemoryStore(tmp_path).path("v0")
    path.parent.mkdir()
    path.write_text(text)
    extra = ["--set", "platform=x"] if action == "update" else []
    assert run(tmp_path, action, "--version", "v0", *extra) == 2
    assert path.read_text() == text


def test_a_damaged_file_does_not_hide_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tmp_path, "create", "--version", "v0")
    MemoryStore(tmp_path).path("v1").write_text("{")
    capsys.readouterr()
    assert run(tmp_path, "latest") == 1
    out = capsys.readouterr()
    assert out.out == "v0\n"
    assert "damaged" in out.err


def test_masked_versions_are_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for version in ("v0", "v1", "v10", "v2"):
        run(tmp_path, "create", "--version", version)
    run(tmp_path, "mask", "--version", "v10", "--reason", "wrong clock")
    capsys.readouterr()
    assert run(tmp_path, "latest") == 0
    assert capsys.readouterr().out == "v2\n"
    assert run(tmp_path, "read", "--version", "v10", "--output-format", "json") == 0
    out = capsys.readouterr()
    assert (out.out, "wrong clock" in out.err) == ("null\n", True)
    run(tmp_path, "read", "--output-format", "json")
    assert [memory["version"] for memory in json.loads(capsys.readouterr().out)] == ["v0", "v1", "v2"]
    run(tmp_path, "list")
    assert capsys.readouterr().out.split("\n")[:4] == ["v0", "v1", "v2", "v10 masked"]
    run(tmp_path, "unmask", "--version", "v10")
    assert load(tmp_path, "v10")["mask_reason"] is None


def test_comparison_with_the_version_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for version, latency in (("v0", 20), ("v1", 1), ("v2", 15)):
        run(tmp_path, "create", "--version", version, "--set", f"performance.latency_us={latency}")
    run(tmp_path, "mask", "--version", "v1")
    capsys.readouterr()
    run(tmp_path, "read", "--version", "v2", "--output-format", "json")
    comparison = json.loads(capsys.readouterr().out)["comparison"]
    assert comparison["previous"] == "v0"
    assert comparison["changes"] == [
        {"field": "performance.latency_us", "before": 20, "after": 15, "percent": -25.0}
    ]
    run(tmp_path, "summary")
    assert "-25" in capsys.readouterr().out


def test_the_script(tmp_path: Path) -> None:
    script = [sys.executable, str(ROOT / "tools/memory_manager.py")]
    place = ["--workspace", str(tmp_path), "--version", "v0"]
    for arguments in (["create", *place, "--set", "performance.latency_us=3"], ["read", *place]):
        done = subprocess.run([*script, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert "performance.latency_us: 3" in done.stdout


@given(st.dictionaries(st.sampled_from(["tile", "threads", "grid.x", "grid.y"]), st.integers(), max_size=4))
def test_configuration_round_trips(values: dict[str, int]) -> None:
    edits = Edits.parse(tuple(f"optimization.configuration.{key}={value}" for key, value in values.items()))
    memory = memory_schema.blank()
    edits.apply(memory)
    for key, value in values.items():
        found = memory["optimization"]["configuration"]
        for part in key.split("."):
            found = found[part]
        assert found == value


@given(st.text(max_size=40))
def test_paths_never_raise_anything_else(text: str) -> None:
    with contextlib.suppress(KernelLintError):
        Edits.parse((text,), (text,)).apply(memory_schema.blank())


def _write_many(workspace: Path, name: str) -> None:
    store = MemoryStore(workspace)
    for number in range(UPDATES):
        field = f"optimization.configuration.{name}{number}={number}"
        store.update("v0", Edits.parse((field,), (f"optimization.changes={name}{number}",)))


def test_two_writers_lose_nothing(tmp_path: Path) -> None:
    MemoryStore(tmp_path).create("v0")
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_many, args=(tmp_path, name)) for name in "ab"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
        assert writer.exitcode == 0
    optimization = load(tmp_path)["optimization"]
    assert isinstance(optimization, dict)
    expected = {f"{name}{number}" for name in "ab" for number in range(UPDATES)}
    assert set(optimization["configuration"]) == expected
    assert sorted(optimization["changes"]) == sorted(expected)


def _write_for_ever(workspace: Path) -> None:
    store = MemoryStore(workspace)
    number = 0
    while True:
        number += 1
        store.update("v0", Edits.parse((f"optimization.summary={'x' * (number % 50_000)}",)))


@pytest.mark.parametrize("seed", range(6))
def test_kill_leaves_a_whole_file(tmp_path: Path, seed: int) -> None:
    store = MemoryStore(tmp_path)
    store.create("v0")
    before = store.path("v0").stat().st_mtime_ns
    writer = multiprocessing.get_context("spawn").Process(target=_write_for_ever, args=(tmp_path,))
    writer.start()
    while store.path("v0").stat().st_mtime_ns == before:
        time.sleep(0.001)
    time.sleep(0.003 * seed)
    assert writer.pid is not None
    os.kill(writer.pid, signal.SIGKILL)
    writer.join()
    memory = store.read("v0")
    memory_schema.validate(memory, "v0")
    store.update("v0", Edits.parse(("platform=MI300X",)))
    assert store.read("v0")["platform"] == "MI300X"
