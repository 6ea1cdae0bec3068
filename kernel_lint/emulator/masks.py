"""Masks of active lanes: None for all lanes, else a bool tensor [workgroups or 1, lanes or 1]."""

from __future__ import annotations

import torch

from kernel_lint.emulator.machine import Machine, Mask
from kernel_lint.emulator.values import Tensor


def narrow(mask: Mask, cond: Tensor) -> Mask:
    """The lanes of ``mask`` in which ``cond`` holds."""
    return cond if mask is None else mask & cond


def split(m: Machine, mask: Mask, cond: Tensor) -> tuple[Mask, Mask, bool, bool]:
    """For a branch: the masks of both sides, and whether each has a lane.

    When one side has none the other keeps ``mask``, so that uniform branches stay unmasked.
    """
    taken = cond if mask is None else mask & cond
    other = ~cond if mask is None else mask & ~cond
    any_taken, any_other = bool(taken.any()), bool(other.any())
    if not any_other:
        return mask, None, True, False
    if not any_taken:
        return None, mask, False, True
    return taken, other, True, True


def any_lane(mask: Mask) -> bool:
    """Whether a lane is active."""
    return mask is None or bool(mask.any())


def full_mask(m: Machine, mask: Mask) -> Tensor:
    """The mask at full extent [workgroups, lanes]."""
    if mask is None:
        return torch.ones((m.count, m.lanes), dtype=torch.bool, device=m.device)
    return mask.expand(m.count, m.lanes)
