"""What the vendor's library says about the device between two blocks: clock, heat, throttling.

NVIDIA: ``nvidia-ml-py`` (``pynvml``); AMD: ``amdsmi`` as ROCm installs it. Without either the readings
are unknown, the report says so, and no sample is dropped.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at the device; None is unknown. ``throttled`` names the reason, empty when there is none."""

    clock_mhz: float | None = None
    celsius: float | None = None
    throttled: str = ""


@dataclass(frozen=True, slots=True)
class Telemetry:
    """A way to read, and its name for the report."""

    name: str
    read: Callable[[], Reading]


def _unknown() -> Reading:
    return Reading()


def open_telemetry(uuid: str | None, index: int = 0) -> Telemetry:
    """Return the telemetry of a device, given by its UUID (NVIDIA) or its index; never raises."""
    for opener in (_nvml, _amdsmi):
        # The libraries raise their own errors for a missing driver; then there are no readings.
        with contextlib.suppress(Exception):
            return opener(uuid, index)
    return Telemetry("none: clocks and throttling unknown", _unknown)


# NVML's reasons for a lowered clock that make a time meaningless (nvml.h,
# nvmlClocksEventReasons*): hardware slowdown, software and hardware thermal, power brake. The power
# cap is not among them: a kernel that reaches it runs as fast as the board can.
_NVML_REASONS = {0x08: "hardware slowdown", 0x20: "software thermal slowdown",
                 0x40: "hardware thermal slowdown", 0x80: "power brake"}  # fmt: skip


def _nvml(uuid: str | None, index: int) -> Telemetry:
    import pynvml

    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByUUID(uuid) if uuid else pynvml.nvmlDeviceGetHandleByIndex(index)
    reasons = getattr(
        pynvml, "nvmlDeviceGetCurrentClocksEventReasons", pynvml.nvmlDeviceGetCurrentClocksThrottleReasons
    )

    def read() -> Reading:
        bits = int(reasons(handle))
        return Reading(
            float(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)),
            float(pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)),
            ", ".join(name for bit, name in _NVML_REASONS.items() if bits & bit),
        )

    read()
    return Telemetry("NVML", read)


def _amdsmi(_uuid: str | None, index: int) -> Telemetry:
    import amdsmi

    amdsmi.amdsmi_init()
    handle = amdsmi.amdsmi_get_processor_handles()[index]

    def read() -> Reading:
        clock = amdsmi.amdsmi_get_clock_info(handle, amdsmi.AmdSmiClkType.GFX)
        heat = amdsmi.amdsmi_get_temp_metric(
            handle, amdsmi.AmdSmiTemperatureType.HOTSPOT, amdsmi.AmdSmiTemperatureMetric.CURRENT
        )
        return Reading(_number(clock.get("clk")), _number(heat), _amd_throttle(amdsmi, handle))

    read()
    return Telemetry("AMD SMI", read)


def _amd_throttle(amdsmi: Any, handle: Any) -> str:
    metrics = amdsmi.amdsmi_get_gpu_metrics_info(handle)
    status = metrics.get("throttle_status")
    return "throttle status set" if isinstance(status, (bool, int)) and bool(status) else ""


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None
