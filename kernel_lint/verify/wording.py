"""Words that results have in common."""

from __future__ import annotations


def counted(number: int, what: str) -> str:
    """Return ``1 shape``, ``2 shapes``: a number and a noun that takes an s."""
    return f"{number} {what}{'' if number == 1 else 's'}"
