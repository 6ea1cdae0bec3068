"""Comments and docstrings as blocks of text, for the rules that read them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernel_lint.diagnostics import Edit, Fix, Span
from kernel_lint.records import dataclass
from kernel_lint.rules._edits import removal
from kernel_lint.source.module import SourceModule


@dataclass(frozen=True, slots=True)
class Text:
    """A run of comment lines, or a string that stands as a statement or under a name.

    ``kind`` is ``comment``, ``string`` (a docstring or a string that nothing uses) or ``name``.
    ``lines`` are ``(line number, text)`` with the hash signs taken off; ``first_column`` is where the
    text begins in its first line; ``statement`` is the string's statement (None for comments).
    """

    kind: str
    lines: tuple[tuple[int, str], ...]
    first_column: int
    statement: ast.stmt | None = None

    def span(self, module: SourceModule, line: int) -> Span:
        """Return the span of one of its lines, without the indentation."""
        source = module.lines[line - 1] if 0 < line <= len(module.lines) else ""
        start = len(source) - len(source.lstrip())
        if self.kind == "comment" and line == self.lines[0][0]:
            start = self.first_column - 1
        return Span(line, start + 1, line, max(len(source.rstrip()), start) + 1)


def comment_texts(module: SourceModule) -> list[Text]:
    """Return the comments: full-line ones joined while only blank lines part them."""
    known = module.shared.get(comment_texts)
    if known is None:
        known = module.shared[comment_texts] = _comment_texts(module) if module.comments else []
    found: list[Text] = known
    return found


def _comment_texts(module: SourceModule) -> list[Text]:
    blocks: list[list[tuple[int, int, str]]] = []
    last = 0
    for line, column, text in module.comments:
        whole = not module.lines[line - 1][: column - 1].strip()
        joined = whole and last and all(not module.lines[n - 1].strip() for n in range(last + 1, line))
        if joined:
            # A blank line parts paragraphs, as an empty comment line does.
            if line > last + 1:
                blocks[-1].append((last + 1, 1, "#"))
            blocks[-1].append((line, column, text))
        else:
            blocks.append([(line, column, text)])
        last = line if whole else 0
    return [
        Text("comment", tuple((line, text[1:].removeprefix(" ")) for line, _, text in block), block[0][1])
        for block in blocks
    ]


def string_texts(module: SourceModule) -> Iterator[Text]:
    """Yield the docstrings and other strings that stand as statements."""
    for node in module.scopes.of_type(ast.Expr):
        value = node.value
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield _string(node, value)


def named_texts(module: SourceModule) -> Iterator[Text]:
    """Yield the texts that a module or class keeps under a name."""
    for node in module.scopes.of_type(ast.Assign):
        value = node.value
        if (
            isinstance(value, ast.Constant)
            and isinstance(value.value, str)
            and module.scopes.scope[node].function is None
        ):
            yield _string(node, value, "name")


def _string(statement: ast.stmt, value: ast.Constant, kind: str = "string") -> Text:
    lines = str(value.value).split("\n")
    numbered = tuple((value.lineno + index, text) for index, text in enumerate(lines))
    return Text(kind, numbered, value.col_offset + 1, statement)


def is_directive(number: int, text: str) -> bool:
    """Tell whether a comment line says something to a tool: an interpreter or an encoding line."""
    return number <= 2 and (text.startswith("!") or "coding" in text)


def comment_removal(module: SourceModule, text: Text, keep: set[int]) -> Fix:
    """Return the fix that takes the lines of a comment out, but for the lines in ``keep``."""
    edits = []
    for number, line in text.lines:
        source = module.lines[number - 1]
        if number in keep or is_directive(number, line) or not source.strip():
            continue
        column = text.first_column if number == text.lines[0][0] else len(source) - len(source.lstrip()) + 1
        before = source[: column - 1].rstrip()
        if before:
            edits.append(Edit(Span(number, len(before) + 1, number, len(source) + 1), ""))
        elif number < len(module.lines):
            edits.append(Edit(Span(number, 1, number + 1, 1), ""))
        else:
            edits.append(Edit(Span(number, 1, number, len(source) + 1), ""))
    return Fix("remove the comment", tuple(edits))


def text_removal(module: SourceModule, text: Text, keep: set[int]) -> Fix | None:
    """Return the fix that takes a comment or a docstring out; None where one must decide."""
    if text.kind == "comment":
        return comment_removal(module, text, keep)
    if isinstance(text.statement, ast.Expr) and "__doc__" not in module.text:
        return removal(module, text.statement, "the text")
    return None
