"""Verify for an editor: in a process of its own, its results as messages at lines of the sources."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel_lint import gate
from kernel_lint.diagnostics import Severity
from kernel_lint.engine import FINAL_NAME
from kernel_lint.errors import KernelLintError
from kernel_lint.integrations.lsp_documents import model_line
from kernel_lint.source.module import SourceError, SourceModule

_AT_LINE = re.compile(r" ?\bat line (\d+)\b")
_PLACE = re.compile(rf"[^\s(]*{re.escape(FINAL_NAME)}:(\d+)")
# "REASON: draw 3: ..." and "variant scaled: ...": in which of the calls it was seen.
_LABEL = re.compile(r"^([A-Z_]+: )?(?:draw|variant|repeat|shape)\b[^:]*: ")
_IN_TRACE = re.compile(rf'{re.escape(FINAL_NAME)}", line (\d+)')
_BAD = ("failed", "error")


@dataclass(frozen=True, slots=True)
class Located:
    """A message about a line of a file."""

    path: Path
    line: int
    message: str
    severity: Severity


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run said: in one sentence, and at lines."""

    passed: bool
    headline: str
    messages: tuple[Located, ...]


async def run(path: Path) -> Outcome:
    """Verify a candidate, or the workspace behind an entry, with the best backend that works here.

    Raises KernelLintError where that is impossible. An entry is packaged into a folder of its own, and
    the messages lead back to the workspace's files.
    """
    backend = await asyncio.to_thread(gate.best_backend)
    if backend is None:
        raise KernelLintError("no verify backend works here", "run kernel-lint doctor")
    with tempfile.TemporaryDirectory(prefix="kernel-lint-") as folder:
        candidate, origin = path, None
        if path.name != FINAL_NAME:
            candidate, origin = await asyncio.to_thread(_package, path, Path(folder))
        report = await _verify(candidate, path.parent, backend, Path(folder, "report.json"))
        return Outcome(
            report["exit_code"] == 0, report["headline"], tuple(locate(report, candidate, path, origin))
        )


Origin = dict[int, tuple[str, int]]


def _package(entry: Path, folder: Path) -> tuple[Path, Origin]:
    from kernel_lint import packager

    made = packager.package(entry)
    candidate = folder / FINAL_NAME
    candidate.write_text(made.text, encoding="utf-8")
    return candidate, made.provenance


async def _verify(candidate: Path, task: Path, backend: str, report: Path) -> dict[str, Any]:
    words = ["-m", "kernel_lint", "verify", str(candidate), "--task", str(task), "--backend", backend]
    words += ["--no-lint", "--quiet", "--output-format", "json", "--output-file", str(report)]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        cwd=task,
    )
    try:
        _, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    try:
        data: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        tail = errors.decode("utf-8", "replace").strip()
        raise KernelLintError(f"verify gave no report: {tail or process.returncode}") from None
    return data


def locate(report: dict[str, Any], candidate: Path, path: Path, origin: Origin | None) -> Iterator[Located]:
    """Yield what a report complains of, at the line it names or at ``class Model``.

    What several draws, variants and shapes showed at one line is one message that counts them.
    """
    fallback = _model_line(candidate)
    merged: dict[tuple[int, str, Severity], list[str]] = {}
    for stage in report["stages"]:
        for text, severity in _texts(stage):
            line = _line(text, stage) or fallback
            key = (line, f"{stage['stage']}: {_shown(text, path, origin)}", severity)
            merged.setdefault(key, []).append(str(stage["shape"] or ""))
    for (line, message, severity), shapes in merged.items():
        named = list(dict.fromkeys(filter(None, shapes)))
        times = f", {len(shapes)} times" if len(shapes) > 1 else ""
        where = f" (shape {', '.join(named)}{times})" if named else ""
        file, number = (path, line) if origin is None else _back(line, origin, path)
        yield Located(file, number, message + where, severity)


def _shown(text: str, path: Path, origin: Origin | None) -> str:
    """Return a message without the draw that showed it first, its places led back to the sources."""

    def place(match: re.Match[str]) -> str:
        line = int(match[1])
        file, line = (path, line) if origin is None else _back(line, origin, path)
        return f"{file.name}:{line}"

    return _PLACE.sub(place, _AT_LINE.sub("", _LABEL.sub(r"\1", text))).strip()


def _texts(stage: dict[str, Any]) -> Iterator[tuple[str, Severity]]:
    data = stage.get("data") or {}
    if stage["status"] in _BAD:
        findings = data.get("findings") or [{"reason": stage["reason"], "message": stage["message"]}]
        for finding in findings:
            yield f"{finding['reason']}: {finding['message']}", Severity.ERROR
    for note in data.get("notes") or []:
        yield str(note), Severity.INFO


def _line(text: str, stage: dict[str, Any]) -> int | None:
    match = _AT_LINE.search(text)
    if match is not None:
        return int(match[1])
    traced = _IN_TRACE.findall(str((stage.get("data") or {}).get("traceback", "")))
    return int(traced[-1]) if traced and stage["status"] in _BAD else None


def _model_line(candidate: Path) -> int:
    try:
        return model_line(SourceModule.read(candidate)) or 1
    except SourceError:
        return 1


def _back(line: int, origin: Origin, entry: Path) -> tuple[Path, int]:
    """Return the file and line that a packaged line is from; of a line the packager made, the next above."""
    for number in range(line, 0, -1):
        if number in origin:
            file, source_line = origin[number]
            return Path(file), source_line
    return entry, 1
