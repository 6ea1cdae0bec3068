"""The gate: every way in which a file may not be handed in, and the one in which it may."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner
from integrations.workspaces import make_workspace, package_into, remember

from kernel_lint import gate, gate_record
from kernel_lint.cli import cli
from kernel_lint.gate import GateOptions
from kernel_lint.verify import Verdict

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"


@pytest.fixture(autouse=True)
def emulator_is_best(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "best_backend", lambda: "emulate")


@pytest.fixture
def candidate(tmp_path: Path) -> Path:
    """A packaged and verified candidate whose limits are recorded."""
    path = package_into(make_workspace(tmp_path))
    remember(path)
    gate.write_limitations(gate.judge(GateOptions(path)))
    return path


def _missing(candidate: Path, **options: Any) -> dict[str, str]:
    return {c.name: c.message for c in gate.judge(GateOptions(candidate, **options)).missing}


def _run(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(cli, [str(word) for word in words], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.return_value or 0, result.stdout


def test_a_finished_file_passes(candidate: Path) -> None:
    verdict = gate.judge(GateOptions(candidate))
    assert verdict.passed, verdict.missing
    assert [c.name for c in verdict.checks] == [
        "file", "packaged", "lint", "verified", "limits recorded", "limits not in the file",
    ]  # fmt: skip
    assert set(verdict.limits) == {"performance-unmeasured", "emulated"}
    assert _run("gate", candidate.parent)[0] == 0


def test_no_file(candidate: Path) -> None:
    candidate.unlink()
    assert list(_missing(candidate)) == ["file"]
    code, out = _run("gate", candidate.parent)
    assert code == 1
    assert f"kernel-lint finalize {candidate.parent / 'kernel.py'} --backend emulate" in out


def test_a_changed_workspace_makes_it_stale(candidate: Path) -> None:
    entry = candidate.with_name("kernel.py")
    entry.write_text(entry.read_text().replace("rows.shape[1], ", "rows.shape[-1], "))
    assert "stale" in _missing(candidate)["packaged"]


def test_what_the_model_does_not_reach_does_not(candidate: Path) -> None:
    with (candidate.parent / "ops" / "layout.py").open("a") as stream:
        stream.write("\n\ndef unused():\n    return 1\n")
    assert _missing(candidate) == {}


def test_an_edit_by_hand_makes_it_stale_and_unverified(candidate: Path) -> None:
    candidate.write_text(candidate.read_text() + "\nprint(1)\n")
    missing = _missing(candidate)
    assert list(missing) == ["packaged", "lint", "verified"]
    assert "KL102" in missing["lint"]
    assert "as it is now" in missing["verified"]


def test_a_changed_task_makes_it_unverified(candidate: Path) -> None:
    shapes = candidate.with_name("shapes.json")
    data = json.loads(shapes.read_text())
    data["one_more"] = next(iter(data.values()))
    shapes.write_text(json.dumps(data))
    assert list(_missing(candidate)) == ["verified"]


def test_a_workspace_that_cannot_be_packaged(candidate: Path) -> None:
    candidate.with_name("kernel.py").write_text("import ops.no_such\n\nclass Model(ops.no_such.M): pass\n")
    assert "cannot be packaged" in _missing(candidate)["packaged"]


def test_an_entry_that_is_gone(candidate: Path) -> None:
    candidate.with_name("kernel.py").unlink()
    assert "is gone" in _missing(candidate)["packaged"]


def test_a_file_written_by_hand_has_no_workspace_to_compare_with(candidate: Path, tmp_path: Path) -> None:
    folder = tmp_path / "by_hand"
    folder.mkdir()
    for name in ("generated_kernel.py", "reference.py", "input.py", "shapes.json"):
        (folder / name).write_bytes(candidate.with_name(name).read_bytes())
    remember(folder / "generated_kernel.py")
    verdict = gate.judge(GateOptions(folder / "generated_kernel.py"))
    assert {c.name: c.passed for c in verdict.checks}["packaged"] is None
    assert [c.name for c in verdict.missing] == ["limits recorded"]


@pytest.mark.parametrize(
    ("verdict", "changes", "words"),
    [
        (Verdict.FAIL, {}, "FAIL"),
        (Verdict.INCOMPLETE, {}, "did not pass"),
        (Verdict.COMPILED, {}, "did not pass"),
        (Verdict.PASS, {"shapes": ("tail_f32",)}, "left out: odd_f16, vector_bf16"),
        (Verdict.PASS, {"relaxed": ("the candidate's process was not isolated",)}, "not isolated"),
    ],
)
def test_verdicts_that_are_not_enough(
    candidate: Path, verdict: Verdict, changes: dict[str, Any], words: str
) -> None:
    remember(candidate, verdict, **changes)
    missing = _missing(candidate)
    assert list(missing) == ["verified"]
    assert words in missing["verified"]


def test_a_lesser_backend_neither_suffices_nor_harms(candidate: Path) -> None:
    remember(candidate, Verdict.COMPILED, backend="compile")
    assert _missing(candidate) == {}
    remember(candidate, Verdict.FAIL, backend="compile")
    assert "compile: FAIL" in _missing(candidate)["verified"]


def test_declared_nondeterminism_is_a_limit(candidate: Path) -> None:
    remember(candidate, relaxed=("declared nondeterministic: runs may differ in bits",))
    assert "differ in bits" in _missing(candidate)["limits recorded"]


def test_an_ignored_rule_is_a_limit(candidate: Path) -> None:
    (candidate.parent / "pyproject.toml").write_text('[tool.kernel-lint]\nignore = ["KL203", "KL4"]\n')
    missing = _missing(candidate)
    assert list(missing) == ["limits recorded"]
    assert "KL203" in missing["limits recorded"]


def test_a_broken_configuration(candidate: Path) -> None:
    (candidate.parent / "pyproject.toml").write_text("[tool.kernel-lint]\nignor = []\n")
    assert "unknown key" in _missing(candidate)["lint"]


def test_limits_that_no_longer_hold(candidate: Path) -> None:
    path = candidate.with_name("limitations.json")
    data = json.loads(path.read_text())
    data["limits"]["correctness-unmeasured"] = "x"
    path.write_text(json.dumps(data))
    assert "no longer hold" in _missing(candidate)["limits recorded"]
    path.write_text("[]")
    assert "mend" not in _missing(candidate)["limits recorded"]
    path.unlink()
    assert "does not say" in _missing(candidate)["limits recorded"]


def test_writing_limits_keeps_what_people_added(candidate: Path) -> None:
    path = candidate.with_name("limitations.json")
    path.write_text(json.dumps({"limits": {"tails": "rows under 8 are slow", "unverified": "old"}}))
    assert _run("gate", candidate.parent, "--write-limitations")[0] == 0
    assert set(json.loads(path.read_text())["limits"]) == {"performance-unmeasured", "emulated", "tails"}


def test_limits_do_not_belong_into_the_file(candidate: Path) -> None:
    candidate.write_text(candidate.read_text() + "\n# untested on gfx950\n")
    assert "'untested'" in _missing(candidate)["limits not in the file"]


def test_a_damaged_record_remembers_nothing(candidate: Path) -> None:
    record = candidate.parent / gate_record.FOLDER_NAME / gate_record.RECORD_NAME
    for text in ("", "[]", '{"schema_version": 1, "packaging": 3, "verified": [{}]}'):
        record.write_text(text)
        assert list(_missing(candidate)) == ["verified"]


def test_only_the_final_file_is_remembered(tmp_path: Path) -> None:
    gate_record.remember_packaging(tmp_path / "other.py", tmp_path / "kernel.py", (), ())
    assert list(tmp_path.iterdir()) == []


def test_git_ignores_the_record(candidate: Path) -> None:
    assert (candidate.parent / ".kernel-lint" / ".gitignore").read_text() == "*\n"


def test_json_follows_its_schema(candidate: Path) -> None:
    schema = json.loads((SCHEMAS / "gate.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    for _ in range(2):
        code, out = _run("gate", candidate.parent, "--output-format", "json")
        data = json.loads(out)
        jsonschema.validate(data, schema)
        assert data["passed"] is (code == 0)
        candidate.unlink(missing_ok=True)


def test_without_any_backend_the_gap_is_a_limit(candidate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "best_backend", lambda: None)
    assert "verified by nothing" in _missing(candidate)["limits recorded"]
