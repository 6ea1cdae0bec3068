"""What an instruction that accesses memory says, where it goes, and its accesses as the checks see them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import torch

from kernel_lint.emulator.ir import MType, Place
from kernel_lint.emulator.memory import Region, Resource
from kernel_lint.emulator.values import Tensor, Value

if TYPE_CHECKING:
    from kernel_lint.diagnostics import Reason
    from kernel_lint.emulator.machine import Machine


@dataclass(frozen=True, slots=True)
class Site:
    """What an instruction that accesses memory says of itself, the same each time that it runs.

    ``mtype`` is the type of one lane's value and ``size`` its bytes, ``place`` the instruction's line,
    ``space`` the LLVM address space (1 global, 3 LDS, 5 private), ``align`` the alignment in bytes that it
    promises (0: none).
    """

    mtype: MType
    place: Place
    space: int = 1
    align: int = 0
    size: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", self.mtype.size)


class BufferAddress(NamedTuple):
    """The operands of a raw buffer access that say where: a descriptor and two offsets in bytes, of which
    ``soffset`` is the same in all lanes of a wave."""

    resource: Resource
    voffset: Value
    soffset: Value = 0


@dataclass(frozen=True, slots=True)
class Window:
    """Where a raw buffer access goes: ``off`` are byte offsets in ``region``, ``inside`` the same places
    counted from the descriptor's base (unsigned 32-bit), ``limit`` its num_records."""

    region: Region
    off: Tensor
    inside: Tensor
    limit: Tensor | int

    def whole(self, size: int) -> bool:
        """Whether ``size`` bytes lie in the buffer and in its tensor, in every lane."""
        if isinstance(self.limit, Tensor) or not bool(self.inside.max() + size <= self.limit):
            return False
        low, high = torch.aminmax(self.off)
        return bool(low >= self.region.lo) and bool(high + size <= self.region.hi)

    def allowed(self, at: int, size: int) -> Tensor:
        """The lanes whose ``size`` bytes, ``at`` bytes further, lie in the buffer."""
        return self.inside + at + size <= self.limit

    def real(self, at: int, size: int) -> Tensor:
        """The lanes whose ``size`` bytes, ``at`` bytes further, lie in the tensor."""
        return (self.off + at >= self.region.lo) & (self.off + at + size <= self.region.hi)


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
