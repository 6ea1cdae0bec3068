"""AMD's moves between lanes that an instruction's encoding asks for (DPP), as tables for NVIDIA's shuffles.

What each control means is the emulator's to know (:mod:`kernel_lint.emulator.numerics.dpp`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from kernel_lint.emulator.numerics.dpp import dpp_source
from kernel_lint.nvptx.errors import refuse
from kernel_lint.nvptx.facts import constant

WAVE, ROW = 64, 16
EVERY_LANE = -1
_UPDATE, _MOVE = "llvm.amdgcn.update.dpp", "llvm.amdgcn.mov.dpp"
NAMES = frozenset({"rocdl.update.dpp", _UPDATE, _MOVE})


@dataclass(frozen=True, slots=True)
class Move:
    """Where each of 64 lanes reads; masks have a bit for each lane, as a signed number of 64 bits.

    ``places`` holds, 4 bits for each lane of a row of 16, the lane of the row that it reads; where rows are
    left it is None, and a lane reads ``(lane & keep) + step``. ``exists`` are the lanes with a source,
    ``enabled`` those that the row and bank masks let be written.
    """

    places: int | None
    keep: int
    step: int
    exists: int
    enabled: int


@dataclass(frozen=True, slots=True)
class Request:
    """What an operation asks for: its operands, the move, and whether lanes without a source get 0."""

    old: Any
    source: Any
    move: Move
    zero: bool


def read(op: Any, name: str) -> Request:
    """Return what an operation of :data:`NAMES` asks for; raises the refusal of one decided at run time."""
    operands = list(op.operands)
    if name == "rocdl.update.dpp":
        settings = [int(op.attributes[key]) for key in ("dppCtrl", "rowMask", "bankMask")]
        zero = "boundCtrl" in op.attributes and bool(op.attributes["boundCtrl"].value)
        old, source = operands
    else:
        old = operands.pop(0) if name == _UPDATE else None
        source = operands[0]
        *settings, bound = (_constant(op, operand) for operand in operands[1:5])
        zero = bool(bound)
    try:
        return Request(old, source, move_of(*settings), zero)
    except ValueError as error:
        raise refuse(op, str(error)) from None


def _constant(op: Any, value: Any) -> int:
    number = constant(value)
    if number is None:
        raise refuse(op, "what it does is decided at run time")
    return number


def move_of(ctrl: int, row_mask: int, bank_mask: int) -> Move:
    """Return what a control and its masks do; raises ValueError for a control that is not defined."""
    source, exists = (found.tolist() for found in dpp_source(ctrl, WAVE, torch.device("cpu")))
    lanes = range(WAVE)
    enabled = [(row_mask >> (lane // ROW)) & (bank_mask >> (lane // 4 % 4)) & 1 for lane in lanes]
    places = [source[lane] % ROW if exists[lane] else lane for lane in range(ROW)]
    within = all(source[lane] == lane // ROW * ROW + places[lane % ROW] for lane in lanes if exists[lane])
    keep, step = next(
        (keep, step)
        for keep in (-1, -ROW, -2 * ROW, 0)
        for step in (-1, 0, 1)
        if within or all(((lane & keep) + step) % WAVE == source[lane] for lane in lanes if exists[lane])
    )
    table = _signed(sum(place << (4 * lane) for lane, place in enumerate(places))) if within else None
    return Move(table, keep, step, _mask(exists), _mask(enabled))


def _mask(bits: Iterable[Any]) -> int:
    return _signed(sum(1 << lane for lane, bit in enumerate(bits) if bit))


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number
