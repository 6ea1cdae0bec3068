"""A workspace that packages cleanly, and verdicts on it without running anything."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from kernel_lint import gate_record, packager
from kernel_lint.verify import Verdict, VerifyReport

EXAMPLE = Path(__file__).parents[2] / "examples" / "softmax"


def make_workspace(folder: Path) -> Path:
    """Copy the softmax example; return its folder."""
    target = folder / "softmax"
    ignore = shutil.ignore_patterns("generated_kernel*", "__pycache__", ".kernel-lint", "limitations.json")
    shutil.copytree(EXAMPLE, target, ignore=ignore)
    return target


def package_into(folder: Path) -> Path:
    """Write generated_kernel.py and remember how, as ``kernel-lint package`` does."""
    candidate = folder / "generated_kernel.py"
    candidate.write_text(packager.package(folder / "kernel.py").text, encoding="utf-8")
    gate_record.remember_packaging(candidate, folder / "kernel.py", (), ())
    return candidate


def remember(candidate: Path, verdict: Verdict = Verdict.PASS, **changes: Any) -> None:
    """Remember a verdict on the candidate as it is."""
    fields: dict[str, Any] = {
        "verdict": verdict,
        "candidate": str(candidate),
        "task": str(candidate.parent),
        "backend": "emulate",
        "description": "emulated gfx942",
        "targets": ("gfx942",),
        "shapes": ("vector_bf16", "tail_f32", "odd_f16"),
        "stages": (),
    }
    report = VerifyReport(**{**fields, **changes})
    gate_record.remember_verdict(candidate, candidate.read_bytes(), candidate.parent, report)
