"""Shadow memory of the race check: who wrote and who read each granule last.

A code packs, from the top: workgroup (20 bits), barrier epoch (16), an atomic flag, wave + 1 (12), and the
index of the source place (14). Codes grow with the epoch, so a running maximum keeps the latest reader; a
second array keeps the maximum of the codes with the wave inverted, so that two different readers of one
epoch are told from one. (The technique is that of hardware race checkers, at the grain of waves, because the
lanes of one wave run in lockstep.)
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kernel_lint.emulator.ir import Place
from kernel_lint.emulator.memory import gather, scatter, unit_views
from kernel_lint.emulator.values import Tensor

SITE_BITS, WAVE_BITS, EPOCH_BITS = 14, 12, 16
WAVE_AT, ATOMIC_AT = SITE_BITS, SITE_BITS + WAVE_BITS
EPOCH_AT = ATOMIC_AT + 1
GROUP_AT = EPOCH_AT + EPOCH_BITS
WAVE_MASK = (1 << WAVE_BITS) - 1
GROUP_MASK = (1 << 20) - 1
MAX_EPOCH = (1 << EPOCH_BITS) - 1
CODE_BYTES = 8


@dataclass(frozen=True, slots=True)
class Conflict:
    """Lanes (rows of the access) in conflict, and the code of the earlier access in each."""

    rows: Tensor
    other: Tensor


def wave_of(code: Tensor) -> Tensor:
    """The wave + 1 of a code; 0 means no access."""
    return (code >> WAVE_AT) & WAVE_MASK


def epoch_of(code: Tensor) -> Tensor:
    """The barrier epoch of a code."""
    return (code >> EPOCH_AT) & MAX_EPOCH


def group_of(code: Tensor) -> Tensor:
    """The workgroup of a code."""
    return (code >> GROUP_AT) & GROUP_MASK


def invert(code: Tensor) -> Tensor:
    """The code with its wave inverted, so that a maximum finds the lowest wave."""
    return code ^ (WAVE_MASK << WAVE_AT)


class Shadow:
    """The codes of one stretch of memory, one for each granule of 4, 2 or 1 bytes.

    ``size`` is the stretch in bytes. The granule starts at 4 and shrinks with the first access that is
    not aligned to it, so that neighbours in one dword do not count as one.
    """

    def __init__(self, size: int, device: str) -> None:
        self.granule = 4
        self.device = device
        count = -(-size // 4)
        self.writers, self.highest, self.lowest = (
            torch.zeros(count, dtype=torch.int64, device=device) for _ in range(3)
        )
        self._view()

    def _view(self) -> None:
        self.views = {
            name: unit_views(getattr(self, name).view(torch.int8))
            for name in ("writers", "highest", "lowest")
        }

    def refine(self, unit: int) -> None:
        """Make the granule at most ``unit`` bytes."""
        if unit >= self.granule:
            return
        times = self.granule // unit
        for name in ("writers", "highest", "lowest"):
            setattr(self, name, getattr(self, name).repeat_interleave(times))
        self.granule = unit
        self._view()

    def _places(self, flat: Tensor, size: int) -> tuple[Tensor, int]:
        """Byte offsets in the shadow and bytes for an access of ``size`` bytes at ``flat``."""
        return flat.to(torch.int64) * (CODE_BYTES // self.granule), size * CODE_BYTES // self.granule

    def read(self, name: str, flat: Tensor, size: int) -> Tensor:
        """The codes [accesses, granules] of one array."""
        offsets, width = self._places(flat, size)
        unit = 16 if width % 16 == 0 and not bool((offsets & 15).any()) else 8
        return (
            gather(self.views[name], offsets, width, unit).view(torch.int64).reshape(-1, width // CODE_BYTES)
        )

    def write(self, name: str, flat: Tensor, size: int, codes: Tensor) -> None:
        """Set the codes [accesses, 1 or granules] of one array."""
        offsets, width = self._places(flat, size)
        count = width // CODE_BYTES
        scatter(self.views[name], offsets, codes.expand(-1, count).reshape(-1).contiguous(), width, 8)

    def raise_to(self, name: str, flat: Tensor, size: int, codes: Tensor) -> None:
        """Set each granule to the larger of its code and the access's."""
        offsets, width = self._places(flat, size)
        count = width // CODE_BYTES
        index = (offsets >> 3).unsqueeze(1) + torch.arange(count, device=self.device)
        array: Tensor = getattr(self, name)
        array.scatter_reduce_(0, index.reshape(-1), codes.expand(-1, count).reshape(-1), "amax")


class Sites:
    """Numbers for source places, to fit in a code."""

    def __init__(self) -> None:
        self._numbers: dict[Place, int] = {}
        self._places: list[Place] = []

    def number(self, place: Place) -> int:
        """The number of a place; places past the 14 bits share the last number."""
        known = self._numbers.get(place)
        if known is None:
            known = self._numbers[place] = min(len(self._places), (1 << SITE_BITS) - 1)
            self._places.append(place)
        return known

    def place(self, number: int) -> Place:
        """The place of a number."""
        return self._places[number]
