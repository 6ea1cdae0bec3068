"""Times that are refused, the roofline, and the work of a reference."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from kernel_lint.verify.performance import validity
from kernel_lint.verify.performance.bench import Bench
from kernel_lint.verify.performance.ceilings import Ceilings, load_ceilings, store_ceilings
from kernel_lint.verify.performance.contents import renew, renewable
from kernel_lint.verify.performance.roofline import bound_seconds, limits_of, place
from kernel_lint.verify.performance.schedule import Block
from kernel_lint.verify.performance.work import Work, count
from kernel_lint.verify.trees import save_tree

COPY = Work(0.0, 2**26, 2**28, 2**28, "float32", True)


@pytest.mark.parametrize("value", [0.0, -1e-6, float("nan"), float("inf"), "1", None])
def test_impossible_samples_are_refused(value: object) -> None:
    assert "took" in validity.unusable([Block((1e-6, value))])  # type: ignore[arg-type]


def test_no_samples_are_refused() -> None:
    assert validity.unusable([Block(())])


def test_sound_samples_are_accepted() -> None:
    assert not validity.unusable([Block((1e-6, 2e-6))])


def test_work_on_another_stream_is_seen() -> None:
    reference = [Block((50e-6,), (6e-6,))]
    assert "another stream" in validity.work_left([Block((5e-6,), (250e-6,))], reference)
    assert not validity.work_left([Block((5e-6,), (8e-6,))], reference)


def test_the_judges_clock_decides() -> None:
    assert validity.slower_on_the_wall(5e-6, 250e-6, "graph")
    assert not validity.slower_on_the_wall(5e-6, 20e-6, "graph")


def test_threads_are_seen() -> None:
    assert validity.threads_left(10, 12, 0)
    assert validity.threads_left(10, 10, 1)
    assert not validity.threads_left(10, 10, 0)


def test_a_time_under_the_bound_is_refused() -> None:
    bound, why = bound_seconds("NVIDIA H200", COPY, 0)
    assert bound == pytest.approx(2**29 / 4.8e12)
    assert validity.faster_than_possible(0.5 * bound, bound, why)
    assert not validity.faster_than_possible(bound, bound, why)


def test_the_cache_and_unread_inputs_lower_the_bound() -> None:
    cached, _ = bound_seconds("NVIDIA H200", COPY, 2**28)
    sparse, _ = bound_seconds("NVIDIA H200", Work(0.0, 0.0, 2**28, 2**28, "float32", False), 0)
    assert cached == sparse == pytest.approx(2**28 / 4.8e12)


def test_an_unknown_gpu_has_no_bound() -> None:
    assert bound_seconds("Unheard Of", COPY, 0) == (None, "")


def test_measured_ceilings_come_before_the_data_sheet(tmp_path: Path) -> None:
    path = tmp_path / "ceilings.json"
    store_ceilings(Ceilings("NVIDIA H200", 4277.0, {"bf16": 795.0}, "2026-01-01", "2"), path)
    store_ceilings(Ceilings("Other", 1.0), path)
    kept = load_ceilings("NVIDIA H200", path)
    limits = limits_of("NVIDIA H200", "bfloat16", kept)
    assert limits.bandwidth == pytest.approx(4277e9)
    assert limits.peak == pytest.approx(795e12)
    assert "measured" in limits.bandwidth_source
    sheet = limits_of("NVIDIA H200", "float16", Ceilings("NVIDIA H200"))
    assert sheet.bandwidth == pytest.approx(4800e9)


def test_a_placement_has_its_share_of_the_roofline() -> None:
    limits = limits_of("NVIDIA H200", "float32", Ceilings("NVIDIA H200", 4000.0))
    found = place(2 * 2**29 / 4e12, COPY, limits)
    assert found.percent == pytest.approx(50)
    assert found.bound == "memory"
    assert found.gbs == pytest.approx(2000)


class Product(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(8, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ self.weight)


def test_work_is_counted() -> None:
    work = count(Product(), {"x": torch.randn(4, 8)})
    assert work.matrix_flops == 2 * 4 * 8 * 16
    assert work.vector_ops == 4 * 16
    assert work.input_bytes == 4 * (4 * 8 + 8 * 16)
    assert work.output_bytes == 4 * 4 * 16
    assert work.dense


def test_an_expanded_input_counts_what_it_stores() -> None:
    work = count(torch.nn.ReLU(), {"input": torch.randn(1, 8).expand(100, 8)})
    assert work.input_bytes == 32


def test_given_work_replaces_counted() -> None:
    work = COPY.overridden(5.0, 7.0)
    assert (work.matrix_flops, work.bytes) == (5.0, 7.0)
    assert "given" in work.source


def test_renewed_contents_differ_and_can_be_repeated() -> None:
    first = {"x": torch.arange(12.0).reshape(3, 4), "index": torch.arange(3)}
    second = {k: v.clone() for k, v in first.items()}
    before = first["x"].clone()
    renew(first, 5)
    renew(second, 5)
    assert not torch.equal(first["x"], before)
    assert torch.equal(first["x"], second["x"])
    assert torch.equal(first["index"], torch.arange(3))
    assert torch.equal(first["x"].flatten().sort().values, before.flatten())


def test_integers_are_not_renewed() -> None:
    assert not renewable({"index": torch.arange(3), "one": torch.zeros(1)})


def test_a_reference_that_sleeps_is_no_measure() -> None:
    assert "2000 of the 2100 us" in validity.sleeping(2e-3, 2.1e-3)
    assert not validity.sleeping(0.4e-3, 2e-3)
    assert not validity.sleeping(50e-6, 60e-6)


def test_a_reference_far_from_the_roofline_is_noted() -> None:
    assert "0.5%" in validity.far_from_the_roofline(0.5)
    assert not validity.far_from_the_roofline(40.0)
    assert not validity.far_from_the_roofline(None)


class Waiting:
    """A simulated device that works for ``seconds`` while the processor waits for it."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def busy(self, call: object) -> float:
        return self.seconds


@pytest.mark.parametrize(("device_seconds", "sleeps"), [(0.0, True), (20e-3, False)])
def test_waiting_for_a_device_is_no_sleep(device_seconds: float, sleeps: bool) -> None:
    bench = Bench("cpu")
    bench._clock = Waiting(device_seconds)  # type: ignore[assignment]
    idle, wall = bench._idle(lambda: time.sleep(4e-3))
    assert wall >= 4e-3
    assert bool(validity.sleeping(idle, wall)) is sleeps


class Capturing(Waiting):
    """... which makes a graph of every call."""

    name, resolution = "simulated", 1e-7

    def synchronize(self) -> None: ...

    def capture(self, call: Callable[[], object]) -> tuple[Callable[[], object], object]:
        return call, call()


@pytest.mark.parametrize(("pause", "sleeps"), [(4e-3, True), (0.0, False)])
def test_a_sleep_is_seen_also_where_graphs_are_timed(tmp_path: Path, pause: float, sleeps: bool) -> None:
    save_tree({"x": torch.zeros(4)}, tmp_path / "draw")
    bench = Bench("cpu", synchronize=lambda: None)
    bench._clock = Capturing(0.0)  # type: ignore[assignment]
    request = {"action": "load", "slot": "s", "files": [str(tmp_path / "draw")], "graph": True, "warmup": 1}

    def model(x: torch.Tensor) -> torch.Tensor:
        time.sleep(pause)
        return x

    facts = bench.answer({**request, "idle": True}, model)
    assert facts["mode"] == "graph"
    assert bool(validity.sleeping(*facts["idle_seconds"])) is sleeps
