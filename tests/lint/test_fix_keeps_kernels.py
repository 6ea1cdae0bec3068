"""Safe fixes leave every kernel as it was: the code objects before and after are the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kernel_lint import engine
from kernel_lint.config import Settings
from kernel_lint.diagnostics import Severity
from kernel_lint.fixes import fix_until_stable
from kernel_lint.source import SourceModule

EXAMPLE = Path(__file__).parents[2] / "examples" / "softmax"
LITTER = """
import json


def _report(model):
    print("shape", model)


def test_model():
    assert Model is not None


_UNUSED = 3

if __name__ == "__main__":
    print(_UNUSED)
"""


def _littered() -> str:
    from kernel_lint.packager import package

    text = package(EXAMPLE / "kernel.py").text
    body = "        rows = x.reshape"
    assert body in text
    return text.replace(body, '        print("forward", x.shape, x.dtype)\n' + body) + LITTER


def _kernels(text: str, folder: Path) -> dict[str, Any]:
    from kernel_lint.verify import VerifyOptions, verify

    folder.mkdir()
    candidate = folder / "generated_kernel.py"
    candidate.write_text(text, encoding="utf-8")
    report = verify(candidate, EXAMPLE, VerifyOptions(lint=False, targets=("gfx942",)))
    found = {
        (result.shape, kernel["kernel"]): kernel["code_sha256"]
        for result in report.stages
        if result.stage == "compile"
        for kernel in result.data["kernels"]
    }
    assert len(found) == 3, report.headline
    return found


@pytest.mark.flydsl
def test_safe_fixes_keep_the_code_objects(tmp_path: Path) -> None:
    before = _littered()
    module = SourceModule.from_text(before, "generated_kernel.py")
    after = fix_until_stable(module, lambda m: engine.check_module(m, Settings())).text
    left = engine.check_module(SourceModule.from_text(after, "generated_kernel.py"), Settings())
    assert {d.code for d in left if d.severity is not Severity.INFO} == set()
    assert "print(" not in after
    assert "__main__" not in after
    assert _kernels(before, tmp_path / "before") == _kernels(after, tmp_path / "after")
