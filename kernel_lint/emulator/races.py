"""The race check: two waves touch the same bytes, one of them writes, and no barrier lies between.

Between workgroups nothing but the end of the kernel orders accesses, unless the kernel uses atomics or
fences. Writes of the value that is there already are not reported: they are races in the letter, but give the
same bytes in every order.
"""

from __future__ import annotations

import torch

from kernel_lint.diagnostics import Reason
from kernel_lint.emulator import shadow as codes
from kernel_lint.emulator.accesses import Accesses
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

    def _shadow(self, accesses: Accesses) -> Shadow:
        """The shadow of a region, as fine as the accesses need it."""
        region = accesses.region
        if region.space == 3:
            found: Shadow = region.shadow
        elif region.base in self._global:
            found = self._global[region.base]
        else:
            found = self._global[region.base] = Shadow(region.hi, str(region.bytes.device))
        found.refine(accesses.unit)
        return found

    def barrier(self, m: Machine, arrived: Tensor | None) -> None:
        """All waves, or those that arrived [workgroups, waves], pass a barrier."""
        self._lanes = None
        if arrived is None:
            self._epoch += 1
            return
        if self._uneven is None:
            self._uneven = torch.zeros((m.count, m.waves), dtype=torch.int64, device=m.device)
        self._uneven = self._uneven + arrived

    def _codes(self, m: Machine, mine: Accesses) -> Tensor:
        """The code of each access [accesses, 1]."""
        if self._lanes is None:
            wave = torch.arange(m.waves, device=m.device).unsqueeze(0)
            epoch = self._epoch + (self._uneven if self._uneven is not None else 0)
            group = m.workgroup % (codes.GROUP_MASK + 1)
            packed = (group << codes.GROUP_AT) | ((wave + 1) << codes.WAVE_AT) | (epoch << codes.EPOCH_AT)
            self._lanes = packed.expand(m.count, m.waves).repeat_interleave(m.wave, 1).contiguous()
        lanes = self._lanes
        if mine.shape != tuple(lanes.shape):
            # A uniform access counts as one of the first wave: its other waves read or write the same.
            lanes = lanes[: mine.shape[0], : mine.shape[1]]
        flat = lanes.reshape(-1)
        chosen = flat if mine.rows is None else flat.index_select(0, mine.rows)
        return chosen.unsqueeze(1) | self._sites.number(mine.place)

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

    def _quiet(self, found: Tensor, region: Region) -> bool:
        """A cheap proof that nothing clashes: in LDS, nothing was touched since the lowest epoch of now."""
        if region.space != 3:
            return not bool(found.any())
        floor = self._epoch << codes.EPOCH_AT
        return bool(((found & ((1 << codes.GROUP_AT) - 1)) < floor).all()) if floor else not bool(found.any())

    def load(self, m: Machine, loads: Accesses) -> None:
        """Compare a load with earlier writes and remember it."""
        if self._epoch > codes.MAX_EPOCH:
            return
        shadow = self._shadow(loads)
        mine = self._codes(m, loads)
        writers = shadow.read("writers", loads.flat, loads.size)
        if not self._quiet(writers, loads.region):
            bad = self._clash(mine, writers, loads.region)
            self._report(m, loads, bad, writers, "reads what another wave writes")
        shadow.raise_to("highest", loads.flat, loads.size, mine)
        shadow.raise_to("lowest", loads.flat, loads.size, codes.invert(mine))

    def store(self, m: Machine, stores: Accesses, data: Tensor) -> None:
        """Compare a store with earlier writes and reads, and its lanes with each other, and remember it."""
        if self._epoch > codes.MAX_EPOCH:
            return
        shadow, flat, size = self._shadow(stores), stores.flat, stores.size
        mine = self._codes(m, stores)
        changed = None
        for name, text in (
            ("writers", "overwrites what another wave writes"),
            ("highest", "overwrites what another wave reads"),
        ):
            found = shadow.read(name, flat, size)
            if self._quiet(found, stores.region):
                continue
            bad = self._clash(mine, found, stores.region)
            if name == "highest":
                low = codes.invert(shadow.read("lowest", flat, size))
                low_bad = self._clash(mine, low, stores.region) & (codes.wave_of(low) != codes.WAVE_MASK)
                found, bad = torch.where(bad, found, low), bad | low_bad
            if bool(bad.any()):
                changed = _changes(stores, data) if changed is None else changed
                self._report(m, stores, bad & changed, found, text)
        shadow.write("writers", flat, size, mine)
        self._same_time(m, shadow, stores, data, mine)

    def _same_time(self, m: Machine, shadow: Shadow, stores: Accesses, data: Tensor, mine: Tensor) -> None:
        """Lanes of one store that hit the same bytes with different values."""
        winners = shadow.read("writers", stores.flat, stores.size)
        if bool((winners == mine).all()):
            return
        scatter(stores.region.views, stores.flat, data, stores.size, stores.unit)
        bad = _changes(stores, data) & (winners != mine)
        self._report(m, stores, bad, winners, "writes what another wave writes")

    def atomic(self, m: Machine, updates: Accesses) -> None:
        """Compare an atomic with earlier plain writes and remember it."""
        if self._epoch > codes.MAX_EPOCH:
            return
        shadow, flat, size = self._shadow(updates), updates.flat, updates.size
        mine = self._codes(m, updates) | (1 << codes.ATOMIC_AT)
        writers = shadow.read("writers", flat, size)
        plain = (writers >> codes.ATOMIC_AT) & 1 == 0
        bad = self._clash(mine, writers, updates.region) & plain
        self._report(m, updates, bad, writers, "updates what another wave writes")
        shadow.write("writers", flat, size, mine)
        clash = shadow.read("writers", flat, size) != mine
        if bool(clash.any()):
            # Several waves: a plain access of any of them would race with the others.
            several = mine | (codes.WAVE_MASK << codes.WAVE_AT)
            hit = clash.any(1)
            shadow.write("writers", flat[hit], size, several[hit])

    def _report(self, m: Machine, accesses: Accesses, bad: Tensor, other: Tensor, text: str) -> None:
        hit = bad.any(1)
        if not bool(hit.any()):
            return
        region, first = accesses.region, int(hit.nonzero()[0])
        code = other[first][int(bad[first].nonzero()[0])]
        site = self._sites.place(int(code) & ((1 << codes.SITE_BITS) - 1))
        wave = int(codes.wave_of(code)) - 1
        who = "several waves" if wave + 1 == codes.WAVE_MASK else f"wave {wave}"
        mine = self._codes(m, accesses)[first]
        foreign = region.space == 1 and bool(codes.group_of(code) != codes.group_of(mine))
        where = "another workgroup" if foreign else "the workgroup"
        message = (
            f"{text} in {region.name} ({who} of {where}, at {site.described()}) with no barrier in between"
        )
        accesses.report(m, Reason.RACE, hit, message)


def _changes(stores: Accesses, data: Tensor) -> Tensor:
    """Which accesses would change memory [accesses, 1]."""
    before = gather(stores.region.views, stores.flat, stores.size, stores.unit)
    if stores.unit == 16:
        before, data = before.view(torch.int64), data.view(torch.int64)
    count = len(stores.flat)
    return (before.reshape(count, -1) != data.reshape(count, -1)).any(1, keepdim=True)
