"""What is known of numbers before a launch, and what may be left out because of it."""

from __future__ import annotations

import pytest

pytest.importorskip("flydsl")

from kernel_lint.nvptx.buffers import _inside
from kernel_lint.nvptx.facts import UNKNOWN, Fact, exactly


@pytest.mark.parametrize(
    ("offsets", "inside"),
    [
        ((Fact(4, 0, 1020), exactly(0)), True),
        ((Fact(4, 0, 1021), exactly(0)), False),
        ((Fact(4, 0, 512), Fact(4, 0, 508)), True),
        ((Fact(4, 0, 512), Fact(4, 0, 512)), False),
        ((exactly(-4), exactly(0)), False),
        ((Fact(4, -4, 8), exactly(0)), False),
        ((UNKNOWN, exactly(0)), False),
    ],
)
def test_an_access_without_a_check_lies_inside(offsets: tuple[Fact, Fact], inside: bool) -> None:
    assert _inside(offsets, 4, exactly(1024)) is inside


def test_a_buffer_of_unknown_size_is_always_checked() -> None:
    assert not _inside((exactly(0), exactly(0)), 4, UNKNOWN)
    assert not _inside((exactly(0), exactly(0)), 4, exactly(-1))
