"""The race check: two waves touch the same bytes, one of them writes, and no barrier lies between.

Between workgroups nothing but the end of the kernel orders accesses, unless the kernel uses atomics or
fences. Writes of the value that is there already are not reported: they are races in the letter, but give the
same bytes in every order.
"""

from __future__ import annotations

from typing import Any

import torch

from kernel_lint.diagnostics import Reason
from kernel_lint.emulator import shadow as codes
from kernel_lint.emulator.ir import Place
from kernel_lint.emulator.machine import Machine
from kernel_lint.emulator.memory import Region, gather, scatter
from kernel_lint.emulator.shadow import Shadow, Sites
from kernel_lint.emulator.values import Tensor

MAX_SHADOWED = 1 << 28
"""Global regions of more bytes are not watched: their shadow would take six times as much."""


class RaceCheck:
    """Races in the LDS of a chunk and in the global regions that a launch may store to."""

    def __init__(self, tracked: frozenset[int], synchronizes: bool) -> None:
        self._tracked, self._synchronizes = tracked, synchronizes
        self._global: dict[int, Shadow] = {}
        self._sites = Sites()
        self._epoch = 0
        self._uneven: Tensor | None = None
        self._lanes: Tensor | None = None

    def begin(self, m: Machine) -> None:
        """A chunk starts: no barrier has been passed."""
        self._epoch, self._uneven, self._lanes = 0, None, None

    def attach(self, lds: Region) -> None:
        """Give the chunk's LDS a shadow."""
        lds.shadow = Shadow(lds.bytes.numel(), str(lds.bytes.device))

    def watches(self, region: Region) -> bool:
        """Whether accesses to a region are compared."""
        if region.space == 3:
            return True
        return region.space == 1 and region.base in self._tracked and region.hi <= MAX_SHADOWED

    def _shadow(self, region: Region) -> Shadow:
        if region.space == 3:
            found: Shadow = region.shadow
            return found
        if region.base not in self._global:
            self._global[region.base] = Shadow(region.hi, str(region.bytes.device))
        return self._global[region.base]

    def barrier(self, m: Machine, arrived: Tensor | None) -> None:
        """All waves, or those that arrived [workgroups, waves], pass a barrier."""
        self._lanes = None
        if arrived is None:
            self._epoch += 1
            return
        if self._uneven is None:
            self._uneven = torch.zeros((m.count, m.waves), dtype=torch.int64, device=m.device)
        self._uneven = self._uneven + arrived

    def _codes(self, m: Machine, rows: Tensor | None, shape: Any, place: Place) -> Tensor:
        """The code of each access [accesses, 1]."""
        if self._lanes is None:
            wave = torch.arange(m.waves, device=m.device).unsqueeze(0)
            epoch = self._epoch + (self._uneven if self._uneven is not None else 0)
            group = m.workgroup % (codes.GROUP_MASK + 1)
            packed = (group << codes.GROUP_AT) | ((wave + 1) << codes.WAVE_AT) | (epoch << codes.EPOCH_AT)
            self._lanes = packed.expand(m.count, m.waves).repeat_interleave(m.wave, 1).contiguous()
        lanes = self._lanes
        if tuple(shape) != tuple(lanes.shape):
            # A uniform access counts as one of the first wave: its other waves read or write the same.
            lanes = lanes[:, : shape[1]] if shape[0] == m.count else lanes[: shape[0], : shape[1]]
        flat = lanes.reshape(-1)
        chosen = flat if rows is None else flat.index_select(0, rows)
        return chosen.unsqueeze(1) | self._sites.number(place)

    def _clash(self, mine: Tensor, other: Tensor, region: Region) -> Tensor:
        """Whether an earlier access and one's own are of different waves and unordered [accesses,
        granules]."""
        there = codes.wave_of(other) != 0
        same_group = codes.group_of(other) == codes.group_of(mine)
        other_wave = codes.wave_of(other) != codes.wave_of(mine)
        unordered = same_group & other_wave & (codes.epoch_of(other) >= codes.epoch_of(mine))
        if region.space == 1 and not self._synchronizes:
            unordered = unordered | ~same_group
        return there & unordered

    def _quiet(self, found: Tensor, mine: Tensor, region: Region) -> bool:
        """A cheap proof that nothing clashes: in LDS, nothing was touched since the lowest epoch of now."""
        if region.space != 3:
            return not bool(found.any())
        floor = self._epoch << codes.EPOCH_AT
        return bool(((found & ((1 << codes.GROUP_AT) - 1)) < floor).all()) if floor else not bool(found.any())

    def load(
        self,
        m: Machine,
        region: Region,
        flat: Tensor,
        rows: Tensor | None,
        shape: Any,
        size: int,
        unit: int,
        place: Place,
    ) -> None:
        """Compare a load with earlier writes and remember it."""
        if self._epoch > codes.MAX_EPOCH:
            return
        shadow = self._shadow(region)
        shadow.refine(unit)
        mine = self._codes(m, rows, shape, place)
        writers = shadow.read("writers", flat, size)
        if not self._quiet(writers, mine, region):
            bad = self._clash(mine, writers, region)
            self._report(m, region, bad, writers, flat, rows, shape, place, "reads what another wave writes")
        shadow.raise_to("highest", flat, size, mine)
        shadow.raise_to("lowest", flat, size, codes.invert(mine))

    def store(
        self,
        m: Machine,
        region: Region,
        flat: Tensor,
        rows: Tensor | None,
        shape: Any,
        size: int,
        unit: int,
        data: Tensor,
        place: Place,
    ) -> None:
        """Compare a store with earlier writes and reads, and its lanes with each other, and remember it."""
        if self._epoch > codes.MAX_EPOCH:
            return
        shadow = self._shadow(region)
        shadow.refine(unit)
        mine = self._codes(m, rows, shape, place)
        changed = None
        for name, text in (
            ("writers", "overwrites what another wave writes"),
            ("highest", "overwrites what another wave reads"),
        ):
            found = shadow.read(name, flat, size)
            if self._quiet(found, mine, region):
                continue
            bad = self._clash(mine, found, region)
            if name == "highest":
                low = codes.invert(shadow.read("lowest", flat, size))
                low_bad = self._clash(mine, low, region) & (codes.wave_of(low) != codes.WAVE_MASK)
                found, bad = torch.where(bad, found, low), bad | low_bad
            if bool(bad.any()):
                changed = _changes(region, flat, size, unit, data) if changed is None else changed
                self._report(m, region, bad & changed, found, flat, rows, shape, place, text)
        shadow.write("writers", flat, size, mine)
        self._same_time(m, shadow, region, flat, rows, shape, size, unit, data, mine, place)

    def _same_time(
        self,
        m: Machine,
        shadow: Shadow,
        region: Region,
        flat: Tensor,
        rows: Tensor | None,
        shape: Any,
        size: int,
        unit: int,
        data: Tensor,
        mine: Tensor,
        place: Place,
    ) -> None:
        """Lanes of one store that hit the same bytes with different values."""
        winners = shadow.read("writers", flat, size)
        if bool((winners == mine).all()):
            return
        scatter(region.views, flat, data, size, unit)
        lost = _changes(region, flat, size, unit, data)
        bad = lost & (winners != mine)
        self._report(m, region, bad, winners, flat, rows, shape, place, "writes what another wave writes")

    def atomic(
        self, m: Machine, region: Region, flat: Tensor, rows: Tensor, shape: Any, size: int, place: Place
    ) -> None:
        """Compare an atomic with earlier plain writes and remember it."""
        if self._epoch > codes.MAX_EPOCH:
            return
        shadow = self._shadow(region)
        shadow.refine(min(size, 4))
        mine = self._codes(m, rows, shape, place) | (1 << codes.ATOMIC_AT)
        writers = shadow.read("writers", flat, size)
        plain = (writers >> codes.ATOMIC_AT) & 1 == 0
        bad = self._clash(mine, writers, region) & plain
        self._report(m, region, bad, writers, flat, rows, shape, place, "updates what another wave writes")
        shadow.write("writers", flat, size, mine)
        clash = shadow.read("writers", flat, size) != mine
        if bool(clash.any()):
            # Several waves: a plain access of any of them would race with the others.
            several = mine | (codes.WAVE_MASK << codes.WAVE_AT)
            hit = clash.any(1)
            shadow.write("writers", flat[hit], size, several[hit])

    def _report(
        self,
        m: Machine,
        region: Region,
        bad: Tensor,
        other: Tensor,
        flat: Tensor,
        rows: Tensor | None,
        shape: Any,
        place: Place,
        text: str,
    ) -> None:
        from kernel_lint.emulator.checks import lanes_mask, spread_rows

        hit = bad.any(1)
        if not bool(hit.any()):
            return
        first = int(hit.nonzero()[0])
        code = other[first][int(bad[first].nonzero()[0])]
        site = self._sites.place(int(code) & ((1 << codes.SITE_BITS) - 1))
        wave = int(codes.wave_of(code)) - 1
        who = "several waves" if wave + 1 == codes.WAVE_MASK else f"wave {wave}"
        mine = self._codes(m, rows, shape, place)[first]
        foreign = region.space == 1 and bool(codes.group_of(code) != codes.group_of(mine))
        where = "another workgroup" if foreign else "the workgroup"
        m.report(
            Reason.RACE,
            place,
            f"{text} in {region.name} ({who} of {where}, at {site.described()}) with no barrier in between",
            lanes_mask(hit, rows, shape, m),
            spread_rows(flat, rows, shape) - region.instance,
            region.name,
        )


def _changes(region: Region, flat: Tensor, size: int, unit: int, data: Tensor) -> Tensor:
    """Which accesses would change memory [accesses, 1]."""
    before = gather(region.views, flat, size, unit)
    if unit == 16:
        before, data = before.view(torch.int64), data.view(torch.int64)
    return (before.reshape(len(flat), -1) != data.reshape(len(flat), -1)).any(1, keepdim=True)
