"""Evasions are found by the rule that names them; honest candidates give no error or warning."""

from __future__ import annotations

import ast

import pytest
from flow_cases import EVASIONS, HONEST
from honest_styles import STYLES
from hypothesis import given, settings
from hypothesis import strategies as st
from unnamed_cases import UNNAMED

from kernel_lint import engine
from kernel_lint.config import Settings
from kernel_lint.diagnostics import Diagnostic, Severity
from kernel_lint.registry import all_rules
from kernel_lint.rule import Invalid
from kernel_lint.source import SourceModule


def _check(text: str) -> list[Diagnostic]:
    module = SourceModule.from_text(text, "kernel.py")
    assert module.problem is None, module.problem
    return engine.check_module(module, Settings())


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        pytest.param(rule, text, id=f"{rule}-{n}")
        for rule, texts in [*EVASIONS.items(), *UNNAMED.items()]
        for n, text in enumerate(texts)
    ],
)
def test_evasion(rule: str, text: str) -> None:
    assert rule in {d.name for d in _check(text)}


@pytest.mark.parametrize("text", HONEST, ids=range(len(HONEST)))
def test_honest(text: str) -> None:
    assert [d for d in _check(text) if d.severity is not Severity.INFO] == []


@pytest.mark.parametrize("name", STYLES)
def test_honest_style(name: str) -> None:
    assert [d for d in _check(STYLES[name]) if d.severity is not Severity.INFO] == []


# -- what does not change the meaning does not change the findings ----------------------

CASES = [(rule, text) for rule, texts in sorted(EVASIONS.items()) for text in texts[::4]]


class _Renamer(ast.NodeTransformer):
    """Renames locals and private names; never a keyword that a call passes by name."""

    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self.names.get(node.id, node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.arg = self.names.get(node.arg, node.arg)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.name = self.names.get(node.name, node.name)
        self.generic_visit(node)
        return node


def _names(text: str) -> set[str]:
    return {d.name for d in _check(text) if d.severity is not Severity.INFO}


@settings(max_examples=25)
@given(st.sampled_from(CASES), st.sampled_from(["_a", "tmp", "result", "ŷ", "_double_2"]))
def test_renaming_and_reformatting_lose_nothing(case: tuple[str, str], suffix: str) -> None:
    rule, text = case
    if "exec(" in text or "eval(" in text:
        return
    names = {"y": "y" + suffix, "_double": "launch" + suffix, "_double_kernel": "kernel" + suffix}
    renamed = ast.unparse(_Renamer(names).visit(ast.parse(text)))
    assert rule in _names(renamed)


@settings(max_examples=25)
@given(st.sampled_from(CASES))
def test_an_alias_or_a_wrapper_loses_nothing(case: tuple[str, str]) -> None:
    rule, text = case
    aliased = text.replace("import torch\n", "import torch as _th\ntorch = _th\n", 1)
    assert rule in _names(aliased)
    wrapped = text.replace("class Model(", "class _Base(", 1) + "\n\nclass Model(_Base):\n    pass\n"
    if "Model." not in text:
        assert rule in _names(wrapped)


@settings(max_examples=25)
@given(st.sampled_from(HONEST), st.sampled_from(["_a", "tmp", "ŷ"]))
def test_renaming_adds_nothing(text: str, suffix: str) -> None:
    names = {"y": "y" + suffix, "_double": "launch" + suffix, "_double_kernel": "kernel" + suffix}
    assert _names(ast.unparse(_Renamer(names).visit(ast.parse(text)))) == set()


@settings(max_examples=20)
@given(st.sampled_from(HONEST), st.permutations(range(3)))
def test_helpers_in_any_order_add_nothing(text: str, order: list[int]) -> None:
    helpers = [f"def _helper{n}(v):\n    return v + {n}\n\n\n" for n in order]
    assert _names(text.replace("class Model(", "".join(helpers) + "class Model(", 1)) == set()


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_text_in_strings_and_comments_is_never_code(rule: type) -> None:
    """Every invalid case, quoted in a string of an honest candidate, is no finding."""
    honest = HONEST[0]
    for case in rule.INVALID:  # type: ignore[attr-defined]
        source = case.source if isinstance(case, Invalid) else case
        # These look at comments and literals themselves.
        if rule.code in ("KL001", "KL002", "KL003", "KL109", "KL309"):  # type: ignore[attr-defined]
            continue
        quoted = f"_TEXT = {source!r}\n"
        found = [d for d in _check(honest + "\n\n" + quoted) if d.severity is not Severity.INFO]
        assert found == [], source
