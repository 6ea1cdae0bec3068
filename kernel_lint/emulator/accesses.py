"""One access of many lanes, as the checks see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from kernel_lint.emulator.ir import Place
from kernel_lint.emulator.memory import Region
from kernel_lint.emulator.values import Tensor

if TYPE_CHECKING:
    from kernel_lint.diagnostics import Reason
    from kernel_lint.emulator.machine import Machine


@dataclass(frozen=True, slots=True)
class Accesses:
    """Accesses of ``size`` bytes each to one region.

    ``flat`` [accesses] are their byte offsets in the region's bytes, all multiples of ``unit``. ``rows``
    [accesses] say which lanes of ``shape`` (workgroups or 1, lanes or 1), flattened, they are of; None means
    all of them in turn.
    """

    region: Region
    flat: Tensor
    rows: Tensor | None
    shape: tuple[int, ...]
    size: int
    unit: int
    place: Place

    def at_lanes(self, values: Tensor) -> Tensor:
        """A value of each access at its lane in ``shape``; 0 or false in the other lanes."""
        if self.rows is None:
            return values.reshape(self.shape)
        out = torch.zeros(self.shape[0] * self.shape[1], dtype=values.dtype, device=values.device)
        out[self.rows] = values
        return out.reshape(self.shape)

    def report(self, m: Machine, reason: Reason, bad: Tensor, message: str) -> None:
        """Add a finding that the accesses ``bad`` show."""
        offsets = self.at_lanes(self.flat) - self.region.instance
        m.report(reason, self.place, message, self.at_lanes(bad), offsets, self.region.name)
