"""Outputs that zeros would pass for prove nothing: counted, told, and never taken for a pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from comparing import leaf, noise
from verify_tasks import HEADER, judge, task

from kernel_lint.diagnostics import Reason, StageResult
from kernel_lint.verify import Verdict, VerifyReport
from kernel_lint.verify.compare import compare
from kernel_lint.verify.compare_policy import AllClose, Contract, Policy
from kernel_lint.verify.evidence import evidence
from kernel_lint.verify.inputs import perturbed

_EQUAL = "def _make_inputs(rows, columns):\n    return {'x': torch.rand(rows, 1).repeat(1, columns)}\n"
_DRAWN = "def _make_inputs(rows, columns):\n    return {'x': torch.randn(rows, columns)}\n"
_SHAPES = {"only": {"rows": 6, "columns": 100}}


def _model(expression: str) -> str:
    return f"class Model(nn.Module):\n    def forward(self, x):\n        return {expression}\n"


_CENTRED = "x - x.mean(-1, keepdim=True)"


def _run(folder: Path, reference: str, candidate: str, inputs: str = _DRAWN, **options: Any) -> VerifyReport:
    return judge(
        folder, task(_model(reference), inputs, _SHAPES), HEADER + _model(candidate), variants=True, **options
    )


def _correctness(report: VerifyReport) -> StageResult:
    [stage] = [stage for stage in report.stages if stage.stage == "correctness"]
    return stage


@pytest.mark.parametrize("candidate", [_CENTRED, "torch.zeros_like(x)"], ids=["right", "zeros"])
@pytest.mark.parametrize("tolerance", ["calibrated", "allclose:rtol=1e-2,atol=1e-2"])
def test_rounding_noise_judges_no_one(candidate: str, tolerance: str, tmp_path: Path) -> None:
    report = _run(tmp_path, _CENTRED, candidate, _EQUAL, tolerance=tolerance)
    assert (report.verdict, report.exit_code) == (Verdict.INVALID_TASK, 2), report.headline
    assert 'shapes.json: "only": none of 12 cases can tell a right answer from zeros' in report.headline
    assert "have input.py draw values that give other outputs" in report.headline


def test_noise_is_judged_where_the_tolerance_can(tmp_path: Path) -> None:
    """The contract's norm is relative: zeros err by all of it."""
    zeros = _run(tmp_path, _CENTRED, "torch.zeros_like(x)", _EQUAL, tolerance="contract")
    assert zeros.reason is Reason.VALUE
    assert _run(tmp_path, _CENTRED, _CENTRED, _EQUAL, tolerance="contract").verdict is Verdict.PASS


def test_ordinary_values_tell(tmp_path: Path) -> None:
    report = _run(tmp_path, _CENTRED, _CENTRED)
    assert report.verdict is Verdict.PASS
    assert "zeros" not in report.headline
    stage = _correctness(report)
    assert "zeros" not in stage.message
    assert stage.data["untold"] == []
    [note] = [note for note in stage.data["notes"] if "from zeros" in note]
    assert note == "only 10 of 12 cases can tell a right answer from zeros: variant constant, variant zeros"
    assert _run(tmp_path, _CENTRED, "torch.zeros_like(x)").reason is Reason.VALUE


def test_a_draw_that_tells_nothing_is_in_the_line_of_the_shape(tmp_path: Path) -> None:
    negative = "def _make_inputs(rows, columns):\n    return {'x': -torch.rand(rows, columns)}\n"
    report = _run(tmp_path, "torch.relu(x)", "torch.relu(x)", negative)
    assert report.verdict is Verdict.PASS
    assert "only 2 of 12 cases can tell a right answer from zeros" in _correctness(report).message


def test_a_reference_of_zeros_passes_and_is_told(tmp_path: Path) -> None:
    report = _run(tmp_path, "x * 0", "x * 0")
    assert report.verdict is Verdict.PASS
    assert report.headline.endswith("; not told from zeros in shape only")
    assert "no case tells output from zeros" in _correctness(report).message


