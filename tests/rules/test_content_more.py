"""What a file may hold: evasions are found by the rule that names them, honest candidates stay clean."""

from __future__ import annotations

import ast

import pytest
from content_cases import EVASIONS, HONEST

from kernel_lint import engine
from kernel_lint.config import Settings
from kernel_lint.diagnostics import Diagnostic, Severity
from kernel_lint.fixes import fix_until_stable
from kernel_lint.registry import find_rule
from kernel_lint.rules._samples import candidate
from kernel_lint.source import SourceModule


def _check(text: str) -> list[Diagnostic]:
    return engine.check_module(SourceModule.from_text(text, "kernel.py"), Settings())


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        pytest.param(rule, text, id=f"{rule}-{number}")
        for rule, texts in EVASIONS.items()
        for number, text in enumerate(texts)
    ],
)
def test_evasion(rule: str, text: str) -> None:
    assert rule in {diagnostic.name for diagnostic in _check(text)}


@pytest.mark.parametrize("text", HONEST, ids=range(len(HONEST)))
def test_honest(text: str) -> None:
    module = SourceModule.from_text(text, "kernel.py")
    assert module.problem is None
    assert [d for d in _check(text) if d.severity is not Severity.INFO] == []


_IN_COMMENTS = {"markdown-prose", "placeholder"}
_CODE = sorted(EVASIONS.keys() - _IN_COMMENTS)


def _found_by(rule: str, text: str) -> list[Diagnostic]:
    module = SourceModule.from_text(text, "kernel.py")
    return engine.check_module(module, Settings(), rules=[find_rule(rule)])


@pytest.mark.parametrize("rule", _CODE)
def test_reformatting_loses_nothing(rule: str) -> None:
    for text in EVASIONS[rule]:
        assert _found_by(rule, ast.unparse(ast.parse(text))), text


@pytest.mark.parametrize("rule", _CODE)
def test_text_is_never_code(rule: str) -> None:
    for text in EVASIONS[rule]:
        quoted = candidate(top=f"_TEXT = {text!r}\n", init="self.text = _TEXT")
        assert _found_by(rule, quoted) == [], text


@pytest.mark.parametrize("rule", sorted(EVASIONS))
def test_fixes_keep_the_file_valid_and_are_stable(rule: str) -> None:
    for text in EVASIONS[rule]:
        module = SourceModule.from_text(text, "kernel.py")
        fixed = fix_until_stable(module, lambda m: _found_by(rule, m.text), unsafe=True)
        if fixed.applied:
            again = SourceModule.from_text(fixed.text, "kernel.py")
            assert again.problem is None
            assert again.flow.model is not None
            assert not [d for d in _found_by(rule, fixed.text) if d.fix is not None], text


@pytest.mark.parametrize("text", [text for texts in EVASIONS.values() for text in texts[::6]])
def test_removing_dead_code_leaves_the_model_alone(text: str) -> None:
    module = SourceModule.from_text(text, "kernel.py")
    if module.problem is not None:
        return
    fixed = fix_until_stable(module, lambda m: _found_by("dead-code", m.text))
    again = SourceModule.from_text(fixed.text, "kernel.py")
    before, after = module.flow.model, again.flow.model
    assert before is not None
    assert after is not None
    assert ast.dump(before) == ast.dump(after)
    assert {f.name for f in module.flow.reachable if isinstance(f, ast.FunctionDef)} == {
        f.name for f in again.flow.reachable if isinstance(f, ast.FunctionDef)
    }
    undefined = {d.message for d in _found_by("undefined-name", text)}
    assert {d.message for d in _found_by("undefined-name", fixed.text)} <= undefined
