"""Where things stand in a module's text: offsets, comments, and lines inside strings."""

from __future__ import annotations

import ast
import bisect
import itertools
import operator
import re
import sys

from kernel_lint.packager.model import Module, Unit

# Comments and strings of valid Python before 3.12, where a string cannot hold its own quotes. That each
# alternative begins with a character of its own lets a search pass over all others at once.
_TEXT = re.compile(
    r"""#[^\n]*|\"\"\"[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*\"\"\"|'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'''"""
    r"""|"[^"\\\n]*(?:\\.[^"\\\n]*)*"|'[^'\\\n]*(?:\\.[^'\\\n]*)*'""",
    re.DOTALL,
)
# The start of a string whose text may hold expressions (f-strings; t-strings from 3.14 on).
_FORMATTED = r"""\b(?:[FfTt][Rr]?|[Rr][FfTt])["']"""


class Edit(tuple[int, int, str]):
    """Replace ``text[start:end]`` with ``text``."""

    __slots__ = ()

    def __new__(cls, start: int, end: int, text: str) -> Edit:
        return tuple.__new__(cls, (start, end, text))

    start: int = property(operator.itemgetter(0))  # type: ignore[assignment]
    end: int = property(operator.itemgetter(1))  # type: ignore[assignment]
    text: str = property(operator.itemgetter(2))  # type: ignore[assignment]


class Layout:
    """Offsets of one module, computed once, and the comments of its statements, as they are asked for."""

    def __init__(self, module: Module) -> None:
        self.text = module.text
        self.lines = module.lines
        self.starts = [0, *itertools.accumulate(len(line) + 1 for line in self.lines)]
        self._ascii = module.text.isascii()
        # Lines that start inside a string: neither indented anew nor dropped when blank. Only those of
        # statements that have been read.
        self.inside_string: set[int] = set()
        self._comments: dict[int, list[tuple[int, int]]] = {}

    def read(self, unit: Unit) -> list[tuple[int, int]]:
        """Return where the comments of a statement are, and note its lines that start inside a string.

        The comments are those of the whole module-level statement that the unit is part of.
        """
        while unit.parent is not None:
            unit = unit.parent
        found = self._comments.get(id(unit))
        if found is None:
            start, end = self.start(unit.node), self.end(unit.node)
            # From 3.12 on, what an f-string holds may have quotes and comments of its own.
            nested = sys.version_info >= (3, 12) and re.search(_FORMATTED, self.text[start:end])
            found = self._tokens(start, end) if nested else self._scan(start, end)
            self._comments[id(unit)] = found
        return found

    def _scan(self, start: int, end: int) -> list[tuple[int, int]]:
        comments = []
        for match in _TEXT.finditer(self.text, start, end):
            found, at = match[0], match.start()
            if found[0] == "#":
                comments.append((at, at + len(found.rstrip())))
            elif "\n" in found:
                first = self.line_of(at)
                self.inside_string.update(range(first + 1, first + found.count("\n") + 1))
        return comments

    def _tokens(self, begin: int, finish: int) -> list[tuple[int, int]]:
        import io
        import tokenize

        starting, ending = (getattr(tokenize, f"FSTRING_{name}") for name in ("START", "END"))
        comments = []
        begun: list[int] = []
        above = self.line_of(begin) - 1  # lines before the text
        if not self.text[self.starts[above] : begin].strip():
            begin = self.starts[above]  # the other lines are indented as the first one
        starts = [begin, *self.starts[above + 1 :]]
        for token in tokenize.generate_tokens(io.StringIO(self.text[begin:finish]).readline):
            kind = token.type
            if kind == tokenize.COMMENT:
                start = starts[token.start[0] - 1] + token.start[1]
                comments.append((start, start + len(token.string.rstrip("\r"))))
            elif kind == tokenize.STRING:
                self.inside_string.update(range(above + token.start[0] + 1, above + token.end[0] + 1))
            elif kind == starting:
                begun.append(token.start[0])
            elif kind == ending:
                self.inside_string.update(range(above + begun.pop() + 1, above + token.end[0] + 1))
        return comments

    def offset(self, line: int, column: int) -> int:
        """Return the offset of a syntax tree position (line from 1, column in UTF-8 bytes)."""
        if not self._ascii:
            text = self.lines[line - 1]
            if not text.isascii():
                column = len(text.encode()[:column].decode())
        return self.starts[line - 1] + column

    def start(self, node: ast.AST) -> int:
        """Return where a node starts; a decorated definition starts at its first decorator's ``@``."""
        decorators = getattr(node, "decorator_list", None)
        if decorators:
            first = decorators[0]
            at = self.offset(first.lineno, first.col_offset)
            return self.text.rindex("@", 0, at)
        return self.offset(node.lineno, node.col_offset)  # type: ignore[attr-defined]

    def end(self, node: ast.AST) -> int:
        """Return where a node ends."""
        return self.offset(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def source(self, node: ast.AST) -> str:
        """Return the text of a node."""
        return self.text[self.offset(node.lineno, node.col_offset) : self.end(node)]  # type: ignore[attr-defined]

    def line_of(self, offset: int) -> int:
        """Return the line, from 1, of an offset."""
        return bisect.bisect_right(self.starts, offset)

    def alone(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the whole lines around a span if nothing else but a comment is on them."""
        first = self.starts[self.line_of(start) - 1]
        last_line = self.line_of(end)
        last = self.starts[last_line]
        before, after = self.text[first:start], self.text[end : last - 1].strip()
        if before.strip() or (after and not after.startswith("#")):
            return None
        return first, min(last, len(self.text))


def apply_edits(text: str, start: int, end: int, edits: list[Edit], first_line: int) -> list[tuple[str, int]]:
    """Return the edited ``text[start:end]`` as lines, each with the line that it comes from.

    An edit inside another one is dropped; ``first_line`` is the line of ``start``.
    """
    chosen: list[Edit] = []
    for edit in sorted(dict.fromkeys(edits), key=lambda item: (item[0], -item[1])):
        if chosen and edit.start < chosen[-1].end:
            continue
        chosen.append(edit)
    lines: list[tuple[str, int]] = []
    current, origin, line, position = "", first_line, first_line, start

    def write(chunk: str, moves: bool) -> None:
        nonlocal current, origin, line
        parts = chunk.split("\n")
        for index, part in enumerate(parts):
            if index:
                lines.append((current, origin))
                current = ""
                line += moves
                origin = line
            elif not current:
                origin = line
            current += part

    for edit in chosen:
        write(text[position : edit.start], True)
        write(edit.text, False)
        line += text.count("\n", edit.start, edit.end)
        if not current:
            origin = line
        position = edit.end
    write(text[position:end], True)
    lines.append((current, origin))
    return lines
