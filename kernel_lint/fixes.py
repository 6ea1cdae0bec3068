"""Applying fixes: all that do not overlap, again and again until nothing changes."""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence

from kernel_lint.diagnostics import Applicability, Diagnostic, Edit, Span
from kernel_lint.records import dataclass
from kernel_lint.source.module import SourceModule

MAX_ROUNDS = 50


@dataclass(frozen=True, slots=True)
class Fixed:
    """A text after fixes, and the findings that they resolved."""

    text: str
    applied: tuple[Diagnostic, ...]


def apply_fixes(module: SourceModule, found: Iterable[Diagnostic], *, unsafe: bool = False) -> Fixed:
    """Apply the fixes of ``found`` that do not overlap, first come first served.

    A fix is applied whole or not at all. Line ends and everything outside the edits stay
    byte for byte.
    """
    offsets = _line_offsets(module.text)
    taken: list[tuple[int, int]] = []
    edits: list[tuple[int, int, str]] = []
    applied: list[Diagnostic] = []
    blocks: _Blocks | None = None
    for diagnostic in sorted(found, key=lambda d: d.sort_key):
        fix = diagnostic.fix
        if fix is None or (fix.applicability is Applicability.UNSAFE and not unsafe):
            continue
        spans = [(*_range(module.text, offsets, edit.span), edit) for edit in fix.edits]
        if any(start < end2 and start2 < end for start, end, _ in spans for start2, end2 in taken):
            continue
        if any((start, end) in taken for start, end, _ in spans):
            continue
        removed = [(start, end) for start, end, edit in spans if not edit.replacement]
        if removed:
            blocks = blocks or _Blocks(module, offsets)
            if not blocks.take(removed):
                # The next round finds the statement alone in its block.
                continue
        taken.extend((start, end) for start, end, _ in spans)
        edits.extend((start, end, _with_line_ends(edit, module.text)) for start, end, edit in spans)
        applied.append(diagnostic)
    text = module.text
    for start, end, replacement in sorted(edits, reverse=True):
        text = text[:start] + replacement + text[end:]
    return Fixed(text, tuple(applied))


def fix_until_stable(
    module: SourceModule, check: Callable[[SourceModule], Sequence[Diagnostic]], *, unsafe: bool = False
) -> Fixed:
    """Check and fix in turns until no fix is left; what one fix lays bare, the next round mends."""
    applied: list[Diagnostic] = []
    for _ in range(MAX_ROUNDS):
        candidate, resolved = _sound(module, check(module), unsafe)
        if not resolved or candidate.text == module.text:
            break
        applied.extend(resolved)
        module = candidate
    return Fixed(module.text, tuple(applied))


class _Blocks:
    """The statements of each block: several fixes together must not take all of them out."""

    def __init__(self, module: SourceModule, offsets: list[int]) -> None:
        self._left: list[int] = []
        # Where each statement begins, the block that it is in, and where what has the block begins.
        found: list[tuple[int, int, int]] = []
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Module):
                continue
            owner = node.pattern if isinstance(node, ast.match_case) else node
            for name in ("body", "orelse", "finalbody"):
                block = getattr(node, name, None)
                if isinstance(block, list) and block:
                    begin = _range(module.text, offsets, module.span(owner))[0]
                    found += [(_begin(module, offsets, s), len(self._left), begin) for s in block]
                    self._left.append(len(block))
        self._statements = sorted(found)

    def take(self, removed: list[tuple[int, int]]) -> bool:
        """Count what lies in ``removed`` as gone; refuse when a block would be left empty by it."""
        gone: list[int] = []
        for start, end in removed:
            for begin, block, owner in self._statements[bisect_left(self._statements, (start, 0, 0)) :]:
                if begin >= end:
                    break
                if not start <= owner < end:
                    gone.append(block)
        if any(self._left[block] <= gone.count(block) for block in gone):
            return False
        for block in gone:
            self._left[block] -= 1
        return True


def _begin(module: SourceModule, offsets: list[int], statement: ast.stmt) -> int:
    decorators = getattr(statement, "decorator_list", [])
    return _range(module.text, offsets, module.span(decorators[0] if decorators else statement))[0]


def _sound(
    module: SourceModule, found: Sequence[Diagnostic], unsafe: bool
) -> tuple[SourceModule, tuple[Diagnostic, ...]]:
    """Apply fixes that together leave Python; of all at once, else of half of them, and so on.

    Each of two fixes may be right and both together wrong: they empty a block between them. One
    that breaks the file on its own is left for a person.
    """
    fixed = apply_fixes(module, found, unsafe=unsafe)
    candidate = SourceModule.from_text(fixed.text, module.path)
    if not fixed.applied or (candidate.problem is None and candidate.text == fixed.text):
        return candidate, fixed.applied
    half = len(fixed.applied) // 2
    if not half:
        return module, ()
    first = _sound(module, fixed.applied[:half], unsafe)
    return first if first[1] else _sound(module, fixed.applied[half:], unsafe)


def _line_offsets(text: str) -> list[int]:
    """Return where each line begins; lines end as Python counts them."""
    offsets = [0]
    index = 0
    while index < len(text):
        char = text[index]
        if char == "\r" and text[index + 1 : index + 2] == "\n":
            index += 1
        if char in "\r\n":
            offsets.append(index + 1)
        index += 1
    return offsets


def _range(text: str, offsets: list[int], span: Span) -> tuple[int, int]:
    def offset(line: int, column: int) -> int:
        if line > len(offsets):
            return len(text)
        return min(offsets[line - 1] + column - 1, len(text))

    return offset(span.line, span.column), offset(span.end_line, span.end_column)


def _with_line_ends(edit: Edit, text: str) -> str:
    ending = "\r\n" if "\r\n" in text else "\n"
    return edit.replacement.replace("\n", ending) if ending != "\n" else edit.replacement
