"""The second kernel language: what a kernel, a launch and an import are comes from its table."""

from __future__ import annotations

from pathlib import Path

from kernel_lint import engine
from kernel_lint.config import Settings
from kernel_lint.diagnostics import Severity
from kernel_lint.source import SourceModule

KERNEL = Path(__file__).parents[2] / "examples" / "cutedsl_axpy" / "kernel.py"


def _codes(text: str, framework: str) -> set[str]:
    module = SourceModule.from_text(text, "generated_kernel.py")
    found = engine.check_module(module, Settings(framework=framework))
    return {d.code for d in found if d.severity is not Severity.INFO}


def test_a_cutedsl_candidate_is_clean_in_its_own_language() -> None:
    assert _codes(KERNEL.read_text(encoding="utf-8"), "cutedsl") == set()


def test_it_is_foreign_to_flydsl() -> None:
    assert "KL204" in _codes(KERNEL.read_text(encoding="utf-8"), "flydsl")


def test_a_dropped_launch_is_found_in_cutedsl_too() -> None:
    text = KERNEL.read_text(encoding="utf-8")
    at = text.index("class Model")
    body = text[at:].replace("return ", "return torch.empty_like(x) if True else ", 1)
    assert "KL202" in _codes(text[:at] + body, "cutedsl")
