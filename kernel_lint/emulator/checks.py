"""What the emulator looks for while it runs.

:class:`NoChecks` has every hook and does nothing; :class:`Checks` looks for accesses out of bounds, reads of
LDS or private memory that nobody wrote, races, barriers in divergent flow and misaligned vectors.
"""

from __future__ import annotations

import torch

from kernel_lint.diagnostics import Reason, Severity
from kernel_lint.emulator.accesses import Accesses
from kernel_lint.emulator.ir import Place
from kernel_lint.emulator.machine import Machine, Mask
from kernel_lint.emulator.memory import Region, gather, scatter, unit_views
from kernel_lint.emulator.numerics.packing import joint_shape
from kernel_lint.emulator.races import RaceCheck
from kernel_lint.emulator.values import Tensor


class NoChecks:
    """Every hook of the checks, doing nothing: ``--checks none``."""

    alignment = False

    def attach_lds(self, region: Region) -> None:
        """LDS was laid out for a chunk of workgroups."""

    def attach_private(self, region: Region) -> None:
        """A private array was made."""

    def out_of_bounds(
        self, m: Machine, bad: Tensor, region: Region, off: Tensor, size: int, place: Place, what: str
    ) -> None:
        """Lanes ``bad`` access ``size`` bytes at ``off`` outside their region."""

    def check_alignment(
        self, m: Machine, mask: Mask, region: Region, off: Tensor, align: int, place: Place
    ) -> None:
        """An access that promises an alignment."""

    def loaded(
        self, m: Machine, mask: Mask, region: Region, flat: Tensor, size: int, unit: int, place: Place
    ) -> None:
        """A load at ``flat`` (with the instance's offset), in the lanes of ``mask``."""

    def loaded_some(self, m: Machine, loads: Accesses) -> None:
        """A load in some lanes."""

    def stored(self, m: Machine, stores: Accesses, data: Tensor) -> None:
        """A store of units ``data``, right before it happens."""

    def atomic(self, m: Machine, updates: Accesses) -> None:
        """An atomic, right before it happens."""

    def barrier(self, m: Machine, mask: Mask, place: Place) -> None:
        """A workgroup barrier."""

    def wave_barrier(self, m: Machine, mask: Mask, place: Place) -> None:
        """A barrier instruction, which every wave that reaches it executes."""

    def lanes_read(self, m: Machine, mask: Mask, source: Tensor, place: Place) -> None:
        """A read of other lanes' registers."""

    def undefined(self, m: Machine, mask: Mask, place: Place) -> None:
        """An operation computes with a value that nothing has set."""

    def begin(self, m: Machine) -> None:
        """A chunk of workgroups starts."""

    def finish(self, m: Machine) -> None:
        """The chunk has ended."""


