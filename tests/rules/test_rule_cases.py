"""Runs every rule's own VALID and INVALID cases, and checks its documentation."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kernel_lint import engine, registry
from kernel_lint.config import Settings
from kernel_lint.diagnostics import Diagnostic
from kernel_lint.fixes import apply_fixes
from kernel_lint.rule import Invalid, Rule, Valid
from kernel_lint.source import SourceModule

RULES = registry.all_rules()
HEADINGS = ("What it does", "Why is this bad?", "What is allowed", "How to fix it", "Example", "References")


def _check(rule: type[Rule], source: str, filename: str, options: dict[str, Any]) -> list[Diagnostic]:
    module = SourceModule.from_text(source, filename)
    return engine.check_module(module, Settings(**options), rules=[rule])


def _cases(kind: str) -> list[Any]:
    return [
        pytest.param(rule, case, id=f"{rule.code}-{index}")
        for rule in RULES
        for index, case in enumerate(getattr(rule, kind))
    ]


@pytest.mark.parametrize(("rule", "case"), _cases("VALID"))
def test_valid(rule: type[Rule], case: str | Valid) -> None:
    case = Valid(case) if isinstance(case, str) else case
    assert _check(rule, case.source, case.filename, case.options) == []


@pytest.mark.parametrize(("rule", "case"), _cases("INVALID"))
def test_invalid(rule: type[Rule], case: str | Invalid) -> None:
    case = Invalid(case) if isinstance(case, str) else case
    found = _check(rule, case.source, case.filename, case.options)
    assert found, "the rule found nothing"
    assert {d.code for d in found} == {rule.code}
    if case.lines:
        assert sorted(d.span.line for d in found) == sorted(case.lines)
    if case.fixed is not None:
        fixed = apply_fixes(SourceModule.from_text(case.source, case.filename), found, unsafe=True)
        assert fixed.text == case.fixed


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_documentation(rule: type[Rule]) -> None:
    text = rule.documentation()
    for heading in HEADINGS:
        assert f"## {heading}\n" in text, heading
    assert rule.summary()
    assert re.fullmatch(r"KL\d{3}", rule.code)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule.name)
    assert rule.clauses
    assert rule.VALID
    assert rule.INVALID


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_name_is_the_file(rule: type[Rule]) -> None:
    assert rule.__module__ == "kernel_lint.rules." + rule.name.replace("-", "_")


def test_codes_and_names_are_unique() -> None:
    assert len({rule.code for rule in RULES}) == len({rule.name for rule in RULES}) == len(RULES)
