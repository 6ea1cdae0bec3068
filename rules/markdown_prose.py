"""KL002."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import chain, takewhile

from kernel_lint.diagnostics import Edit, Fix, Severity, Span
from kernel_lint.patterns import lazy
from kernel_lint.rule import Context, Finding, Invalid, Rule, Valid, cases
from kernel_lint.rules._samples import candidate
from kernel_lint.rules._texts import (
    Text,
    comment_texts,
    is_directive,
    named_texts,
    string_texts,
    text_removal,
)

_FENCE = lazy(r"(`{3,}|~{3,}\s*[A-Za-z])")
_TITLES = frozenset(
    """overview summary explanation notes note design usage performance results result key optimization optimizations
    optimisation implementation approach background introduction conclusion benchmarks analysis features changes example
    examples rationale motivation solution strategy details algorithm references step""".split()
)
_HEADING = lazy(r"#{1,6}\s+(\S+)")
_BOLD = lazy(r"(?:^|[\s(])\*\*[A-Za-z][^*\n]*[\w.:!?)]\*\*(?:$|[\s.,:;)!?])")
_LINK = lazy(r"!?\[[^\]\n]+\]\((?:https?:|\.|/|#)[^)\s]*\)")
_TABLE_RULE = lazy(r"\|?\s*:?-{3,}:?\s*(\|\s*:?-{3,}:?\s*)+\|?\s*$")
_TAG = lazy(
    r"(?i)</?(think|thinking|answer|code|details|summary|br|p|b|h[1-6]|ul|li|solution|output|reasoning)/?>"
)
_CHAT = lazy(
    r"""(?xi)^\W*(?:
      (?:sure|certainly|absolutely|of\ course|great\ question|no\ problem|okay|alright)\s*[!,.:]
    | here(?:'s|\ is|\ are|’s)\s+(?:the|an?|my|your|our|some)\s+(?:\S+\s+){0,4}
        (?:kernel|code|implementation|version|solution|module|file|program|answer|rewrite|translation|explanation|summary|model|operator|layer|script|result)\b
    | (?:below|the\ following)\s+is\s+(?:the|an?|my|your|our)\s+(?:\S+\s+){0,4}
        (?:kernel|code|implementation|version|solution|module|file|program|answer|rewrite)\b
    | i\ hope\ (?:this|that|it)\b | let\ me\ (?:know|explain|walk|think|start|first)\b | feel\ free\ to\b
    | as\ an?\ (?:ai|language\ model)\b | (?:i|we)\ (?:have|'ve)\ (?:written|implemented|optimized|optimised|rewritten|fused)\b
    | (?:i've|i’ve|i'll|i’ll|i\ will|i\ am\ going|i'm\ going|we'll)\s
    | (?:explanation|key\ (?:changes|points|improvements|optimizations|ideas)|key\ takeaways?|main\ changes)\s*:\s*$
    | (?:you\ asked|as\ you\ (?:asked|requested)|as\ requested|you\ can\ (?:now\ )?(?:run|use|copy|paste|test)|please\ (?:note|let|run))\b
    | hope\ this\ helps | happy\ to\ help | this\ (?:response|answer)\b
    )"""
)
# What the sentences above begin with.
_CHAT_WORDS = frozenset(
    """sure certainly absolutely of great no okay alright here below the i let feel as we explanation key main you please
    hope happy this""".split()
)
# Pictures of a chat; arrows, mathematical and box-drawing characters are not among them.
_EMOJI = lazy("[\U0001f300-\U0001faff\u2705\u274c\u26a1\u2728\u2b50]")
_LIST_TITLE = lazy(
    r"(?i)\W*(?:key |main |major )?(?:optimi[sz]ations?|changes|improvements?|features|highlights|benefits|advantages|approach|strategy"
    r"|results|performance|summary|techniques|overview|design|notes)(?: \w+){0,3}\s*:\W*$"
)
_BULLET = lazy(r"\s*(?:[-*+•]|\d+[.)])\s+\S")
_LICENCE = lazy(
    r"(?i)licen[cs]e|copyright|spdx|warrant|permission|redistribut|as is|liab|all rights reserved"
)
_NARRATIVE = lazy(
    r"\b(?:I|[Ww]e|I've|[Oo]ur|[Mm]y)\s[a-z]+|\b(?:speed-?up|faster|slower|profil(?:ed|ing|er)|benchmark(?:ed|s)?|tried|baseline"
    r"|experiment(?:ed|s)?|noticed|decided|improve(?:d|ment|ments)|[Nn]ext|[Ff]inally|[Ff]irst|[Tt]hen|[Tt]his kernel was)\b"
)
_SECTION = lazy(
    r"(?i)\s*(args?|arguments|param(?:eter)?s|returns?|raises|yields|shapes?|layouts?|attributes|inputs?|outputs?|examples?)\s*:?\s*$"
)
_STOPWORDS = frozenset(
    """the is are a an this that these those to of and for with you your we our it its in on as be should will can here
    i me if when by from at which so because about not have has was were use uses let""".split()
)
_KEYWORDS = frozenset(
    """def class if elif else for while return import from with try except finally raise assert lambda yield async await
    del global nonlocal pass break continue match case and or not in is print""".split()
)
_WORD = lazy(r"[A-Za-z][A-Za-z'’\-]*[.,;:!?)]*$|[aAI]$")
_ITEM = lazy(r"\s*[\w`*, ]+(\([^)]*\))?:\s")
_LABEL = lazy(r"[A-Z][A-Za-z ]{2,40}:")
_ROW = lazy(r"\|.*\|$")
_RULE = lazy(r"-{3,}|\*{3,}")
_CODE = lazy(r"`[^`]*`")
_MARKER = lazy(r"^(?:[-*+]|\d+[.)])\s+")
MAX_WORDS = 60
MAX_WORDS_IN_PARAGRAPHS = 40
MAX_WORDS_OF_NARRATIVE = 25


class MarkdownProse(Rule):
    """
    ## What it does
    Finds what belongs to a chat or a report and not to a source file: Markdown fences, headings, bold text, tables and
    links, opening and closing phrases ("Here is the kernel", "Let me know"), and long explanations, in comments, in
    docstrings, or as lines that make the file invalid.

    ## Why is this bad?
    A fence or a sentence around the code is a syntax error: the evaluator reads the file as it is. Prose inside
    comments and docstrings is forbidden by the contract: the file holds the kernel and nothing else.

    ## What is allowed
    Licence headers, separators, section labels, short comments, a docstring of one paragraph (up to 60 words), lists
    of arguments and shapes, a name in back quotes.

    ## How to fix it
    Remove the text. Explanations go into the report beside the kernel.

    ## Example
    ````python
    ```python
    import torch
    ```
    ````

    ## Fix safety
    Removing comments is always safe; removing a docstring is offered only where nothing reads `__doc__`. Lines around the
    code are removed only when what remains is valid Python.

    ## References
    - Contract clauses F2 (valid Python source only) and X6 (no explanatory prose, no Markdown).
    - CommonMark 0.31: what fences, headings and emphasis look like.
    """

    code = "KL002"
    name = "markdown-prose"
    clauses = ("F2", "X6")
    needs_tree = False
    VALID = cases(
        lambda: (
            "# SPDX-License-Identifier: Apache-2.0\n# Copyright (c) 2026 Example Authors\nx = 1\n",
            "# ---------------------------------------------------- tiles\nTILE = 256\n",
            "# `n` must be the flat size\nN = 0\n",
            '"""Scale every element by two, one element for each thread."""\n',
            'def f(x, n):\n    """Return the tile.\n\n    Args:\n        x: the rows of the tile\n        n: how many of them\n    """\n    return x\n',
            "# y = 2**n, z = m**2\nx = 1\n",
            "#!/usr/bin/env python\n# -*- coding: utf-8 -*-\nx = 1\n",
            "FENCE = '```'\n",
            "## tiles\nTILE = 4\n",
            "# lane i holds rows 4i to 4i+3 of the accumulator, as the matrix instruction leaves them\nR = 4\n",
            Valid("# ## Overview\n# **bold**\nx = 1\n", filename="ops.py"),
            "x = 1  # bytes\n",
            "# +---+---+\n# | 0 | 1 |\n# +---+---+\nx = 1\n",
        )
    )
    INVALID = cases(lambda: (
        Invalid("```python\nx = 1\n```\n", lines=(1,), fixed="x = 1\n"),
        Invalid("Here is the optimized kernel for the task:\n\nx = 1\n", lines=(1,), fixed="\nx = 1\n"),
        Invalid("x = 1\n\nThe kernel above should be about twice as fast as the baseline.\n", lines=(3,), fixed="x = 1\n\n"),
        Invalid("# Optimized kernel\n\nThis kernel is fast.\n\n```py\nx = 1\n```\n\n- it uses tiles of the matrix\n", lines=(1,), fixed="\n\nx = 1\n\n"),
        Invalid("Sure!\n\nx = 1\n", lines=(1,), fixed="\nx = 1\n"),
        Invalid("<think>\nx = 1\n</think>\n", lines=(1,)),
        Invalid("# ## Overview\nx = 1\n", lines=(1,), fixed="x = 1\n"),
        Invalid("## Overview\nx = 1\n", lines=(1,), fixed="x = 1\n"),
        Invalid("# **Result**: good\nx = 1\n", lines=(1,), fixed="x = 1\n"),
        Invalid('"""\nScale.\n\n## Design notes\n\n- rows\n"""\nx = 1\n', lines=(4,), fixed="x = 1\n"),
        Invalid('def f():\n    """Scale.\n\n    ```python\n    f()\n    ```\n    """\n    return 1\n', lines=(4,)),
        Invalid("# Here's the optimized version of your kernel\nx = 1\n", lines=(1,), fixed="x = 1\n"),
        Invalid("x = 1\n# Let me know if you need anything else!\n", lines=(2,), fixed="x = 1\n"),
        Invalid("x = 1  # I've fused the bias here\n", lines=(1,), fixed="x = 1\n"),
        Invalid("# | shape | time |\n# |-------|------|\n# | 4096  | 12   |\nx = 1\n", lines=(2,), fixed="x = 1\n"),
        Invalid("# 🚀 fast\nx = 1\n", lines=(1,), fixed="x = 1\n"),
        Invalid("# Key optimizations:\n# - wide loads\n# - no bank conflicts\nx = 1\n", lines=(2,), fixed="x = 1\n"),
        Invalid("# see [the paper](https://example.org/p)\nx = 1\n", lines=(1,), fixed="x = 1\n"),
        Invalid(candidate() + "\n\n" + '"""' + "The rows are split over the blocks and every thread takes four of them. " * 6 + '"""\n'),
        Invalid("NOTES = '''" + "First we tried larger tiles and then we profiled the kernel again. " * 4 + "'''\n", lines=(1,)),
        Invalid("# I noticed that the reference is memory bound.\n\n# Then I tried wider loads and profiled\n# them, which made\n"
                "# the kernel faster on all the shapes that we have here today.\nx = 1\n", lines=(1,), fixed="\nx = 1\n"),
    ))  # fmt: skip

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield what stands around the code of an invalid file, or in the texts of a valid candidate."""
        module = context.module
        if module.problem is not None:
            yield from self._around(context)
        elif context.candidate:
            for text in chain(comment_texts(module), string_texts(module), named_texts(module)):
                yield from self._text(context, text)

    def _around(self, context: Context) -> Iterator[Finding]:
        lines = context.module.lines
        odd = foreign_lines(lines)
        if not odd:
            return
        kept = [line for number, line in enumerate(lines, start=1) if number not in odd]
        fix = None
        if _parses("\n".join(kept)):
            fix = Fix(
                "remove the lines around the code", tuple(Edit(_whole(lines, n), "") for n in sorted(odd))
            )
        first = min(odd)
        span = Span(first, 1, first, len(lines[first - 1]) + 1)
        yield Finding(span, f"{odd[first]} in a file that must be Python and nothing else", _HELP, fix)

    def _text(self, context: Context, text: Text) -> Iterator[Finding]:
        # A short text under a name is data; only one that goes on for lines can be an explanation.
        found = None if text.kind == "name" and len(text.lines) < 3 else _markdown(text) or _chat(text)
        severity = None
        if found is None:
            found, severity = _long(text), Severity.WARNING
        if found is not None:
            line, what = found
            fix = text_removal(context.module, text, _licence_lines(text))
            yield Finding(text.span(context.module, line), what, _HELP, fix, severity)


def _markdown(text: Text) -> tuple[int, str] | None:
    """The first line that is Markdown, and what it is."""
    previous = ""
    for index, (number, line) in enumerate(text.lines):
        bare = line.strip()
        if bare.startswith("```") or (bare.startswith("~~~") and _FENCE.match(bare)):
            return number, "a Markdown fence"
        if _is_heading(text, index, line):
            return number, "a Markdown heading"
        if (
            "---" in bare
            and _TABLE_RULE.fullmatch(bare)
            and previous.count("|") >= 1
            and any(c.isalpha() for c in previous)
        ):
            return number, "a Markdown table"
        if ("**" in bare and _BOLD.search(bare)) or ("](" in bare and _LINK.search(bare)):
            return number, "Markdown markup"
        if bare.startswith("<") and _TAG.fullmatch(bare):
            return number, "markup of a chat"
        if not bare.isascii() and _EMOJI.search(bare):
            return number, "a picture of a chat"
        if ":" in previous and _BULLET.match(line) and _LIST_TITLE.fullmatch(previous):
            return number, "a list that belongs into a report"
        previous = bare if any(map(str.isalnum, bare)) else previous
    return None


def _is_heading(text: Text, index: int, line: str) -> bool:
    if not line.lstrip().startswith("#"):
        return False
    match = _HEADING.match(line.strip())
    first = index == 0 or not text.lines[index - 1][1].strip()
    if text.kind != "comment":
        return match is not None and (
            line.strip().startswith("##") or (first and line.strip()[2:3].isupper())
        )
    if match is not None:
        # The hash sign of the comment itself is off: "# ## Overview" has its own, "## tiles" only one more.
        return line.strip().startswith("##") or match[1].strip(":").lower() in _TITLES
    return False


def _chat(text: Text) -> tuple[int, str] | None:
    for number, line in text.lines:
        if _is_chat(line):
            return number, "a sentence to a reader of a chat"
    return None


def _is_chat(line: str) -> bool:
    """Tell whether a line opens like a chat, after a look at its first word."""
    start = next((index for index, char in enumerate(line) if char.isalnum() or char == "_"), len(line))
    word = "".join(takewhile(str.isalpha, line[start : start + 16])).casefold()
    return word in _CHAT_WORDS and _CHAT.match(line) is not None


def _paragraphs(text: Text) -> list[list[tuple[int, str]]]:
    """The text's paragraphs of running text: no separators, code, argument lists."""
    found: list[list[tuple[int, str]]] = [[]]
    section: int | None = None
    for number, line in text.lines:
        indent = len(line) - len(line.lstrip())
        if not line.strip():
            found.append([])
            continue
        if _SECTION.fullmatch(line):
            section = indent
            continue
        if section is not None and (indent > section or _ITEM.match(line)):
            continue
        section = None
        if not is_directive(number, line) and not line.lstrip().startswith((">>>", "$ ")):
            found[-1].append((number, line))
    return [paragraph for paragraph in found if paragraph]


