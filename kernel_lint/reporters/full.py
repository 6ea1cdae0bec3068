"""``--output-format full``: each finding with its line of source, for a person at a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from kernel_lint.diagnostics import Diagnostic, Severity
from kernel_lint.engine import CheckResult
from kernel_lint.reporters import ReportOptions
from kernel_lint.source.module import SourceError, SourceModule

_COLORS = {Severity.ERROR: "\x1b[1;31m", Severity.WARNING: "\x1b[1;33m", Severity.INFO: "\x1b[1;36m"}
_BOLD, _DIM, _RESET = "\x1b[1m", "\x1b[2m", "\x1b[0m"
_WIDTH = 160


def render(result: CheckResult, options: ReportOptions) -> str:
    """Write every finding with an excerpt, then a line that counts them."""
    sources: dict[str, list[str]] = {}
    if options.source is not None:
        sources[options.source[0]] = _readable(SourceModule.from_text(options.source[1]))
    blocks = [_block(d, _lines(d.path, sources), options.color) for d in result.diagnostics]
    return "\n".join([*blocks, _summary(result)]) + "\n"


def _lines(path: str, cache: dict[str, list[str]]) -> list[str]:
    if path not in cache:
        from pathlib import Path

        try:
            cache[path] = _readable(SourceModule.read(Path(path)))
        except SourceError:
            cache[path] = []
    return cache[path]


def _readable(module: SourceModule) -> list[str]:
    """Return a module's lines; none of one whose bytes are no text, whose places are in its bytes."""
    return module.lines if module.text else []


def _block(d: Diagnostic, lines: list[str], color: bool) -> str:
    paint = _painted if color else _plain
    place = paint(_BOLD, f"{_clean(d.path)}:{d.span.line}:{d.span.column}")
    severity = paint(_COLORS[d.severity], d.severity.value)
    out = [f"{place}: {severity} {paint(_BOLD, d.code)} {d.name}: {_clean(d.message)}"]
    if 0 < d.span.line <= len(lines):
        out.extend(_excerpt(d, lines[d.span.line - 1], paint))
    if d.help:
        out.append(f"  {paint(_BOLD, 'help')}: {_clean(d.help)}")
    if d.fix:
        flag = "--fix" if d.fix.applicability.value == "safe" else "--unsafe-fixes"
        out.append(f"  {paint(_BOLD, 'fix')}: {d.fix.message} ({flag})")
    return "\n".join(out) + "\n"


def _painted(code: str, text: str) -> str:
    return f"{code}{text}{_RESET}"


def _plain(_code: str, text: str) -> str:
    return text


def _excerpt(d: Diagnostic, line: str, paint: Callable[[str, str], str]) -> list[str]:
    start = d.span.column - 1
    end = d.span.end_column - 1 if d.span.end_line == d.span.line else len(line)
    offset = 0
    if len(line) > _WIDTH:
        offset = max(0, min(start - _WIDTH // 2, len(line) - _WIDTH))
    shown = _clean(line[offset : offset + _WIDTH].replace("\t", " "))
    marks = " " * (start - offset) + "^" * max(1, min(end, offset + _WIDTH) - start)
    gutter = str(d.span.line)
    pad = " " * len(gutter)
    return [
        paint(_DIM, f"  {pad} |"),
        f"  {paint(_DIM, gutter + ' |')} {shown}",
        f"  {paint(_DIM, pad + ' |')} {paint(_COLORS[d.severity], marks)}",
    ]


def _clean(text: str) -> str:
    """Keep control characters of a hostile file away from the terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def _summary(result: CheckResult) -> str:
    counts = Counter(d.severity for d in result.diagnostics)
    if not counts:
        checked = result.files - len(result.errors)
        files = f"{checked} file{'' if checked == 1 else 's'}"
        if not result.errors:
            return f"All clear: {files} checked."
        return f"No findings in the other {files}." if checked > 0 else "No file could be checked."
    parts = [
        f"{counts[s]} {s.value}{'' if counts[s] == 1 or s is Severity.INFO else 's'}"
        for s in Severity
        if counts[s]
    ]
    return f"Found {', '.join(parts)} in {len({d.path for d in result.diagnostics})} of {result.files} files."
