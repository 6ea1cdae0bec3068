"""The one place where verify calls the linter."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kernel_lint.diagnostics import Diagnostic
from kernel_lint.errors import KernelLintError


def lint_findings(candidate: Path, reference: Path, framework: str | None = None) -> list[Diagnostic]:
    """Return what the linter finds in a candidate, held to what a final file must be.

    ``framework`` is the kernel language; None leaves it to the configuration.

    Raises :class:`KernelLintError` when the linter cannot read the file.
    """
    from kernel_lint import config, engine

    settings = replace(config.load(candidate), final=True, reference=str(reference))
    if framework is not None:
        settings = replace(settings, framework=framework)
    result = engine.check_paths([candidate], settings)
    if result.errors:
        raise KernelLintError(f"{candidate.name} {result.errors[0].message}", result.errors[0].remedy)
    return list(result.diagnostics)
