"""What the emulator looks for while it runs; the base class looks for nothing."""

from __future__ import annotations

from typing import Any

from kernel_lint.emulator.ir import Place
from kernel_lint.emulator.machine import Machine, Mask
from kernel_lint.emulator.memory import Region
from kernel_lint.emulator.values import Tensor


class NoChecks:
    """Every hook of the checks, doing nothing: ``--checks none``."""

    alignment = False

    def attach_lds(self, region: Region) -> None:
        """LDS was laid out for a chunk of workgroups."""

    def attach_private(self, region: Region) -> None:
        """A private array was made."""

    def out_of_bounds(self, m: Machine, bad: Tensor, region: Region, off: Tensor, size: int, place: Place, what: str) -> None:
        """Lanes ``bad`` access ``size`` bytes at ``off`` outside their region."""

    def check_alignment(self, m: Machine, mask: Mask, region: Region, off: Tensor, align: int, place: Place) -> None:
        """An access that promises an alignment."""

    def loaded(self, m: Machine, mask: Mask, region: Region, flat: Tensor, size: int, unit: int, place: Place) -> None:
        """A load at ``flat`` (with the instance's offset), in the lanes of ``mask``."""

    def loaded_some(
        self, m: Machine, region: Region, flat: Tensor, rows: Tensor, shape: Any, size: int, unit: int, place: Place
    ) -> None:
        """A load in the lanes ``rows`` of ``shape`` flattened."""

    def stored(
        self, m: Machine, region: Region, flat: Tensor, rows: Tensor | None, shape: Any, size: int, unit: int, data: Tensor, place: Place
    ) -> None:
        """A store, right before it happens."""

    def atomic(self, m: Machine, region: Region, flat: Tensor, rows: Tensor, shape: Any, size: int, place: Place) -> None:
        """An atomic, right before it happens."""

    def barrier(self, m: Machine, mask: Mask, place: Place) -> None:
        """A workgroup barrier."""

    def wave_barrier(self, m: Machine, mask: Mask, place: Place) -> None:
        """A barrier instruction, which every wave that reaches it executes."""

    def lanes_read(self, m: Machine, mask: Mask, source: Tensor, place: Place) -> None:
        """A read of other lanes' registers."""

    def finish(self, m: Machine) -> None:
        """The chunk has ended."""