def _words(line: str) -> int:
    words = line.split()
    plain = sum(1 for word in words if _WORD.match(word.lstrip("(\"'`")))
    return len(words) if words and plain >= 0.6 * len(words) and plain >= 2 else 0


def _long(text: Text) -> tuple[int, str] | None:
    counts = [(sum(_words(line) for _, line in paragraph), paragraph) for paragraph in _paragraphs(text)]
    if sum(count for count, _ in counts) <= MAX_WORDS_OF_NARRATIVE:
        return None
    counts = [(n, p) for n, p in counts if not _LICENCE.search(" ".join(line for _, line in p))]
    total = sum(count for count, _ in counts)
    several = sum(1 for count, _ in counts if count >= 8)
    long = total > MAX_WORDS or (several > 1 and total > MAX_WORDS_IN_PARAGRAPHS)
    if not long and total > MAX_WORDS_OF_NARRATIVE:
        told = " ".join(line for _, paragraph in counts for _, line in paragraph)
        long = len({match.lower() for match in _NARRATIVE.findall(told)}) >= 2
    if long:
        first = next(paragraph for count, paragraph in counts if count)
        return first[0][0], f"an explanation of {total} words"
    return None


def _licence_lines(text: Text) -> set[int]:
    keep: set[int] = set()
    for paragraph in _paragraphs(text):
        if _LICENCE.search(" ".join(line for _, line in paragraph)):
            keep.update(number for number, _ in paragraph)
    return keep