class Checks(NoChecks):
    """The checks named in ``enabled``.

    ``tracked`` are the bases of the global regions that the kernel may store to; ``synchronizes`` says
    that it
    orders workgroups by atomics or fences, so that accesses of different workgroups are not compared.
    """

    def __init__(
        self, enabled: frozenset[str], load_errors: bool, tracked: frozenset[int], synchronizes: bool
    ) -> None:
        self.enabled = enabled
        self.alignment = "alignment" in enabled
        self._bounds = "bounds" in enabled
        self._init = "uninitialized" in enabled
        self._barriers = "barriers" in enabled
        self._load_errors = load_errors
        self.races = RaceCheck(tracked, synchronizes) if "races" in enabled else None
        self._arrivals: Tensor | None = None
        self._last_barrier = Place()

    def begin(self, m: Machine) -> None:
        self._arrivals = None
        if self.races:
            self.races.begin(m)

    def attach_lds(self, region: Region) -> None:
        if self._init:
            region.init = unit_views(torch.zeros_like(region.bytes))
        if self.races:
            self.races.attach(region)

    def attach_private(self, region: Region) -> None:
        if self._init:
            region.init = unit_views(torch.zeros_like(region.bytes))

    def out_of_bounds(
        self, m: Machine, bad: Tensor, region: Region, off: Tensor, size: int, place: Place, what: str
    ) -> None:
        if not self._bounds:
            return
        note = what == "buffer load" and not self._load_errors
        outcome = (
            "reads what follows on a GPU, and zero here"
            if "load" in what
            else "writes over what follows on a GPU, and is dropped here"
        )
        m.report(
            Reason.OUT_OF_BOUNDS,
            place,
            f"a {what} of {size} bytes outside {region.name} ({region.hi - region.lo} bytes): it {outcome}",
            bad,
            off - region.lo,
            region.name,
            Severity.INFO if note else Severity.ERROR,
        )

    def check_alignment(
        self, m: Machine, mask: Mask, region: Region, off: Tensor, align: int, place: Place
    ) -> None:
        bad = ((off + (region.base if region.space == 1 else 0)) & (align - 1)) != 0
        if mask is not None:
            bad = bad & mask
        if bool(bad.any()):
            m.report(
                Reason.MISALIGNED,
                place,
                f"an access to {region.name} that promises {align}-byte alignment is not aligned",
                bad,
                off,
                region.name,
            )

    def loaded(
        self, m: Machine, mask: Mask, region: Region, flat: Tensor, size: int, unit: int, place: Place
    ) -> None:
        if region.init is None and (self.races is None or not self.races.watches(region)):
            return
        rows, shape = None, (flat.shape[0], flat.shape[1])
        if mask is None and flat.shape[1] == 1 and m.waves > 1 and self.races and self.races.watches(region):
            # Every wave reads; one lane of each stands for it.
            shape = (m.count, m.lanes)
            rows = torch.arange(0, m.count * m.lanes, m.wave, device=m.device)
            flat = flat.expand(m.count, m.waves)
        elif mask is not None:
            rows_of, lanes_of = joint_shape(flat.shape, mask.shape)
            shape = (rows_of, lanes_of)
            rows = mask.expand(shape).reshape(-1).nonzero().squeeze(1)
            flat = flat.expand(shape).reshape(-1).index_select(0, rows)
        self.loaded_some(m, Accesses(region, flat.reshape(-1), rows, shape, size, unit, place))

    def loaded_some(self, m: Machine, loads: Accesses) -> None:
        if not loads.flat.numel():
            return
        if loads.region.init is not None:
            _check_initialized(m, loads)
        if self.races and self.races.watches(loads.region):
            self.races.load(m, loads)

    def stored(self, m: Machine, stores: Accesses, data: Tensor) -> None:
        init = stores.region.init
        if init is not None:
            count = data.numel() * stores.unit
            ones = torch.full((count,), -1, dtype=torch.int8, device=m.device).view(data.dtype)
            scatter(init, stores.flat, ones, stores.size, stores.unit)
        if self.races and self.races.watches(stores.region):
            self.races.store(m, stores, data)

    def atomic(self, m: Machine, updates: Accesses) -> None:
        if updates.region.init is not None:
            _check_initialized(m, updates)
        if self.races and self.races.watches(updates.region):
            self.races.atomic(m, updates)

    def barrier(self, m: Machine, mask: Mask, place: Place) -> None:
        if mask is not None and mask is not m.mask:
            everyone = m.spread(m.mask) if m.mask is not None else None
            active = mask.expand(m.count, m.lanes)
            missing = ~active if everyone is None else ~active & everyone
            partial = (active.any(1) & missing.any(1)).unsqueeze(1) & active
            if self._barriers and bool(partial.any()):
                m.report(
                    Reason.BARRIER,
                    place,
                    "a barrier in divergent flow: some threads of the workgroup do not reach it, "
                    "and the others wait for ever",
                    partial,
                )
        self._count(m, mask, place)

    def wave_barrier(self, m: Machine, mask: Mask, place: Place) -> None:
        self._count(m, mask, place)

    def _count(self, m: Machine, mask: Mask, place: Place) -> None:
        self._last_barrier = place
        arrived = None
        if mask is not None and mask is not m.mask:
            arrived = m.by_wave(mask).any(2)
            if self._arrivals is None:
                self._arrivals = torch.zeros((m.count, m.waves), dtype=torch.int32, device=m.device)
            self._arrivals = self._arrivals + arrived
        if self.races:
            self.races.barrier(m, arrived)

    def undefined(self, m: Machine, mask: Mask, place: Place) -> None:
        if self._init:
            m.report(Reason.UNINITIALIZED, place, "computes with a register that nothing has set")

    def finish(self, m: Machine) -> None:
        if self._arrivals is None or not self._barriers:
            return
        uneven = self._arrivals != self._arrivals[:, :1]
        if bool(uneven.any()):
            bad = uneven.repeat_interleave(m.wave, 1)
            m.report(
                Reason.BARRIER,
                self._last_barrier,
                "the waves of a workgroup do not pass the same number of barriers",
                bad,
            )


def _check_initialized(m: Machine, loads: Accesses) -> None:
    """Report loads of bytes that nothing has written."""
    assert loads.region.init is not None
    raw = gather(loads.region.init, loads.flat, loads.size, loads.unit)
    words = raw.view(torch.int64) if loads.unit == 16 else raw
    if bool((words == -1).all()):
        return
    missing = (words.reshape(len(loads.flat), -1) != -1).any(1)
    loads.report(
        m, Reason.UNINITIALIZED, missing, f"reads {loads.region.name} where nothing has been written"
    )
