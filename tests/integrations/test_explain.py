"""What an agent is told."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner
from integrations.workspaces import make_workspace, package_into

from kernel_lint import gate, registry
from kernel_lint.cli import cli
from kernel_lint.integrations.clauses import CLAUSES

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"


@pytest.fixture(autouse=True)
def emulator_is_best(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "best_backend", lambda: "emulate")


def _explain(folder: Path, *options: str) -> str:
    result = CliRunner().invoke(cli, ["explain", str(folder), *options], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.stdout


def test_every_clause_of_every_rule_is_known() -> None:
    for rule in registry.all_rules():
        assert set(rule.clauses) <= set(CLAUSES), rule.code


def test_the_clauses_are_all_there() -> None:
    wanted = [f"F{n}" for n in range(1, 9)] + [f"P{n}" for n in range(1, 8)] + [f"X{n}" for n in range(1, 11)]
    assert list(CLAUSES) == wanted


def test_text_says_first_what_is_missing(tmp_path: Path) -> None:
    package_into(make_workspace(tmp_path))
    text = _explain(tmp_path / "softmax")
    assert text.startswith("# generated_kernel.py: what is missing now\n- verified: not verified by emulate")
    assert "\nP4 No torch.compile" in text
    for rule in registry.all_rules():
        assert re.search(rf"^{rule.code} {rule.name} ", text, re.MULTILINE)


def test_json(tmp_path: Path) -> None:
    make_workspace(tmp_path)
    data = json.loads(_explain(tmp_path / "softmax", "--output-format", "json"))
    assert data["now"]["passed"] is False
    assert data["backend"] == "emulate"
    assert len(data["rules"]) == len(registry.all_rules())
    schema = json.loads((SCHEMAS / "explain.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(data, schema)
    elsewhere = json.loads(_explain(tmp_path, "--output-format", "json"))
    assert elsewhere["now"] is None
    jsonschema.validate(elsewhere, schema)