# -- files that are not Python ---------------------------------------------------------


def foreign_lines(lines: Sequence[str]) -> dict[int, str]:
    """Return the lines around code that are Markdown or prose, with what each is."""
    found: dict[int, str] = {}
    inside = ""
    for number, line in enumerate(lines, start=1):
        bare = line.strip()
        if not inside and not bare.startswith("#"):
            what = _foreign(line)
            if what:
                found[number] = what
                continue
        inside = _open_string(line, inside)
    if found:
        _headings(lines, found)
    return found


def _foreign(line: str) -> str:
    bare = line.strip()
    if _FENCE.match(bare) or (bare.startswith("~~~") and not bare.strip("~")):
        return "a Markdown fence"
    if _TAG.fullmatch(bare):
        return "markup of a chat"
    if bare.startswith("<!--"):
        return "markup of a chat"
    if _LABEL.fullmatch(line.rstrip()):
        return "prose"
    if line[:1].isspace() or not bare:
        return ""
    if _is_chat(bare) and not _parses(bare):
        return "a sentence to a reader of a chat"
    if bare.startswith("**") or _ROW.match(bare) or _TABLE_RULE.fullmatch(bare) or _RULE.fullmatch(bare):
        return "Markdown markup"
    return "prose" if _is_prose(bare) else ""


