"""Comments, found from the tree: a hash sign that no string literal covers starts one."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernel_lint.source.module import SourceModule


def find_comments(module: SourceModule) -> list[tuple[int, int, str]]:
    """Return every comment as ``(line, column from 1, text)``, in order.

    The tokenizer would say the same at ten times the cost.
    """
    strings = module.string_spans
    starts = [(line, column) for line, column, _, _ in strings]
    ends: list[tuple[int, int]] = []
    furthest = (0, 0)
    for _, _, end_line, end_column in strings:
        # Literals nest (a string in an f-string): keep the furthest end seen so far.
        furthest = max(furthest, (end_line, end_column))
        ends.append(furthest)
    comments = []
    for number, text in enumerate(module.lines, start=1):
        at = text.find("#")
        while at >= 0:
            offset = at if text.isascii() else len(text[:at].encode("utf-8"))
            before = bisect_right(starts, (number, offset))
            if before == 0 or ends[before - 1] <= (number, offset):
                comments.append((number, at + 1, text[at:]))
                break
            at = text.find("#", at + 1)
    return comments
