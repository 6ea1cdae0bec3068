"""Renaming inside strings that hold code: f-strings and quoted annotations."""

from __future__ import annotations

import ast

from kernel_lint import TYPE_CHECKING
from kernel_lint.packager.fstrings import Field, fields

if TYPE_CHECKING:
    from collections.abc import Iterator

_Edits = list[tuple[int, int, str]]


def rewrite_string(source: str, mapping: dict[str, str], annotation: bool) -> str:
    """Return the string expression ``source`` with names replaced.

    ``mapping`` maps a name or a dotted chain to what is written instead. An annotation's
    string is read as an expression, an f-string's replacement fields are edited in place.
    """
    if annotation:
        text = _rewrite(ast.literal_eval(source).strip(), mapping)
        return repr(text) if '"' in text else f'"{text}"'
    if source.rstrip().endswith("'"):
        mapping = {old: _other_quotes(new) for old, new in mapping.items()}
    return _rewrite_fields(source, mapping)


def _other_quotes(text: str) -> str:
    """Return a string literal in double quotes, so that it can stand in a single-quoted f-string."""
    if not text.startswith("'"):
        return text
    import json

    return json.dumps(ast.literal_eval(text))


def _rewrite_fields(source: str, mapping: dict[str, str]) -> str:
    edits: _Edits = []
    for field in fields(source):
        old = source[field.start : field.stop]
        new = _rewrite(old, mapping)
        if new == old:
            continue
        if field.stop == field.end:
            edits.append((field.start, field.stop, new))
        else:
            # {name=} shows the source text: write the text, then the value.
            value = new.strip() + ("!r" if field.plain else "")
            opening = "{ " if value.startswith("{") else "{"
            edits.append((field.start - 1, field.end, _shown(source, field) + opening + value))
    return _apply(source, edits)


def _shown(source: str, field: Field) -> str:
    """Return the text that ``{value=}`` shows before the value, as literal text."""
    text = source[field.start : field.end].replace("{", "{{").replace("}", "}}")
    return text if field.raw else text.replace("\\", "\\\\").replace(field.quote, "\\" + field.quote)


def _rewrite(code: str, mapping: dict[str, str]) -> str:
    """Return an expression with names replaced, wherever in it they stand."""
    if not any(name in code for name in mapping):
        return code
    tree = ast.parse(f"(\n{code}\n)", mode="eval")
    lines = code.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)

    def offset(line: int, column: int) -> int:
        return starts[line - 2] + len(lines[line - 2].encode()[:column].decode())

    def span(node: ast.expr | ast.arg) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return offset(node.lineno, node.col_offset), offset(node.end_lineno, node.end_col_offset)

    edits: _Edits = []
    for node in _replaced(tree.body, mapping):
        start, end = span(node)
        if isinstance(node, ast.JoinedStr):
            edits.append((start, end, _rewrite_fields(code[start:end], mapping)))
        elif isinstance(node, ast.arg):
            edits.append((start, start + len(node.arg), mapping[node.arg]))
        else:
            edits.append((start, end, mapping[_dotted(node) or ""]))
    return _apply(code, edits)


def _replaced(node: ast.AST, mapping: dict[str, str]) -> Iterator[ast.expr | ast.arg]:
    """Yield the names and chains to replace, a lambda's parameters included, and f-strings whole."""
    if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.expr) and _dotted(node) in mapping):
        yield node
        return
    if isinstance(node, ast.arg) and node.arg in mapping:
        yield node
    for child in ast.iter_child_nodes(node):
        yield from _replaced(child, mapping)


def _dotted(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = _dotted(node.value)
        return None if owner is None else f"{owner}.{node.attr}"
    return None


def _apply(text: str, edits: _Edits) -> str:
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text
