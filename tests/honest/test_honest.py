"""No right candidate fails, however it computes and however it behaves."""

from __future__ import annotations

from pathlib import Path

import pytest
from honest_candidates import ALL, RUDE, Honest
from verify_tasks import judge

from kernel_lint.verify import Verdict


@pytest.mark.parametrize("honest", ALL, ids=lambda honest: honest.name)
def test_passes(honest: Honest, tmp_path: Path) -> None:
    report = judge(tmp_path, honest.task, honest.source, **{"variants": True, **honest.options})
    assert report.verdict is Verdict.PASS, report.headline
    assert report.exit_code == 0


@pytest.mark.parametrize("rude", RUDE, ids=lambda rude: rude.name)
def test_bad_manners_are_survived(rude: Honest, tmp_path: Path) -> None:
    report = judge(tmp_path, rude.task, rude.source)
    assert report.verdict is Verdict.PASS, report.headline
    correctness = next(result for result in report.stages if result.stage == "correctness")
    assert len(str(correctness.to_json())) < 100_000


def test_there_are_enough_of_them() -> None:
    names = [honest.name for honest in (*ALL, *RUDE)]
    assert len(names) == len(set(names))
    assert len(ALL) >= 40
