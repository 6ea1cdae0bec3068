"""Words that results have in common."""

from __future__ import annotations


def counted(number: int, what: str) -> str:
    """Return ``1 shape``, ``2 shapes``: a number and a noun that takes an s."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def visible(text: str) -> str:
    """Write control characters as escapes: what a candidate says must not move a terminal's cursor.

    Lines stay lines, and tabs tabs.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)