def _is_prose(line: str) -> bool:
    text = _CODE.sub("code", _MARKER.sub("", line))
    words = text.split()
    if len(words) < 3 or words[0] in _KEYWORDS or "=" in text or _parses(text):
        return False
    plain = sum(1 for word in words if _WORD.match(word.lstrip("(\"'*_")))
    known = {word.strip(".,;:!?\"'()").lower() for word in words} & _STOPWORDS
    return plain >= 0.7 * len(words) and bool(known)


def _headings(lines: Sequence[str], found: dict[int, str]) -> None:
    """Beside other foreign lines, ``# Title`` between blank lines outside the fence is a heading."""
    fences = [number for number, what in found.items() if what == "a Markdown fence"]
    for number, line in enumerate(lines, start=1):
        outside = sum(1 for fence in fences if fence < number) % 2 == 0
        if fences and outside and _HEADING.match(line):
            found[number] = "a Markdown heading"


def _open_string(line: str, inside: str) -> str:
    """The triple quote that is open after a line, given the one before it."""
    at = 0
    while at < len(line):
        if inside:
            end = line.find(inside, at)
            if end < 0:
                return inside
            at, inside = end + 3, ""
            continue
        starts = [(line.find(quote, at), quote) for quote in ('"""', "'''") if line.find(quote, at) >= 0]
        if not starts:
            return ""
        position, inside = min(starts)
        at = position + 3
    return inside


def _whole(lines: Sequence[str], number: int) -> Span:
    if number < len(lines):
        return Span(number, 1, number + 1, 1)
    return Span(number, 1, number, len(lines[number - 1]) + 1)


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


_HELP = "remove it; explanations belong into a report beside the kernel"
