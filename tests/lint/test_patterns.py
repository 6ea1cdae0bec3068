"""Expressions compiled late."""

from __future__ import annotations

import re
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_lint.patterns import lazy
from kernel_lint.rules import cli_args, markdown_prose, placeholder, test_bench


def test_is_the_compiled_expression_and_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    original = re.compile
    monkeypatch.setattr(re, "compile", lambda *a: made.append(a) or original(*a))
    pattern = lazy(r"(a+)b", re.I)
    assert not made
    assert pattern.search("xAAb")[1] == "AA"  # type: ignore[index]
    assert pattern.findall("ab aab") == ["a", "aa"]
    assert pattern.sub("-", "xab") == "x-"
    assert pattern.pattern == "(a+)b"
    assert pattern.fullmatch("aabb") is None
    assert len(made) == 2  # the second for ``pattern``, which is no method


CHAT = """Sure! | certainly, x | **Absolutely**: | of course. | Great question! | No problem, | okay. |
Alright! | here's the kernel |
Here are some optimized versions | below is the code | The following is a fast kernel |
I hope this works | let me explain | feel free to | As an AI | we have written | I've done | I’ll do |
Explanation: | key changes: | Main changes: | you asked | As requested | you can now run | Please note |
hope this helps | happy to help | This response | - sure, | 1. I've"""


@pytest.mark.parametrize("line", [part.strip() for part in CHAT.replace("\n", " ").split("|")])
def test_every_opening_of_a_chat_passes_the_first_look(line: str) -> None:
    assert bool(markdown_prose._CHAT.match(line)) == markdown_prose._is_chat(line)


WORDED = [
    (module, name)
    for module in (cli_args, placeholder, test_bench)
    for name, value in vars(module).items()
    if getattr(value, "_words", ())
]


@pytest.mark.parametrize(("module", "name"), WORDED, ids=lambda part: getattr(part, "__name__", part))
@given(data=st.data())
@settings(max_examples=300, deadline=None)
def test_what_an_expression_finds_holds_one_of_its_words(
    module: ModuleType, name: str, data: st.DataObject
) -> None:
    pattern = getattr(module, name)
    text = data.draw(
        st.from_regex(re.compile(pattern._text, pattern._flags), alphabet=st.characters(codec="ascii"))
    )
    assert re.search(pattern._text, text, pattern._flags)
    assert any(word in text.lower() for word in pattern._words)


def test_a_text_without_the_words_needs_no_expression(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(re, "compile", lambda *_: pytest.fail("compiled"))
    pattern = lazy("(?i)k", words=("k",))
    assert pattern.search("abc") is None
    assert pattern.match("") is None
    monkeypatch.undo()
    # The Kelvin sign is a k without regard to case.
    assert pattern.search("\u212a") is not None
    assert pattern.search("K") is not None
    assert pattern.search("abc") is None


def test_there_are_expressions_with_words() -> None:
    assert len(WORDED) >= 7
