"""The policies, from the command line's text and the task's own tolerance to the verdict."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from verify_tasks import ADD_ONE, HEADER, OPTIONS

from kernel_lint.verify import Verdict, VerifyOptions, verify

_OFF = HEADER + ADD_ONE.reference.replace("a + b", "(a + b) * 1.0005")


def _verdict(folder: Path, policy: str, stated: dict[str, float] | None = None) -> Verdict:
    """Judge a candidate that is half a thousandth off."""
    ADD_ONE.write(folder)
    if stated is not None:
        shapes = json.loads((folder / "shapes.json").read_text())
        shapes["only"]["tolerance"] = stated
        (folder / "shapes.json").write_text(json.dumps(shapes))
    candidate = folder / "generated_kernel.py"
    candidate.write_text(_OFF)
    options = VerifyOptions(**{**OPTIONS, "state_dir": folder / "state", "tolerance": policy})
    return verify(candidate, folder, options).verdict


@pytest.mark.parametrize(
    ("policy", "verdict"),
    [
        ("calibrated", Verdict.FAIL),
        ("contract", Verdict.PASS),
        ("contract:1e-4", Verdict.FAIL),
        ("allclose:rtol=1e-3,atol=1e-6", Verdict.PASS),
        ("allclose:rtol=1e-4,atol=1e-6", Verdict.FAIL),
    ],
)
def test_the_policy_decides(tmp_path: Path, policy: str, verdict: Verdict) -> None:
    assert _verdict(tmp_path, policy) is verdict


@pytest.mark.parametrize(
    ("stated", "verdict"),
    [
        ({"rel_err": 0.001}, Verdict.PASS),
        ({"rel_err": 0.0001}, Verdict.FAIL),
        ({"rtol": 1e-3, "atol": 1e-6}, Verdict.PASS),
        ({"atol": 1e-6}, Verdict.FAIL),
    ],
)
def test_a_tolerance_of_the_task_holds_where_the_option_leaves_it_open(
    tmp_path: Path, stated: dict[str, float], verdict: Verdict
) -> None:
    assert _verdict(tmp_path, "calibrated", stated) is verdict


def test_an_option_outranks_the_task(tmp_path: Path) -> None:
    assert _verdict(tmp_path, "contract:1e-4", {"rel_err": 0.1}) is Verdict.FAIL
