"""Data-parallel primitives: moves between lanes that an instruction's own encoding asks for.

Source for every control: the tables "DPP_CTRL Enumerations" and the text on row_mask, bank_mask and
bound_ctrl in [CDNA3] and [CDNA4], section "DPP: Data Parallel Primitives" (see formats.py for the short
names); llvm.amdgcn.update.dpp in LLVM AMDGPUUsage for the operand order and `old`.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
from torch import Tensor

from kernel_lint.emulator.numerics.lanes import WAVE, lane_ids

ROW = 16
_WAVE_MOVES = {0x130: (1, False), 0x134: (1, True), 0x138: (-1, False), 0x13C: (-1, True)}
"""wave_shl:1, wave_rol:1, wave_shr:1, wave_ror:1: how far away the source is, and whether it wraps."""


def _row_source(ctrl: int, lane: Tensor) -> tuple[Tensor, Tensor] | None:
    """Controls that stay within a row of 16 lanes: the source lane, and whether it exists."""
    place, row = lane % ROW, lane - lane % ROW
    always = torch.ones_like(lane, dtype=torch.bool)
    amount = ctrl & 0xF
    if 0x000 <= ctrl <= 0x0FF:  # quad_perm
        shift = (lane & 3) * 2
        return (lane & ~3) | ((ctrl >> shift) & 3), always
    if 0x101 <= ctrl <= 0x10F:  # row_shl: data moves to lower lanes
        return lane + amount, place + amount < ROW
    if 0x111 <= ctrl <= 0x11F:  # row_shr
        return lane - amount, place >= amount
    if 0x121 <= ctrl <= 0x12F:  # row_ror
        return row + (place - amount) % ROW, always
    if ctrl == 0x140:  # row_mirror
        return row + (ROW - 1 - place), always
    if ctrl == 0x141:  # row_half_mirror
        return (lane & ~7) + (7 - (lane & 7)), always
    if 0x150 <= ctrl <= 0x15F:  # row_newbcast on gfx90a and later, row_share on gfx10 and later
        return row + amount, always
    if 0x160 <= ctrl <= 0x16F:  # row_xmask, gfx10 and later
        return row + (place ^ amount), always
    return None


@functools.lru_cache(maxsize=256)
def dpp_source(ctrl: int, lanes: int, device: torch.device, wave: int = WAVE) -> tuple[Tensor, Tensor]:
    """The lane that each lane reads under dpp_ctrl `ctrl`, and whether there is one: int64 and bool, [lanes].

    Where there is none the number is meaningless. Raises ValueError on a control that no GPU here defines.
    """
    lane = lane_ids(lanes, wave, device)
    within = _row_source(ctrl, lane)
    if within is not None:
        return within
    if ctrl in _WAVE_MOVES:
        step, wraps = _WAVE_MOVES[ctrl]
        source = lane + step
        return source % wave, (source >= 0) & (source < wave) | wraps
    if ctrl == 0x142:  # row_bcast15: the last lane of the row before
        return (lane & ~0xF) - 1, lane >= ROW
    if ctrl == 0x143:  # row_bcast31: lane 31 for the upper half of the wave
        return (lane & ~0x1F) - 1, lane >= 2 * ROW
    raise ValueError(f"dpp_ctrl {ctrl:#x} is not defined")


@dataclass(frozen=True, slots=True)
class _Plan:
    """What one DPP encoding does to the lanes of a tensor, worked out once.

    index: the source, int64 [lanes] over all waves. exists, enabled, written: bool [lanes], or None where
    true in every lane; written is both of the others.
    """

    index: Tensor
    exists: Tensor | None
    enabled: Tensor | None
    written: Tensor | None


@functools.lru_cache(maxsize=256)
def _plan(ctrl: int, row_mask: int, bank_mask: int, lanes: int, device: torch.device, wave: int) -> _Plan:
    source, exists = dpp_source(ctrl, lanes, device, wave)
    lane = lane_ids(lanes, wave, device)
    enabled = ((row_mask >> (lane // ROW)) & (bank_mask >> (lane // 4 % 4)) & 1).to(torch.bool)
    index = torch.arange(lanes, device=device) - lane + source % wave
    masks = [None if bool(mask.all()) else mask for mask in (exists, enabled, exists & enabled)]
    return _Plan(index, *masks)


def update_dpp(
    old: Tensor,
    src: Tensor,
    ctrl: int,
    row_mask: int = 0xF,
    bank_mask: int = 0xF,
    bound_ctrl: bool = False,
    active: Tensor | None = None,
    wave: int = WAVE,
) -> Tensor:
    """rocdl.update.dpp: src moved by `ctrl`, and `old` where nothing is written.

    old, src: [..., lanes]. Bit r of row_mask enables lanes 16r to 16r + 15, bit b of bank_mask lanes with
    (lane / 4) % 4 = b; a lane that either disables keeps old, whatever bound_ctrl is. A lane whose source
    does not exist or is inactive gets 0 with bound_ctrl and keeps old without. Result [..., lanes]; as
    everywhere in this package the caller keeps what inactive lanes held before.
    """
    plan = _plan(ctrl, row_mask, bank_mask, src.shape[-1], src.device, wave)
    moved = src.index_select(-1, plan.index)
    exists, written = plan.exists, plan.written
    if active is not None:
        reached = active.index_select(-1, plan.index)
        exists = reached if exists is None else reached & exists
        written = reached if written is None else reached & written
    if not bound_ctrl:
        return moved if written is None else torch.where(written, moved, old)
    if exists is not None:
        moved = torch.where(exists, moved, torch.zeros_like(moved))
    return moved if plan.enabled is None else torch.where(plan.enabled, moved, old)
