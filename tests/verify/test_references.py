"""References that draw random numbers, contradict themselves or change their inputs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from verify_tasks import judge, task

from kernel_lint.diagnostics import Reason
from kernel_lint.verify import Verdict
from kernel_lint.verify.draws import Draws, Replay, UnrepeatableError

MAKE = 'def _make_inputs(rows, columns):\n    return {"x": torch.randn(rows, columns)}\n'
NOISE = "return x + torch.randn_like(x)"
DROPOUT = "return nn.functional.dropout(x, 0.5, True)"
GENERATOR = (
    "g = torch.Generator().manual_seed(3)\nreturn x + torch.randn(x.shape, dtype=x.dtype, generator=g)"
)


def model(body: str) -> str:
    """A Model on ``x`` whose forward has these statements."""
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    return f"class Model(nn.Module):\n    def forward(self, x):\n{lines}"


def source(body: str) -> str:
    """A whole candidate."""
    return f"import torch\nfrom torch import nn\n\n\n{model(body)}"


@pytest.mark.parametrize("reference", [NOISE, DROPOUT, GENERATOR])
def test_candidate_that_draws_alike_passes(reference: str, tmp_path: Path) -> None:
    report = judge(tmp_path, task(model(reference), MAKE), source(reference), seeds=3, variants=True)
    assert report.verdict is Verdict.PASS, report.headline


@pytest.mark.parametrize("reference", [NOISE, DROPOUT, GENERATOR])
@pytest.mark.parametrize("wrong", ["return torch.zeros_like(x)", "return x * 1.0"])
def test_what_the_reference_draws_is_no_tolerance(reference: str, wrong: str, tmp_path: Path) -> None:
    report = judge(tmp_path, task(model(reference), MAKE), source(wrong))
    assert report.reason is Reason.VALUE, report.headline


@pytest.mark.parametrize(
    "reference",
    [
        "import os\nreturn x * 2 + int.from_bytes(os.urandom(2), 'little')",
        "self.calls = getattr(self, 'calls', 0) + 1\nreturn x * self.calls",
        "import random\nreturn x * random.SystemRandom().random()",
    ],
)
def test_reference_that_contradicts_itself_judges_nothing(reference: str, tmp_path: Path) -> None:
    report = judge(tmp_path, task(model(reference), MAKE), source("return x * 2"))
    assert (report.reason, report.exit_code) == (Reason.INVALID_TASK, 2), report.headline
    assert report.headline.startswith("INVALID_TASK: reference.py: Model.forward")
    assert "first " in report.headline


def test_candidate_may_change_the_inputs_that_the_reference_changes(tmp_path: Path) -> None:
    in_place = "x.mul_(2)\nreturn x + 0"
    report = judge(tmp_path, task(model(in_place), MAKE), source(in_place))
    assert report.verdict is Verdict.PASS, report.headline
    notes = next(stage.data["notes"] for stage in report.stages if stage.stage == "integrity")
    assert notes == [
        "the reference changes its input['x'] in place, so the candidate may; "
        "what it leaves there is not compared"
    ]


def test_candidate_need_not_change_the_inputs_that_the_reference_changes(tmp_path: Path) -> None:
    report = judge(tmp_path, task(model("x.mul_(2)\nreturn x + 0"), MAKE), source("return x * 2"))
    assert report.verdict is Verdict.PASS, report.headline


def test_draws_are_given_again_in_another_dtype() -> None:
    x = torch.ones(4)
    with Draws() as draws:
        first = nn.functional.dropout(x, 0.5, True) + torch.randn_like(x)
    with Replay(draws):
        again = nn.functional.dropout(x.double(), 0.5, True) + torch.randn_like(x.double())
    assert again.dtype == torch.float64
    assert torch.equal(again.float(), first)


def test_other_draws_than_the_recorded_ones_are_refused() -> None:
    with Draws() as draws:
        torch.randn(4)
    with pytest.raises(UnrepeatableError), Replay(draws):
        torch.rand(4)
    with pytest.raises(UnrepeatableError), Replay(Draws()):
        torch.rand(4)


def test_attention_without_dropout_draws_nothing() -> None:
    q = torch.randn(1, 2, 8, 16)
    with Draws() as draws:
        nn.functional.scaled_dot_product_attention(q, q, q)
        nn.functional.dropout(q, 0.5, False)
    assert draws.made == []
