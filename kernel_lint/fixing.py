"""Fixing files: the command line's ``--fix`` and ``--diff``."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from kernel_lint import engine
from kernel_lint.config import Settings
from kernel_lint.files import replace_bytes
from kernel_lint.fixes import Fixed, fix_until_stable
from kernel_lint.records import dataclass
from kernel_lint.source.module import SourceError, SourceModule
from kernel_lint.task import TaskFiles, read_task

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class FixOutcome:
    """How many findings were resolved, the changes as a unified diff, and what failed."""

    applied: int
    diff: str
    errors: tuple[engine.FileError, ...]


def fix_module(
    module: SourceModule, settings: Settings, *, unsafe: bool, task: TaskFiles | None = None
) -> Fixed:
    """Return the text of a module after all its fixes."""
    return fix_until_stable(module, lambda m: engine.check_module(m, settings, task=task), unsafe=unsafe)


def fix_files(paths: Sequence[Path | str], settings: Settings, *, unsafe: bool, write: bool) -> FixOutcome:
    """Fix files in place (or only say how, without ``write``); one that fails stays as it was."""
    task = read_task(Path(settings.reference)) if settings.reference else None
    applied, diffs, errors = 0, [], []
    for path in engine.expand_paths(paths, settings):
        try:
            module = SourceModule.read(path, max_bytes=settings.max_file_size)
        except SourceError as error:
            errors.append(engine.FileError(path, error.message, error.remedy))
            continue
        try:
            fixed = fix_module(module, settings, unsafe=unsafe, task=task)
        except (RecursionError, engine.RuleFailureError) as error:
            errors.append(engine.unanalysed(path, error))
            continue
        if fixed.text == module.text:
            continue
        diffs.append(unified_diff(path, module.text, fixed.text))
        try:
            if write:
                replace_bytes(Path(path), encoded(module, fixed.text))
            applied += len(fixed.applied)
        except OSError as error:
            reason = error.strerror or str(error)
            errors.append(engine.FileError(path, f"cannot be written: {reason}", "check its permissions"))
    return FixOutcome(applied, "".join(diffs), tuple(errors))


def encoded(module: SourceModule, text: str) -> bytes:
    """Encode a text as the file was: same encoding, same byte order mark."""
    if text == module.text:
        # Also where the bytes could not be decoded, and the text is therefore empty.
        return module.data
    if module.data.startswith(_BOM):
        return _BOM + text.encode()
    return SourceModule.from_text(text).data


def unified_diff(name: str, before: str, after: str) -> str:
    """Return the change as a unified diff that ``patch`` takes."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    lines = difflib.unified_diff(old, new, name, name)
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )
