"""Syntax errors in words: the parser's message, and the usual cause where one can be named."""

from __future__ import annotations

import io
import tokenize
import unicodedata
from collections.abc import Sequence

from kernel_lint.diagnostics import Span
from kernel_lint.source.module import SyntaxProblem

_MARKERS = ("<<<<<<< ", "=======", ">>>>>>> ", "||||||| ")


def declared_encoding(data: bytes) -> str:
    """Return the encoding that the file's cookie declares; raises SyntaxError when unknown."""
    return tokenize.detect_encoding(io.BytesIO(data).readline)[0]


def explain_syntax_error(error: SyntaxError, lines: Sequence[str]) -> SyntaxProblem:
    """Turn a SyntaxError into a place and, where it can be told, the usual cause."""
    line = min(max(error.lineno or 1, 1), max(len(lines), 1))
    column = max(error.offset or 1, 1)
    end_line = max(error.end_lineno or line, line)
    end_column = max(error.end_offset or column + 1, 1)
    if (end_line, end_column) <= (line, column):
        end_line, end_column = line, column + 1
    cause_line, cause = _usual_cause(error, lines, line)
    if cause_line is not None and cause_line != line:
        line = end_line = cause_line
        column, end_column = 1, len(lines[line - 1]) + 1
    return SyntaxProblem(error.msg or "invalid syntax", Span(line, column, end_line, end_column), cause)


def _usual_cause(error: SyntaxError, lines: Sequence[str], line: int) -> tuple[int | None, str]:
    for number, text in enumerate(lines, start=1):
        bare = text.strip()
        if bare.startswith(("```", "~~~")):
            return number, "a Markdown fence: keep the code, remove the fence lines"
        if text.startswith((_MARKERS[0], _MARKERS[2])):
            return number, "a merge conflict marker: choose one side and remove the markers"
    text = lines[line - 1] if line <= len(lines) else ""
    odd = next((c for c in text if ord(c) > 127 and _looks_like_punctuation(c)), None)
    if odd is not None and error.msg and ("invalid" in error.msg or "unterminated" in error.msg):
        name = unicodedata.name(odd, "an odd character").lower()
        return (
            line,
            f"{odd!r} ({name}) where ASCII punctuation belongs: text pasted from a document or a chat",
        )
    if isinstance(error, TabError):
        return line, "tabs and spaces mixed in indentation: use four spaces"
    if isinstance(error, IndentationError):
        return line, "indentation that matches no open block: use four spaces a level"
    if _looks_like_prose(text):
        return line, "a line of prose: a generated kernel holds source code only"
    if error.msg and "was never closed" in error.msg:
        return line, "the file may have been cut off: check that its end is there"
    return None, ""


def _looks_like_punctuation(char: str) -> bool:
    return unicodedata.category(char) in ("Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Zs", "Cf")


def _looks_like_prose(text: str) -> bool:
    words = text.strip().rstrip(".:!?").split()
    return len(words) >= 4 and all(
        word.strip(",;'\"()`*").replace("-", "").replace("'", "").isalpha() for word in words
    )
