"""Candidates that launch kernels and compute otherwise: found by a call in which no kernel runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from flydsl_candidate import DOUBLE, SOURCE
from verify_tasks import judge, task

from kernel_lint.diagnostics import Reason
from kernel_lint.verify import Verdict

pytestmark = pytest.mark.flydsl

_EMULATED = {"backend": "emulate", "require_launch": True, "timeout": 120.0}
_RETURN = "        return out\n"


@pytest.mark.parametrize(
    "instead",
    [
        "        return torch.from_numpy(x.numpy() * 2)\n",
        "        out.numpy()[:] = x.numpy() * 2\n        return out\n",
        "        return torch.tensor([value * 2 for value in x.tolist()])\n",
        "        made = []\n        worker = threading.Thread(target=lambda: made.append(x * 2))\n"
        "        worker.start()\n        worker.join()\n        return made[0]\n",
    ],
)
def test_outputs_that_no_kernel_computes_are_found(instead: str, tmp_path: Path) -> None:
    source = "import threading\n" + SOURCE.replace(_RETURN, instead)
    report = judge(tmp_path, DOUBLE, source, **_EMULATED)
    assert report.reason is Reason.NO_LAUNCH, report.headline
    assert "the same, bit for bit, when no kernel runs" in report.headline


def test_outputs_that_kernels_compute_pass(tmp_path: Path) -> None:
    report = judge(tmp_path, DOUBLE, SOURCE, **_EMULATED)
    assert report.verdict is Verdict.PASS, report.headline


def test_an_answer_that_never_changes_is_no_sign(tmp_path: Path) -> None:
    """It adds up how often x is above 1000, in a buffer of zeros: none ever is."""
    reference = "class Model(nn.Module):\n    def forward(self, x):\n        return x * 0\n"
    zeros = task(reference, DOUBLE.inputs.replace("randn", "rand"), {"even": {"count": 256}})
    source = SOURCE.replace("held.load() * 2.0", "held.load() * 0.0").replace("empty_like", "zeros_like")
    report = judge(tmp_path, zeros, source, **_EMULATED)
    assert report.verdict is Verdict.PASS, report.headline


def test_a_call_that_cannot_do_without_its_kernels_is_noted(tmp_path: Path) -> None:
    source = SOURCE.replace(
        _RETURN, "        assert not torch.isnan(out).any(), 'unwritten'\n        return out\n"
    )
    report = judge(tmp_path, DOUBLE, source, **_EMULATED, torch_share=2.0)
    assert report.verdict is Verdict.PASS, report.headline
    [notes, *_] = [stage.data["notes"] for stage in report.stages if stage.stage == "correctness"]
    assert "draw 0 failed without its kernels, so what they do was not looked at" in notes
