"""Where the replacement fields of an f-string stand in its text.

Before Python 3.12 the syntax tree gives wrong positions for what is inside an f-string, so the text
is read here, by the rules of https://docs.python.org/3/reference/lexical_analysis.html#f-strings.
The text is that of a valid literal, or of several in a row.
"""

from __future__ import annotations

import re

from kernel_lint.records import dataclass

_LITERAL = re.compile(r"""([rbufRBUF]{0,2})(\"{3}|'{3}|"|')""")
_NAME = re.compile(r"\w+")
_NAMED_ESCAPE = re.compile(r"N\{[^}]*\}")
_DEBUG = re.compile(r"(?<![=!<>])=\s*\Z")


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its expression is ``text[start:stop]``, and ``}`` or what follows it is at ``end``.

    ``stop`` and ``end`` differ by the ``=`` of ``{value=}``. ``plain`` says that neither a conversion
    nor a format follows; ``quote`` is that of the literal.
    """

    start: int
    stop: int
    end: int
    plain: bool
    quote: str
    raw: bool


def fields(text: str) -> list[Field]:
    """Return the fields of the literals in ``text``, those in format specifications included.

    Fields of f-strings inside an expression are not among them.
    """
    found: list[Field] = []
    position = 0
    while position < len(text):
        position = _step(text, position, found)
    return found


def _step(text: str, at: int, found: list[Field]) -> int:
    """Return where code goes on after what stands at ``at``: a literal, a comment, a name, a sign."""
    literal = _LITERAL.match(text, at)
    if literal is not None:
        prefix, quote = literal[1].lower(), literal[2]
        return _literal(text, literal.end(), quote, "r" in prefix, found if "f" in prefix else None)
    if text[at] == "#":
        end = text.find("\n", at)
        return len(text) if end < 0 else end
    name = _NAME.match(text, at)
    return name.end() if name is not None else at + 1


def _literal(text: str, at: int, quote: str, raw: bool, found: list[Field] | None) -> int:
    """Return where the literal ends whose text begins at ``at``; ``found`` is None without fields."""
    while not text.startswith(quote, at):
        char = text[at]
        if char == "\\" and (found is None or text[at + 1] not in "{}"):
            named = _NAMED_ESCAPE.match(text, at + 1) if found is not None and not raw else None
            at = named.end() if named is not None else at + 2
        elif char == "{" and found is not None:
            at = at + 2 if text[at + 1] == "{" else _field(text, at + 1, quote, raw, found)
        else:
            at += 1
    return at + len(quote)


def _field(text: str, start: int, quote: str, raw: bool, found: list[Field]) -> int:
    """Record the field whose expression begins at ``start``; return where the literal goes on."""
    end = _expression(text, start)
    debug = _DEBUG.search(text, start, end)
    stop = debug.start() if debug is not None else end
    found.append(Field(start, stop, end, text[end] == "}", quote, raw))
    at = end
    while text[at] not in ":}":
        at += 1
    while text[at] != "}":
        at = _field(text, at + 1, quote, raw, found) if text[at] == "{" else at + 1
    return at + 1


def _expression(text: str, at: int) -> int:
    """Return where an expression ends: at ``}``, ``!conversion`` or ``:format``."""
    depth = 0
    ignored: list[Field] = []
    while True:
        char = text[at]
        if not depth and (char in "}:" or (char == "!" and text[at + 1] != "=")):
            return at
        depth += (char in "([{") - (char in ")]}")
        at = _step(text, at, ignored)
