"""Expressions compiled late."""

from __future__ import annotations

import re

import pytest

from kernel_lint.patterns import lazy
from kernel_lint.rules import markdown_prose


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
