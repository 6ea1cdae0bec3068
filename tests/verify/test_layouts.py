"""A wrong answer to right values in another memory layout says what the candidate takes for granted."""

from __future__ import annotations

from pathlib import Path

import pytest
from verify_tasks import HEADER, SOFTMAX_SMALL, judge

from kernel_lint.diagnostics import Reason

_FORWARD = f"{HEADER}class Model(nn.Module):\n    def forward(self, x):\n        {{}}\n"
# What a kernel does that is handed an address and takes what lies there for rows.
_IGNORES_STRIDES = "x = x.as_strided(x.shape, (x.shape[1], 1))\n        return torch.softmax(x, -1)"


def test_strides_that_are_ignored_are_named(tmp_path: Path) -> None:
    report = judge(tmp_path, SOFTMAX_SMALL, _FORWARD.format(_IGNORES_STRIDES), variants=True)
    assert not report.passed
    (stage,) = [stage for stage in report.stages if stage.stage == "correctness"]
    assert stage.reason in (Reason.VALUE, Reason.NONFINITE)
    assert "variant strided" in stage.message
    assert "the values of draw 0, which come out right, with a gap after each element" in stage.message
    assert "call .contiguous()" in stage.message


@pytest.mark.parametrize(
    "body",
    [
        "return torch.softmax(x.contiguous(), -1)",
        "assert x.is_contiguous(), 'rows only'\n        return torch.softmax(x, -1)",
    ],
)
def test_what_is_made_contiguous_or_refused_passes(tmp_path: Path, body: str) -> None:
    report = judge(tmp_path, SOFTMAX_SMALL, _FORWARD.format(body), variants=True)
    assert report.passed, report.headline


def test_a_wrong_answer_to_other_values_says_nothing_of_layouts(tmp_path: Path) -> None:
    body = "return torch.softmax(x, -1) if x.std() > 0.1 else x * 0"
    report = judge(tmp_path, SOFTMAX_SMALL, _FORWARD.format(body), variants=True)
    (stage,) = [stage for stage in report.stages if stage.stage == "correctness"]
    assert "variant constant" in stage.message
    assert "contiguous" not in stage.message
