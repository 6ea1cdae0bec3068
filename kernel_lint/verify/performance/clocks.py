"""Takes one sample: the time from the start of a call until the device has done its work.

It runs in the process of the code that it times, so everything that it uses is bound before that code
is imported. What it says is checked against the judge's own clock
(:func:`kernel_lint.verify.performance.validity.slower_on_the_wall`).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any, Protocol

import torch

# Bytes written between samples: this many times the last-level cache, at most a gibibyte.
_FLUSH_CACHES = 4
_FLUSH_MAXIMUM = 1 << 30
_FLUSH_DEFAULT = 256 << 20

# Why there is no graph of a call that leaves work on another stream and does not wait for it.
UNJOINED = "work on another stream that nothing waits for"

Call = Callable[[], Any]


class Clock(Protocol):
    """A way to take samples on one kind of device; ``resolution`` in seconds."""

    name: str
    resolution: float

    def sample(self, call: Call) -> tuple[float, float]:
        """Return the seconds of one call with cold caches, and those that work went on after its end."""

    def synchronize(self) -> None:
        """Wait until the device has nothing to do."""

    def busy(self, call: Call) -> float:
        """Return the seconds of one call in which a device other than the CPU worked."""

    def capture(self, call: Call) -> tuple[Call, Any] | str:
        """Return a replayer and the static result of ``call`` as a graph, or why there is none."""


class WallClock:
    """Times calls by the wall: for code that runs on the CPU."""

    name = "wall clock"
    resolution = 1e-7

    def __init__(self) -> None:
        self._now = time.perf_counter

    def sample(self, call: Call) -> tuple[float, float]:
        """Time one call; the CPU's work ends with it."""
        started = self._now()
        call()
        return self._now() - started, 0.0

    def synchronize(self) -> None:
        """Return at once."""

    def busy(self, call: Call) -> float:
        """Return 0: there is no other device."""
        return 0.0

    def capture(self, call: Call) -> tuple[Call, Any] | str:
        """Say that there are no graphs."""
        return "the CPU has no graphs"


class DeviceClock:
    """Times calls on a ``torch.cuda`` device (CUDA or ROCm) with events."""

    name = "device events"
    # CUDA Runtime API, cudaEventElapsedTime: "with a resolution of around 0.5 microseconds".
    resolution = 0.5e-6

    def __init__(self) -> None:
        self._now = time.perf_counter
        self._synchronize = torch.cuda.synchronize
        self._event: Any = torch.cuda.Event
        self._record = torch.cuda.Event.record
        self._wait = torch.cuda.Event.synchronize
        self._elapsed = torch.cuda.Event.elapsed_time
        self._graph: Any = torch.cuda.CUDAGraph
        self._capture: Any = torch.cuda.graph
        self._stream: Any = torch.cuda.Stream
        self._on: Any = torch.cuda.stream
        self._zero = torch.Tensor.zero_
        self._empty = torch.empty
        self._profile, self._activity = torch.profiler.profile, torch.profiler.ProfilerActivity.CUDA
        self._reset_persisting = _persisting_reset()
        self._buffer: torch.Tensor | None = None

    def sample(self, call: Call) -> tuple[float, float]:
        """Flush the caches last before the call, time it with events, and see what is left running."""
        start, end = self._event(enable_timing=True), self._event(enable_timing=True)
        self._flush()
        self._record(start)
        call()
        self._record(end)
        self._wait(end)
        before = self._now()
        self._synchronize()
        return self._elapsed(start, end) * 1e-3, self._now() - before

    def synchronize(self) -> None:
        """Wait for all streams of the device."""
        self._synchronize()

    def busy(self, call: Call) -> float:
        """Return the summed times of the kernels of one call, as torch's profiler saw them."""
        with self._profile(activities=[self._activity], acc_events=True) as seen:
            call()
            self._synchronize()
        events = (e for e in seen.events() if str(e.device_type).endswith("CUDA"))
        return 1e-6 * sum(float(event.time_range.elapsed_us()) for event in events)

    def _flush(self) -> None:
        """Overwrite the last-level cache, after lifting any part of it that was set to persist."""
        if self._buffer is None:
            size = getattr(torch.cuda.get_device_properties(), "L2_cache_size", 0) * _FLUSH_CACHES
            size = min(size or _FLUSH_DEFAULT, _FLUSH_MAXIMUM)
            self._buffer = self._empty(size, dtype=torch.int8, device="cuda")
        self._reset_persisting()
        self._zero(self._buffer)

    def capture(self, call: Call) -> tuple[Call, Any] | str:
        """Capture ``call`` into a graph; work outside the captured stream makes that fail."""
        graph = self._graph()
        try:
            side = self._stream()
            with self._on(side):
                call()
            self._synchronize()
            with self._capture(graph):
                result = call()
            graph.replay()
            self._synchronize()
        except Exception as error:
            with contextlib.suppress(Exception):
                self._synchronize()
            # cudaErrorStreamCaptureUnjoined, hipErrorStreamCaptureUnjoined: "unjoined work".
            if "unjoined" in str(error):
                return UNJOINED
            return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        return graph.replay, result


def _persisting_reset() -> Call:
    """Return a function that resets L2 lines set to persist (CUDA only; needs cuda-bindings)."""
    if torch.version.hip is not None:
        return _nothing
    try:
        from cuda.bindings import driver
    except ImportError:
        return _nothing
    reset: Call = driver.cuCtxResetPersistingL2Cache
    return reset


def _nothing() -> None:
    """Do nothing."""


def open_clock(device: str) -> Clock:
    """Return the clock for a torch device name."""
    return WallClock() if device == "cpu" else DeviceClock()
