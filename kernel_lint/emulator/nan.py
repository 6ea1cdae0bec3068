"""The NaN check: when a launch leaves a NaN in a float tensor that had none to read, find where it arose."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from kernel_lint.diagnostics import Reason, Severity
from kernel_lint.emulator.findings import Finding
from kernel_lint.emulator.ir import Op, Place
from kernel_lint.emulator.machine import Machine, Mask
from kernel_lint.emulator.memory import Region
from kernel_lint.emulator.values import Tensor

MAX_WATCHED = 1 << 30
"""Tensors of more bytes are not watched: the watch keeps a copy."""


def _floats(region: Region) -> Tensor | None:
    """The region's elements, when they are floats that torch can test."""
    if region.dtype is None or not region.dtype.is_floating_point or region.dtype.itemsize < 2:
        return None
    size = region.bytes.numel() // region.dtype.itemsize * region.dtype.itemsize
    return region.bytes[:size].view(region.dtype)


class NanWatch:
    """Copies of the tensors that a launch may write, and whether its inputs hold a NaN."""

    def __init__(self, stored: Iterable[Region], everything: Iterable[Region]) -> None:
        stored = list(stored)
        bases = {r.base for r in stored}
        self.watching = all(r.hi <= MAX_WATCHED for r in stored)
        inputs = [_floats(r) for r in everything if r.base not in bases]
        if any(x is not None and bool(torch.isnan(x.sum())) and bool(torch.isnan(x).any()) for x in inputs):
            self.watching = False
        self._before = [(r, r.bytes.clone()) for r in stored] if self.watching else []
        self._region: Region | None = None
        self._index = 0

    def appeared(self) -> bool:
        """Whether there is a NaN now where there was none, or where other bits were."""
        for region, before in self._before:
            now = _floats(region)
            if now is None:
                continue
            bad = torch.isnan(now)
            if not bool(bad.any()):
                continue
            old = before[: now.numel() * now.element_size()].view(now.dtype)
            new = bad & ~torch.isnan(old)
            if bool(new.any()):
                self._region, self._index = region, int(new.nonzero()[0])
                return True
        return False

    @contextlib.contextmanager
    def replaying(self) -> Iterator[None]:
        """Put the bytes from before the launch back for a while."""
        after = [(region, region.bytes.clone()) for region, _ in self._before]
        for region, before in self._before:
            region.bytes.copy_(before)
        try:
            yield
        finally:
            for region, final in after:
                region.bytes.copy_(final)

    def unexplained(self, kernel: str, place: Place) -> Finding:
        """The finding when no operation made the NaN out of numbers (integers reinterpreted, for
        instance)."""
        assert self._region is not None
        return Finding(
            Reason.NONFINITE,
            Severity.ERROR,
            kernel,
            place,
            f"leaves a NaN in element {self._index} of {self._region.name}",
            buffer=self._region.name,
        )


class FirstNan(Exception):  # noqa: N818 (it ends a search, it is no failure)
    """The first NaN has been found."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(str(finding))
        self.finding = finding


class NanTracer:
    """Looks at every float result for a NaN that no operand explains, in active lanes."""

    def nan(
        self, m: Machine, mask: Mask, op: Op, results: tuple[Any, ...], operands: tuple[Any, ...]
    ) -> None:
        """Called after each operation with a float result; raises :class:`FirstNan`."""
        bad = _lanes_with_nan(results[0])
        if bad is None or not bool(bad.any()):
            return
        if op.name.startswith(
            ("ub.", "llvm.load", "rocdl.raw", "vector.from", "arith.constant", "llvm.mlir")
        ):
            return
        for operand in operands:
            explained = _lanes_with_nan(operand)
            if explained is not None:
                bad = bad & ~explained if "mfma" not in op.name else bad & ~explained.any()
        active = bad if mask is None else bad & mask
        if not bool(active.any()):
            return
        row, lane = (int(x) for x in active.nonzero()[0])
        raise FirstNan(
            Finding(
                Reason.NONFINITE,
                Severity.ERROR,
                m.env.kernel,
                op.place,
                f"the first NaN that reaches memory: {op.name} makes one out of numbers",
                m.block_xyz(m.first + row),
                lane,
            )
        )

    def record(self, m: Machine, mask: Mask, op: Op, values: tuple[Any, ...]) -> None:
        """Traces of values are not wanted in a replay."""


def _lanes_with_nan(value: Any) -> Tensor | None:
    if not isinstance(value, torch.Tensor) or not value.dtype.is_floating_point:
        return None
    bad = torch.isnan(value)
    return bad.flatten(2).any(2) if bad.ndim > 2 else bad