def test_one_output_of_two_may_be_untold(tmp_path: Path) -> None:
    both = "{'y': x * 2, 'bad': torch.isnan(x).sum()}"
    report = _run(tmp_path, both, both)
    assert report.verdict is Verdict.PASS
    assert "no case tells output['bad'] from zeros" in _correctness(report).message


_VALUE = noise(64, 128)
_TINY = torch.full((64, 128), 1e-8)


@pytest.mark.parametrize(
    ("reference", "exact", "policy", "zeros"),
    [
        (_VALUE, _VALUE.double(), None, "wrong"),
        (_VALUE, None, None, "wrong"),
        (_TINY, _TINY.double(), None, "wrong"),
        (_TINY, _TINY.double(), AllClose(1e-2, 1e-2), "tolerance"),
        (_TINY, _TINY.double() * 0, None, "tolerance"),
        (_TINY, _TINY.double() * 0, Contract(), "wrong"),
        (_TINY, _TINY.double(), Contract(2.0), "tolerance"),
        (_VALUE * 0, _VALUE.double() * 0, None, "right"),
        (_VALUE * 0, None, Contract(), "right"),
        (_VALUE * 0 + float("nan"), None, None, "wrong"),
        (_VALUE * 0 + float("inf"), None, AllClose(1.0, 1.0), "wrong"),
        (torch.zeros(9, dtype=torch.int32), None, None, "right"),
        (torch.arange(9), None, None, "wrong"),
        (torch.zeros(9, dtype=torch.bool), None, None, "right"),
        (torch.tensor([False, True]), None, None, "wrong"),
        (torch.zeros(0), None, None, "right"),
        (torch.zeros(4, dtype=torch.complex64), None, None, "right"),
        (torch.ones(4, dtype=torch.complex64), None, None, "wrong"),
        (3, None, None, "wrong"),
        (0, None, None, "right"),
        (2.5, None, None, "wrong"),
        ("name", None, None, "right"),
    ],
)
def test_what_zeros_would_be(reference: Any, exact: Any, policy: Policy | None, zeros: str) -> None:
    result = compare(reference, reference, exact, policy)
    assert result.passed
    assert leaf(result).zeros == zeros
    if isinstance(reference, torch.Tensor):
        found = compare(torch.zeros_like(reference), reference, exact, policy)
        assert found.passed == (zeros != "wrong")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.9, 1.2])
def test_it_is_the_comparisons_own_verdict(dtype: torch.dtype, share: float) -> None:
    """Also where an error is too large on average although no element is: half the tolerance applies."""
    value = noise(4, 256).to(dtype)
    value[1] = (value[1].float() * share * 2 * torch.finfo(dtype).eps).to(dtype)
    exact = value.double()
    for row in range(4):
        alone, right = value[row : row + 1], exact[row : row + 1]
        zeros = compare(torch.zeros_like(alone), alone, right)
        assert zeros.passed == (leaf(compare(alone, alone, right)).zeros != "wrong")


def test_the_integer_that_rounding_decides_may_be_zero() -> None:
    right = torch.ones(4, dtype=torch.int64)
    result = compare(right, right, right * 0)
    assert leaf(result).zeros == "tolerance"


def test_it_does_not_depend_on_the_steps() -> None:
    x = noise(64, 64)
    x[:63] = 0
    runs = [perturbed(x, 0)]
    for chunk in (64, 2**14):
        result = compare(x, x, x.double(), sensitivity=runs, chunk_elements=chunk)
        assert leaf(result).zeros == "wrong"


def test_cases_are_counted() -> None:
    def case(label: str, **zeros: str) -> dict[str, Any]:
        leaves = [{"path": path, "zeros": value, "numel": 1} for path, value in zeros.items()]
        return {"case": label, "leaves": leaves}

    found = evidence([case("draw 0", a="wrong", b="right"), case("draw 1", a="tolerance", b="right")])
    assert (found.cases, found.blind, found.untold) == (2, ("draw 1",), ("b",))
    assert found.fault("s") == ""
    assert found.notes() == ["only 1 of 2 cases can tell a right answer from zeros: draw 1"]
    assert evidence([case("draw 0", a="right")]).fault("s") == ""
    assert "none of 1 case can tell" in evidence([case("draw 0", a="tolerance")]).fault("s")
