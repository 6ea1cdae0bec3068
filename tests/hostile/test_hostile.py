"""No candidate that cheats or breaks passes, and each gets its own reason in bounded time."""

from __future__ import annotations

from pathlib import Path

import pytest
from hostile_candidates import ALL, Hostile
from verify_tasks import judge

from kernel_lint.verify import Verdict


@pytest.mark.parametrize("hostile", ALL, ids=lambda hostile: hostile.name)
def test_fails_with_its_reason(hostile: Hostile, tmp_path: Path) -> None:
    report = judge(tmp_path, hostile.task, hostile.source, **hostile.options)
    assert report.verdict is Verdict.FAIL, report.headline
    assert report.reason in (hostile.reason, hostile.also), report.headline
    assert report.exit_code == 1


def test_there_are_enough_of_them() -> None:
    names = [hostile.name for hostile in ALL]
    assert len(names) == len(set(names)) >= 40
