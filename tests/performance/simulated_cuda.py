"""A device on paper: ``torch.cuda`` with a clock of its own, and a record of what was done in order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from kernel_lint.verify.performance import clocks


@dataclass
class SimulatedCuda:
    """Kernels take ``kernel_seconds`` on the current stream and ``side_seconds`` where no event sees it."""

    kernel_seconds: float = 50e-6
    side_seconds: float = 0.0
    now: float = 0.0
    log: list[str] = field(default_factory=list)
    _side_until: float = 0.0

    def launch(self) -> None:
        """Be a call of a model."""
        self.log.append("launch")
        self._side_until = self.now + self.side_seconds
        self.now += self.kernel_seconds

    def synchronize(self) -> None:
        """Wait for all streams."""
        self.now = max(self.now + 3e-6, self._side_until)

    def flush(self, tensor: torch.Tensor) -> torch.Tensor:
        """Be ``Tensor.zero_`` of the buffer that flushes the cache."""
        self.log.append("flush")
        return tensor

    def allocate(self, *_arguments: Any, **_keywords: Any) -> torch.Tensor:
        """Be ``torch.empty`` on the device."""
        self.log.append("allocate")
        return torch.zeros(0)

    def install(self, patch: pytest.MonkeyPatch) -> clocks.DeviceClock:
        """Replace the parts of torch that the clock binds, and return a clock."""
        device = self

        class Event:
            def __init__(self, enable_timing: bool = False) -> None:
                self.at = 0.0

            def record(self) -> None:
                self.at = device.now

            def synchronize(self) -> None:
                device.now = max(device.now, self.at)

            def elapsed_time(self, end: Event) -> float:
                return (end.at - self.at) * 1e3

        patch.setattr(torch.cuda, "Event", Event)
        patch.setattr(torch.cuda, "synchronize", self.synchronize)
        patch.setattr(
            torch.cuda, "get_device_properties", lambda *_: type("P", (), {"L2_cache_size": 1 << 20})()
        )
        patch.setattr(torch.Tensor, "zero_", self.flush)
        patch.setattr(torch, "empty", self.allocate)
        patch.setattr(clocks, "_persisting_reset", lambda: lambda: self.log.append("reset persisting"))
        clock = clocks.DeviceClock()
        clock._now = lambda: self.now
        return clock
