"""The tables for NVIDIA's shuffles do what the emulator says that AMD's moves between lanes do."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("flydsl")

from kernel_lint.emulator.numerics.dpp import update_dpp
from kernel_lint.nvptx import dpp

LANES = range(dpp.WAVE)
CONTROLS = (
    0x00, 0xB1, 0x4E, 0x1B, 0xFF, 0xE4, *range(0x101, 0x110), *range(0x111, 0x120), *range(0x121, 0x130),
    0x130, 0x134, 0x138, 0x13C, 0x140, 0x141, 0x142, 0x143, *range(0x150, 0x160), *range(0x160, 0x170),
)  # fmt: skip
MASKS = ((0xF, 0xF), (0xA, 0xF), (0xC, 0xF), (0x5, 0x3), (0xF, 0x8))


def moved(move: dpp.Move, old: list[int], source: list[int], zero: bool) -> list[int]:
    """What the operations made for a move give, lane by lane."""
    found = []
    for lane in LANES:
        if move.places is None:
            at = ((lane & move.keep) + move.step) % dpp.WAVE
        else:
            at = (lane & -dpp.ROW) | ((move.places & (2**64 - 1)) >> (4 * (lane % dpp.ROW)) & 15)
        value = source[at] if move.exists >> lane & 1 else (0 if zero else old[lane])
        found.append(value if move.enabled >> lane & 1 else old[lane])
    return found


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("zero", [False, True])
def test_each_move_is_the_emulators(masks: tuple[int, int], zero: bool) -> None:
    old, source = [1000 + lane for lane in LANES], [1 + lane for lane in LANES]
    for control in CONTROLS:
        expected = update_dpp(torch.tensor(old), torch.tensor(source), control, *masks, zero).tolist()
        assert moved(dpp.move_of(control, *masks), old, source, zero) == expected, hex(control)


def test_what_leaves_a_row_has_no_table() -> None:
    across = [control for control in CONTROLS if dpp.move_of(control, 0xF, 0xF).places is None]
    assert across == [0x130, 0x134, 0x138, 0x13C, 0x142, 0x143]


def test_an_undefined_control_is_no_move() -> None:
    with pytest.raises(ValueError, match="0x1ff is not defined"):
        dpp.move_of(0x1FF, 0xF, 0xF)
