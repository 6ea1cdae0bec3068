"""The public reports about timing, on a simulated device; the others are in ``tests/verify``."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from simulated_cuda import SimulatedCuda

from kernel_lint.diagnostics import Reason
from kernel_lint.verify.backends import load_backend
from kernel_lint.verify.performance import validity
from kernel_lint.verify.performance.clocks import UNJOINED, Call
from kernel_lint.verify.performance.schedule import Block, Collected, Round
from kernel_lint.verify.performance.stage import Measurement, Refusal, TimingOptions, _Source, times
from kernel_lint.verify.performance.work import Work

COPY = Work(0.0, 2**20, 2**20, 2**20, "float32", True)


def believe(candidate: Block, reference: Block) -> None:
    """Have the stage look at one round; raises :class:`Refusal`."""
    one = Round(blocks={"candidate": [candidate], "reference": [reference]})
    collected = Collected((one,), (one,), ())
    names = (SimpleNamespace(name="candidate"), SimpleNamespace(name="reference"))
    Measurement._believe(None, *names, collected, COPY, {"name": "Unheard Of"})  # type: ignore[arg-type]


def sampled(device: SimulatedCuda, patch: pytest.MonkeyPatch) -> Block:
    """Take three samples of one launch."""
    with patch.context() as inner:
        clock = device.install(inner)
        seconds, leftover = zip(*(clock.sample(device.launch) for _ in range(3)), strict=True)
    return Block(seconds, leftover)


def test_events_see_what_the_stream_does(monkeypatch: pytest.MonkeyPatch) -> None:
    block = sampled(SimulatedCuda(), monkeypatch)
    assert block.seconds == pytest.approx([50e-6] * 3)
    believe(block, block)


def test_work_on_another_stream_is_invalid_timing(monkeypatch: pytest.MonkeyPatch) -> None:
    """pytorch/helion#2994: 250 us of work, of which events on the current stream see 5."""
    hidden = sampled(SimulatedCuda(kernel_seconds=5e-6, side_seconds=250e-6), monkeypatch)
    assert hidden.seconds == pytest.approx([5e-6] * 3)
    with pytest.raises(Refusal, match="another stream") as caught:
        believe(hidden, sampled(SimulatedCuda(), monkeypatch))
    assert caught.value.reason is Reason.INVALID_TIMING


def captured(patch: pytest.MonkeyPatch, error: str) -> tuple[Call, object] | str:
    """Capture a launch on a device that ends the capture with an error."""

    class Stream:
        def __enter__(self) -> None: ...

        def __exit__(self, *_: object) -> None: ...

    class Capture(Stream):
        def __exit__(self, *_: object) -> None:
            raise RuntimeError(error)

    device = SimulatedCuda()
    with patch.context() as inner:
        clock = device.install(inner)
        clock._graph, clock._stream = object, object
        clock._on, clock._capture = (lambda _: Stream()), (lambda _: Capture())
        return clock.capture(device.launch)


# What CUDA 13 and ROCm 7 say.
UNJOINED_ERRORS = (
    "CUDA error: capturing stream has unjoined work\nCUDA kernel errors might be asynchronously reported",
    "HIP error: capturing stream has unjoined work\nHIP kernel errors might be asynchronously reported",
)


@pytest.mark.parametrize("error", UNJOINED_ERRORS)
def test_a_stream_that_nothing_waits_for_shows_when_calls_are_captured(
    monkeypatch: pytest.MonkeyPatch, error: str
) -> None:
    why = captured(monkeypatch, error)
    assert why == UNJOINED
    answer = {"mode": "eager", "why": why, "unjoined": True, "threads": 1, "sets": 2}
    reply = SimpleNamespace(ok=True, data=answer, seconds=1.0)
    candidate = _Source("candidate", lambda *_, **__: reply, Path(), "s", [])
    measurement = object.__new__(Measurement)
    measurement._options, measurement._shape = TimingOptions(), SimpleNamespace(id="s")  # type: ignore[assignment]
    with pytest.raises(Refusal, match="another stream that nothing waits for") as caught:
        measurement._load(candidate, graph=True)
    assert caught.value.reason is Reason.INVALID_TIMING


def test_another_reason_not_to_capture_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    error = "CUDA error: operation not permitted when stream is capturing\nmore"
    assert captured(monkeypatch, error) == f"RuntimeError: {error.splitlines()[0]}"


def test_a_time_of_zero_is_invalid_timing_and_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """triton-lang/triton#8948: an estimate of zero divided."""
    nothing = sampled(SimulatedCuda(kernel_seconds=0.0), monkeypatch)
    with pytest.raises(Refusal, match=r"took 0\.0 s") as caught:
        believe(nothing, sampled(SimulatedCuda(), monkeypatch))
    assert caught.value.reason is Reason.INVALID_TIMING


def test_times_come_from_events_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """flashinfer-ai/flashinfer#2145: no profiler is asked, so none can see no kernels and report 0."""

    def blind(*_arguments: object, **_keywords: object) -> None:
        raise AssertionError("a profiler was asked for a time")

    monkeypatch.setattr("torch.profiler.profile", blind)
    device = SimulatedCuda()
    with monkeypatch.context() as inner:
        clock = device.install(inner)
        assert clock.sample(device.launch)[0] == pytest.approx(50e-6)
    assert clock.name == "device events"


def test_lines_that_persist_are_reset_before_the_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    """gpu-mode/pygpubench#49: what was set to persist in the L2 survived the flush."""
    device = SimulatedCuda()
    sampled(device, monkeypatch)
    assert device.log[-3:] == ["reset persisting", "flush", "launch"]


def test_the_flush_is_the_last_thing_before_the_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """deepseek-ai/DeepGEMM#68: tensors were built after the flush."""
    device = SimulatedCuda()
    sampled(device, monkeypatch)
    launches = [at for at, what in enumerate(device.log) if what == "launch"]
    assert len(launches) == 3
    assert all(device.log[at - 1] == "flush" for at in launches)
    assert max(at for at, what in enumerate(device.log) if what == "allocate") < launches[0]


def test_a_clock_that_lies_is_caught_by_the_judges() -> None:
    """gpu-mode/reference-kernels#162: a patched event says 1 us, the judge waits 250 us a call."""
    assert "tampered" in validity.slower_on_the_wall(1e-6, 250e-6, "graph")


@pytest.mark.parametrize("name", ["rocm", "device"])
def test_both_backends_with_a_device_take_times(name: str) -> None:
    backend = load_backend(name)
    assert "performance" in backend.stages()
    assert times(backend, {})
    assert not times(backend, {"timing": "off"})
    assert "timing=off" in backend.limitation()
    assert backend.device({}) == "cuda"
