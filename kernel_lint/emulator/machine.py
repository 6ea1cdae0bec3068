"""The emulated machine: one chunk of workgroups of one launch, all lanes at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from kernel_lint.diagnostics import Reason, Severity
from kernel_lint.emulator.findings import Finding, Findings
from kernel_lint.emulator.ir import LdsGlobal, Place
from kernel_lint.emulator.memory import GlobalMemory, Ptr, Region
from kernel_lint.emulator.numerics.packing import joint_shape
from kernel_lint.emulator.registry import Env
from kernel_lint.emulator.values import Tensor
from kernel_lint.errors import KernelFaultError

Mask = Tensor | None


# Threads of a workgroup: 16 waves of 64 (CDNA3 ISA, "Work-groups"; HIP, maxThreadsPerBlock).
MAX_THREADS = 1024
# Threads of a launch in one dimension fit 32 bits (HSA AQL dispatch packet, grid_size_x).
MAX_EXTENT = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Grid:
    """A launch: workgroups and threads in x, y, z, and bytes of dynamic LDS."""

    blocks: tuple[int, int, int]
    threads: tuple[int, int, int]
    dynamic_lds: int = 0

    def check(self, kernel: str) -> None:
        """Raise :class:`KernelFaultError` for a launch that the runtime refuses."""
        if self.lanes > MAX_THREADS:
            raise KernelFaultError(
                f"kernel {kernel} is launched with {self.lanes} threads a workgroup; "
                f"a GPU takes {MAX_THREADS}",
                "make the block smaller",
            )
        for axis, blocks, threads in zip("xyz", self.blocks, self.threads, strict=True):
            if blocks * threads > MAX_EXTENT:
                raise KernelFaultError(
                    f"kernel {kernel} is launched with {blocks} x {threads} threads in {axis}; "
                    f"a GPU takes {MAX_EXTENT}",
                    "let each thread do more, or spread the grid over two dimensions",
                )

    @property
    def workgroups(self) -> int:
        """How many workgroups."""
        return self.blocks[0] * self.blocks[1] * self.blocks[2]

    @property
    def lanes(self) -> int:
        """Threads of a workgroup."""
        return self.threads[0] * self.threads[1] * self.threads[2]


class Machine:
    """Workgroups ``first`` to ``first + count - 1`` of a launch.

    ``lanes`` is the workgroup size rounded up to whole waves; lanes past the size start masked off
    (``mask``). ``workgroup`` [count, 1] holds linear workgroup numbers, ``thread`` [1, lanes] threads.
    """

    def __init__(
        self,
        env: Env,
        grid: Grid,
        first: int,
        count: int,
        memory: GlobalMemory,
        findings: Findings,
        checker: Any,
    ) -> None:
        self.env, self.grid, self.memory, self.findings = env, grid, memory, findings
        self.first, self.count, self.wave, self.device = first, count, env.wave, env.device
        self.waves = -(-grid.lanes // env.wave)
        self.lanes = self.waves * env.wave
        self.workgroup = torch.arange(first, first + count, device=env.device).unsqueeze(1)
        self.thread = torch.arange(self.lanes, device=env.device).unsqueeze(0)
        self.mask: Mask = None if self.lanes == grid.lanes else self.thread < grid.lanes
        self.lds: Region | None = None
        self.variables: dict[str, Region] = {}
        self.checker = checker
        self.tracer: Any = None
        # The scalar register from which copies to LDS written in assembly take their base.
        self.m0: Any = 0

    def thread_id(self, axis: int) -> Tensor:
        """``gpu.thread_id``: x fastest."""
        return _coordinate(self.thread, self.grid.threads, axis)

    def block_id(self, axis: int) -> Tensor:
        """``gpu.block_id``: x fastest."""
        return _coordinate(self.workgroup, self.grid.blocks, axis)

    def place_lds(self, variables: Mapping[str, LdsGlobal]) -> None:
        """Lay the LDS variables and the dynamic LDS out and fill them with 0xFF, as a NaN shows best.

        Raises :class:`KernelLintError` when they exceed the LDS of the target.
        """
        at, places = 0, {}
        for variable in variables.values():
            if variable.space == 3 and variable.size:
                at = -(-at // variable.alignment) * variable.alignment
                places[variable.name] = (at, variable.size)
                at += variable.size
        dynamic = -(-at // 16) * 16
        total = dynamic + self.grid.dynamic_lds
        self._check_lds_size(total)
        stride = -(-max(total, 16) // 16) * 16
        data = torch.full((self.count * stride,), -1, dtype=torch.int8, device=self.device)
        instance = (torch.arange(self.count, device=self.device, dtype=torch.int32) * stride).unsqueeze(1)
        self.lds = Region(data, 3, total, 0, "LDS", instance)
        self.checker.attach_lds(self.lds)
        for name, (lo, size) in places.items():
            self.variables[name] = self.lds.part(lo, size, f"LDS variable {name}")
        for variable in variables.values():
            if variable.space == 3 and not variable.size:
                self.variables[variable.name] = self.lds.part(dynamic, self.grid.dynamic_lds, "dynamic LDS")

    def _check_lds_size(self, total: int) -> None:
        limit = {"gfx942": 65536, "gfx950": 163840, "gfx90a": 65536}.get(self.env.target, 163840)
        if total > limit:
            raise KernelFaultError(
                f"kernel {self.env.kernel} uses {total} bytes of LDS; {self.env.target} has {limit}",
                "make the tile or the number of stages smaller",
            )

    def private(self, size: int) -> Ptr:
        """A private array of ``size`` bytes for each lane (``llvm.alloca`` in space 5)."""
        stride = -(-size // 16) * 16
        cells = self.count * self.lanes
        data = torch.full((cells * stride,), -1, dtype=torch.int8, device=self.device)
        instance = (torch.arange(cells, device=self.device) * stride).reshape(self.count, self.lanes)
        region = Region(data, 5, size, 0, "private array", instance)
        self.checker.attach_private(region)
        return Ptr(region, 0)

    def spread(self, value: Tensor) -> Tensor:
        """A value with its workgroup and lane dimensions at full extent."""
        return value.expand(self.count, self.lanes, *value.shape[2:])

    def by_wave(self, value: Tensor) -> Tensor:
        """A value as [workgroups, waves, lanes of a wave, ...]."""
        return self.spread(value).reshape(self.count, self.waves, self.wave, *value.shape[2:])

    def from_waves(self, value: Tensor) -> Tensor:
        """The inverse of :meth:`by_wave`."""
        return value.reshape(self.count, self.lanes, *value.shape[3:])

    def report(
        self,
        reason: Reason,
        place: Place,
        message: str,
        bad: Tensor | None = None,
        address: Tensor | int | None = None,
        buffer: str = "",
        severity: Severity = Severity.ERROR,
    ) -> None:
        """Add a finding; ``bad`` marks the lanes that show it, ``address`` their byte offsets."""
        workgroup = lane = None
        where: int | None = address if isinstance(address, int) else None
        count = 1
        if bad is not None:
            spread = bad.expand(max(bad.shape[0], 1), max(bad.shape[1], 1))
            hits = spread.nonzero()
            count = len(hits)
            row, column = (int(x) for x in hits[0])
            workgroup = self.block_xyz(self.first + row)
            lane = column
            if isinstance(address, Tensor):
                where = int(address.expand(joint_shape(address.shape, spread.shape))[row, column])
        self.findings.add(
            Finding(reason, severity, self.env.kernel, place, message, workgroup, lane, where, buffer, count)
        )

    def block_xyz(self, linear: int) -> tuple[int, int, int]:
        """The (x, y, z) of a linear workgroup number."""
        x, y, _ = self.grid.blocks
        return linear % x, linear // x % y, linear // (x * y)


def _coordinate(linear: Tensor, extents: tuple[int, int, int], axis: int) -> Tensor:
    below = 1
    for extent in extents[:axis]:
        below *= extent
    if extents[axis] == 1:
        return torch.zeros_like(linear)
    out = torch.div(linear, below, rounding_mode="trunc") if below > 1 else linear
    above_is_one = all(extent == 1 for extent in extents[axis + 1 :])
    return out if above_is_one else torch.fmod(out, extents[axis])
