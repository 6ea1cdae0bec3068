"""The schema of [tool.kernel-lint]: current, and accepted by validate-pyproject."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from kernel_lint import config
from kernel_lint.errors import KernelLintError
from kernel_lint.integrations.pyproject_schema import schema


def test_every_setting_is_in_it() -> None:
    names = {f.name.replace("_", "-") for f in fields(config.Settings)} - {"source"}
    assert set(schema()["properties"]) == names | {"extend"}


@pytest.mark.parametrize(
    "table",
    [
        {"ignore": ["KL206"], "per-file-ignores": {"ops/*.py": ["KL104"]}, "final": True, "jobs": 2},
        {"framework": "cutedsl", "max-file-size": 10, "glue": ["torch.cumsum"]},
        {"framework": "triton"},
        {"ingore": ["KL206"]},
        {"final": "yes"},
        {"jobs": -1},
        {"select": "KL1"},
        {"per-file-ignores": {"a": "KL1"}},
        {"reference": 3},
    ],
)
def test_it_accepts_what_the_reader_accepts(table: dict[str, Any], tmp_path: Path) -> None:
    try:
        config._checked(table, tmp_path / "pyproject.toml")
        good = True
    except KernelLintError:
        good = False
    assert jsonschema.Draft7Validator(schema()).is_valid(table) is good


def test_validate_pyproject_finds_and_applies_it() -> None:
    api = pytest.importorskip("validate_pyproject.api")
    errors = pytest.importorskip("validate_pyproject.errors")
    validate = api.Validator()
    base = {"project": {"name": "x", "version": "1"}}
    validate({**base, "tool": {"kernel-lint": {"ignore": ["KL206"]}}})
    with pytest.raises(errors.ValidationError, match="kernel-lint"):
        validate({**base, "tool": {"kernel-lint": {"ingore": ["KL206"]}}})
