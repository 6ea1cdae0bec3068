"""Verify for the editor, for real: an emulated race is shown at the workspace's line."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest
from integrations.workspaces import make_workspace

from kernel_lint import gate
from kernel_lint.errors import KernelLintError
from kernel_lint.integrations import lsp_verify


@pytest.mark.flydsl
@pytest.mark.slow
def test_a_race_leads_back_to_the_helper_that_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("flydsl")
    monkeypatch.setattr(gate, "best_backend", lambda: "emulate")
    folder = make_workspace(tmp_path)
    shapes = folder / "shapes.json"
    name, shape = next(iter(json.loads(shapes.read_text()).items()))
    shapes.write_text(json.dumps({name: shape}))
    helper = folder / "ops" / "reduce.py"
    source = helper.read_text()
    broken = re.sub(r"[\w.]*barrier\(\)", "pass", source, count=1)
    helper.write_text(broken)
    removed = source.splitlines().index(
        next(a for a, b in zip(source.splitlines(), broken.splitlines(), strict=True) if a != b)
    )

    outcome = asyncio.run(lsp_verify.run(folder / "kernel.py"))
    assert not outcome.passed
    races = [m for m in outcome.messages if "RACE" in m.message]
    assert races
    assert {m.path for m in races} == {helper}
    # What read too early stands right behind the barrier that is gone.
    assert all(removed < m.line - 1 <= removed + 5 for m in races)
    assert all("generated_kernel" not in m.message for m in races)
    assert len(races) <= 6


def test_without_a_backend_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "best_backend", lambda: None)
    with pytest.raises(KernelLintError, match="no verify backend"):
        asyncio.run(lsp_verify.run(tmp_path / "kernel.py"))
