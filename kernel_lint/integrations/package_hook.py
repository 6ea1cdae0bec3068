"""Before a commit: is generated_kernel.py still what its workspace packages to?"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from kernel_lint import gate_record
from kernel_lint.engine import FINAL_NAME
from kernel_lint.errors import KernelLintError
from kernel_lint.files import replace_file
from kernel_lint.gate import ENTRY_NAME
from kernel_lint.gate_record import Packaging


def workspaces(files: Iterable[Path]) -> list[Path]:
    """Return the folders with an entry and a result that files belong to: the nearest above each, sorted."""
    found: set[Path] = set()
    for file in files:
        for folder in file.absolute().parents:
            if (folder / ENTRY_NAME).is_file() and (folder / FINAL_NAME).is_file():
                found.add(folder)
                break
            if (folder / ".git").exists():
                break
    return sorted(found)


def refresh(folder: Path) -> str:
    """Write the result anew where it is stale; return what to tell, or nothing when it was current."""
    from kernel_lint import packager

    how = gate_record.load(folder).packaging or Packaging(ENTRY_NAME)
    output = folder / FINAL_NAME
    try:
        made = packager.package(
            folder / how.entry,
            roots=[folder / root for root in how.roots],
            inline=how.inline,
            keep_comments=how.keep_comments,
        )
        if output.read_bytes() == made.text.encode():
            return ""
        replace_file(output, made.text)
    except KernelLintError as error:
        return f"{folder}: the workspace cannot be packaged: {error}"
    except OSError as error:
        return f"{output} cannot be written: {error.strerror}"
    return f"{output} was stale and is written anew: verify it, then stage it"
