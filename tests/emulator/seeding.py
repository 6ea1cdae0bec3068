"""Loads the kernels of ``seeded/``, as they are or with a mistake put in, and runs them in the emulator."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("seeded")


@dataclass(frozen=True)
class Outcome:
    """What a run gave: the largest difference, and (reason, severity, line text) of each finding."""

    difference: float
    findings: tuple[tuple[str, str, str], ...]


def run(folder: Path, name: str, config: dict[str, Any], old: str = "", new: str = "") -> Outcome:
    """Write the kernel to ``folder`` with ``old`` replaced by ``new`` once, and run its ``case``."""
    import torch

    from kernel_lint.emulator import EmulatorOptions, install

    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    if old:
        assert text.count(old) >= 1, f"{name}.py has no {old!r}"
        text = text.replace(old, new, 1)
    path = folder / f"seeded_{name}.py"
    path.write_text(text, encoding="utf-8")
    module = load(path)
    torch.manual_seed(1)
    with install(EmulatorOptions()) as session:
        out, expected = module.case(**config)
        found = session.found()
    lines = text.splitlines()
    findings = tuple(
        (
            f.reason.value,
            f.severity.value,
            lines[f.place.line - 1].strip() if f.place.file == str(path) else str(f.place),
        )
        for f in found
    )
    gap = (out.double() - expected.double()).abs().max()
    return Outcome(float(gap) if gap == gap else float("inf"), findings)


def load(path: Path) -> Any:
    """Import a file afresh."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
