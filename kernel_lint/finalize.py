"""Finalize: package a workspace, lint and verify the result, and write it only when all pass."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernel_lint import config, engine
from kernel_lint.diagnostics import Diagnostic, Severity
from kernel_lint.errors import KernelLintError
from kernel_lint.files import replace_file
from kernel_lint.source import SourceModule
from kernel_lint.task import read_task

if TYPE_CHECKING:
    from kernel_lint.packager.report import PackageReport
    from kernel_lint.verify import VerifyOptions, VerifyReport

OUTPUT_NAME = engine.FINAL_NAME


@dataclass(frozen=True, slots=True)
class FinalizeOptions:
    """Where the workspace is and how to verify it.

    ``task`` is the folder of reference.py, input.py and shapes.json; ``output`` the file to write.
    """

    entry: Path
    task: Path
    output: Path
    verify: VerifyOptions
    roots: tuple[Path, ...] = ()
    inline: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FinalizeResult:
    """What each step said; a step that was not reached is None."""

    package: PackageReport
    diagnostics: tuple[Diagnostic, ...]
    verify: VerifyReport | None
    written: Path | None

    @property
    def lint_passed(self) -> bool:
        """Whether the packaged file has no error and no warning."""
        return not any(d.severity is not Severity.INFO for d in self.diagnostics)

    @property
    def exit_code(self) -> int:
        """0 when the file was written, 1 when a step failed, 2 when verify could not judge."""
        if self.written is not None:
            return 0
        return self.verify.exit_code if self.verify is not None and self.verify.exit_code else 1

    def to_json(self) -> dict[str, Any]:
        """Return the result as its JSON object."""
        return {
            "package": self.package.to_json(),
            "lint": [diagnostic.to_json() for diagnostic in self.diagnostics],
            "verify": self.verify.to_json() if self.verify is not None else None,
            "written": str(self.written) if self.written else None,
            "exit_code": self.exit_code,
        }


def finalize(options: FinalizeOptions, announce: Callable[[str], None] = lambda text: None) -> FinalizeResult:
    """Run the three steps in order and stop at the first that fails.

    ``announce`` is told the name of each step before it runs. Raises KernelLintError where
    packaging is impossible or the task is broken. An existing output stays as it was
    unless everything passed.
    """
    from kernel_lint import packager
    from kernel_lint.verify import verify

    announce("package")
    packaged = packager.package(options.entry, roots=options.roots, inline=options.inline)
    announce("lint")
    diagnostics = _lint(packaged.text, options)
    result = FinalizeResult(packaged.report, diagnostics, None, None)
    if not result.lint_passed:
        return result
    announce("verify")
    with tempfile.TemporaryDirectory(prefix="kernel-lint-") as folder:
        candidate = Path(folder, OUTPUT_NAME)
        candidate.write_text(packaged.text, encoding="utf-8")
        report = verify(candidate, options.task, replace(options.verify, lint=False))
    # The report is about the file that is to be written, not about its copy.
    result = replace(result, verify=replace(report, candidate=str(options.output)))
    if report.exit_code != 0:
        return result
    try:
        replace_file(options.output, packaged.text)
    except OSError as error:
        message = f"{options.output} cannot be written: {error.strerror or error}"
        raise KernelLintError(message, "choose another path with --output") from error
    return replace(result, written=options.output)


def _lint(text: str, options: FinalizeOptions) -> tuple[Diagnostic, ...]:
    settings = replace(config.load(options.entry), final=True)
    reference = options.task / "reference.py"
    task = read_task(reference) if reference.is_file() else None
    module = SourceModule.from_text(text, OUTPUT_NAME)
    return tuple(engine.check_module(module, settings, task=task))
