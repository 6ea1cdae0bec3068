"""One result with everything that a format can stumble over."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernel_lint.diagnostics import Applicability, Diagnostic, Edit, Fix, Severity, Span
from kernel_lint.engine import CheckResult, FileError

SOURCE = 'import torch\nprint("é", 1)\nx = (\n    2\n)\nprint("é", 1)\n'


@pytest.fixture
def result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CheckResult:
    """Findings in two files, of all severities, with hostile paths and texts; one unreadable file."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "ops" / "a,b: é%.py"
    path.parent.mkdir()
    path.write_text(SOURCE, encoding="utf-8")
    fix = Fix("remove the output", (Edit(Span(2, 1, 2, 14), "pass"),), Applicability.SAFE)
    message = "100% wrong:\r\n`a;b]`, <c> & \x1b\ud800"
    name = "debug-output"
    found = (
        Diagnostic(
            "KL102", name, Severity.ERROR, message, str(path), Span(2, 7, 2, 10), ("X2",), "mend it", fix
        ),
        Diagnostic("KL109", "placeholder", Severity.WARNING, "several lines", str(path), Span(3, 1, 5, 2)),
        Diagnostic("KL102", name, Severity.ERROR, message, str(path), Span(6, 7, 6, 10), ("X2",)),
        Diagnostic("KL203", "torch-compute", Severity.INFO, "a note", "/elsewhere/b.py", Span(1, 1, 1, 2)),
    )
    return CheckResult(found, (FileError("ops/gone.py", "does not exist", "check the spelling"),), 3)
