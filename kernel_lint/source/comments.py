"""Comments, found from the tree: a hash sign that no string literal covers starts one."""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Sequence

from kernel_lint import TYPE_CHECKING

if TYPE_CHECKING:
    from kernel_lint.source.module import SourceModule


Literal = tuple[int, int, int, int]


def split_concatenation(lines: Sequence[str], span: Literal) -> list[Literal]:
    """Return the single literals under a string's span.

    ``("a"  # one`` and ``"b")`` on the next line are one string to the parser, with a comment
    inside; only such spans, over several lines with a hash sign, are looked at closely.
    """
    line, column, end_line, end_column = span
    if line == end_line or not any("#" in text for text in lines[line - 1 : end_line]):
        return [span]
    import tokenize

    covered = list(lines[line - 1 : end_line])
    covered[-1] = covered[-1].encode("utf-8")[:end_column].decode("utf-8")
    covered[0] = "(" + covered[0].encode("utf-8")[column:].decode("utf-8")
    parts: list[Literal] = []
    starts: list[tuple[int, int]] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO("\n".join(covered) + "\n)").readline):
            name = tokenize.tok_name[token.type]
            if name == "FSTRING_START":
                starts.append(token.start)
            elif name == "STRING" and not starts:
                parts.append(_placed(lines, span, token.start, token.end))
            elif name == "FSTRING_END" and len(starts) == 1:
                parts.append(_placed(lines, span, starts.pop(), token.end))
            elif name == "FSTRING_END":
                starts.pop()
    except (tokenize.TokenError, SyntaxError):
        return [span]
    return parts or [span]


def _placed(lines: Sequence[str], span: Literal, start: tuple[int, int], end: tuple[int, int]) -> Literal:
    """Turn places in the piece of text (characters, a parenthesis in front) into places in the file."""

    def place(row: int, character: int) -> tuple[int, int]:
        text = lines[span[0] + row - 2]
        if row == 1:
            before = text.encode("utf-8")[: span[1]].decode("utf-8")
            character += len(before) - 1
        return span[0] + row - 1, len(text[:character].encode("utf-8"))

    return (*place(*start), *place(*end))


def find_comments(module: SourceModule) -> list[tuple[int, int, str]]:
    """Return every comment as ``(line, column from 1, text)``, in order.

    The tokenizer would say the same at ten times the cost.
    """
    if "#" not in module.text:
        return []
    strings = module.string_spans
    starts = [(line, column) for line, column, _, _ in strings]
    ends: list[tuple[int, int]] = []
    furthest = (0, 0)
    for _, _, end_line, end_column in strings:
        # Literals nest (a string in an f-string): keep the furthest end seen so far.
        furthest = max(furthest, (end_line, end_column))
        ends.append(furthest)
    whole = module.text if "\r" not in module.text else "\n".join(module.lines)
    comments, number, counted = [], 1, 0
    at = whole.find("#")
    while at >= 0:
        number, counted = number + whole.count("\n", counted, at), at
        start = whole.rfind("\n", 0, at) + 1
        place = number, len(whole[start:at].encode("utf-8"))
        before = bisect_right(starts, place)
        if before and ends[before - 1] > place:
            at = whole.find("#", at + 1)
            continue
        end = whole.find("\n", at)
        end = len(whole) if end < 0 else end
        comments.append((number, at - start + 1, whole[at:end]))
        at = whole.find("#", end)
    return comments
