"""Values at a source line for chosen lanes, and the place of the first NaN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from kernel_lint.emulator.ir import Op
from kernel_lint.emulator.machine import Machine, Mask
from kernel_lint.emulator.memory import Ptr, Resource
from kernel_lint.emulator.values import Tensor


@dataclass(frozen=True, slots=True)
class TraceRecord:
    """One execution of one operation: its values by lane (None where the lane was masked off)."""

    kernel: str
    place: str
    operation: str
    type: str
    workgroup: tuple[int, int, int]
    values: tuple[tuple[int, Any], ...]

    def __str__(self) -> str:
        lanes = ", ".join(
            f"lane {lane}: {'(inactive)' if value is None else value}" for lane, value in self.values
        )
        return f"{self.place} {self.operation} {self.type} workgroup {self.workgroup}: {lanes}"


class Tracer:
    """Records values of chosen lanes of one workgroup."""

    def __init__(self, lanes: tuple[int, ...], workgroup: int, limit: int = 10_000) -> None:
        self._lanes, self._workgroup, self._limit = lanes, workgroup, limit
        self._records: list[TraceRecord] = []

    def records(self) -> tuple[TraceRecord, ...]:
        """What was recorded since the last :meth:`clear`, at most the limit."""
        return tuple(self._records)

    def clear(self) -> None:
        """Forget everything."""
        self._records.clear()

    def record(self, m: Machine, mask: Mask, op: Op, values: tuple[Any, ...]) -> None:
        """Record the results of an operation."""
        row = self._workgroup - m.first
        if not isinstance(m, Machine) or not 0 <= row < m.count or len(self._records) >= self._limit:
            return
        lanes = [lane for lane in self._lanes if lane < m.lanes]
        for value, mtype in zip(values, op.result_types, strict=True):
            shown = tuple(
                (lane, _at(value, row, lane) if _active(mask, row, lane) else None) for lane in lanes
            )
            self._records.append(
                TraceRecord(
                    m.env.kernel, str(op.place), op.name, str(mtype), m.block_xyz(self._workgroup), shown
                )
            )


def _active(mask: Mask, row: int, lane: int) -> bool:
    return mask is None or bool(_pick(mask, row, lane))


def _pick(tensor: Tensor, row: int, lane: int) -> Tensor:
    return tensor[row if tensor.shape[0] > 1 else 0, lane if tensor.shape[1] > 1 else 0]


def _at(value: Any, row: int, lane: int) -> Any:
    if isinstance(value, (Ptr, Resource)):
        address = value.address
        return hex(int(_pick(address, row, lane)) if isinstance(address, torch.Tensor) else int(address))
    if isinstance(value, torch.Tensor):
        return _pick(value, row, lane).tolist()
    if isinstance(value, tuple):
        return tuple(_at(v, row, lane) for v in value)
    return value
