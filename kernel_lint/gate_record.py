"""What was done to a candidate, remembered beside it: how it was packaged and how verify judged it.

The record lies in ``.kernel-lint/record.json`` in the candidate's folder and names every file by the hash
of its contents, so that an old verdict never speaks for a new file. It is a memory, not a proof: who can
write the folder can write the record. ``kernel-lint gate --verify`` judges anew.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from kernel_lint import TYPE_CHECKING
from kernel_lint.errors import KernelLintError
from kernel_lint.files import replace_file
from kernel_lint.records import dataclass, fields

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from kernel_lint.verify import VerifyReport

FINAL_NAME = "generated_kernel.py"
FOLDER_NAME = ".kernel-lint"
RECORD_NAME = "record.json"
SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Packaging:
    """The arguments that the candidate was packaged with; paths are relative to its folder."""

    entry: str
    roots: tuple[str, ...] = ()
    inline: tuple[str, ...] = ()
    keep_comments: bool = False


@dataclass(frozen=True, slots=True)
class Verified:
    """One backend's last verdict. ``candidate`` and ``task`` are hashes of contents.

    ``performance`` tells whether a time was measured; ``relaxed`` lists rules that the run left out.
    """

    backend: str
    verdict: str
    headline: str
    candidate: str
    task: str
    shapes: tuple[str, ...]
    targets: tuple[str, ...]
    relaxed: tuple[str, ...] = ()
    performance: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    """Everything remembered about the candidate of one folder."""

    packaging: Packaging | None = None
    verified: tuple[Verified, ...] = ()


def state_folder(folder: Path) -> Path:
    """Return the folder for our own files, made where it is missing; git ignores what is in it.

    Raises OSError.
    """
    path = folder / FOLDER_NAME
    path.mkdir(exist_ok=True)
    ignore = path / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")
    return path


def load(folder: Path) -> Record:
    """Return what is remembered; a missing or damaged record remembers nothing."""
    try:
        data = json.loads((folder / FOLDER_NAME / RECORD_NAME).read_text(encoding="utf-8"))
        if data["schema_version"] != SCHEMA_VERSION:
            return Record()
        packaging = data["packaging"]
        return Record(
            Packaging(**_tuples(packaging)) if packaging else None,
            tuple(Verified(**_tuples(item)) for item in data["verified"]),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Record()


def _tuples(data: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in data.items()}


def remember_packaging(
    output: Path, entry: Path, roots: Sequence[Path], inline: Sequence[str], keep_comments: bool = False
) -> None:
    """Remember how ``output`` was made, so that the gate can make it again and compare.

    Does nothing for a file of another name than the one that is handed in.
    """
    folder = output.parent
    if output.name != FINAL_NAME:
        return
    made = Packaging(
        _relative(entry, folder),
        tuple(_relative(root, folder) for root in roots),
        tuple(inline),
        keep_comments,
    )
    _store(folder, Record(made, load(folder).verified))


def remember_verdict(candidate: Path, source: bytes, task: Path, report: VerifyReport) -> None:
    """Remember a finished verify run of ``source``, the bytes that were judged as ``candidate``.

    Does nothing for a file of another name than the one that is handed in.
    """
    from kernel_lint.verify.contract import load_task

    if candidate.name != FINAL_NAME:
        return
    try:
        digest = load_task(task).digest
    except KernelLintError:
        # A broken task judges nothing; there is no verdict to remember.
        return
    measured = any(r.stage == "performance" and r.status.value == "passed" for r in report.stages)
    verdict = Verified(
        report.backend,
        report.verdict.value,
        report.headline,
        hash_of(source),
        digest,
        report.shapes,
        report.targets,
        report.relaxed,
        measured,
    )
    known = load(candidate.parent)
    others = tuple(v for v in known.verified if v.backend != verdict.backend)
    _store(candidate.parent, Record(known.packaging, (*others, verdict)))


def hash_of(data: bytes) -> str:
    """Return the hash that the record knows contents by."""
    import hashlib

    return hashlib.sha256(data).hexdigest()


def _values(item: Packaging | Verified) -> dict[str, Any]:
    return {field.name: getattr(item, field.name) for field in fields(item)}


def _relative(path: Path, folder: Path) -> str:
    return Path(os.path.relpath(path.absolute(), folder.absolute())).as_posix()


def _store(folder: Path, record: Record) -> None:
    packaging = None if record.packaging is None else _values(record.packaging)
    verified = [_values(item) for item in record.verified]
    data = {"schema_version": SCHEMA_VERSION, "packaging": packaging, "verified": verified}
    try:
        replace_file(state_folder(folder) / RECORD_NAME, json.dumps(data, indent=1) + "\n")
    except OSError:
        # A folder that cannot be written: the gate will say that nothing is known.
        return
