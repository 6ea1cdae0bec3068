"""Intervals, ratios and the decision, on simulated timers."""

from __future__ import annotations

import random
import statistics

import pytest

from kernel_lint.verify.performance.schedule import Block, Collected, collect
from kernel_lint.verify.performance.statistics import bootstrap, compare, pooled_median, student_quantile
from kernel_lint.verify.performance.telemetry import Reading


class SimulatedDevice:
    """A clock that drifts, with noise and outliers; ``times`` maps a source to its true microseconds."""

    def __init__(self, seed: int, **times: float) -> None:
        self.random, self.times, self.calls = random.Random(seed), times, 0

    def source(self, name: str):
        def measure(count: int) -> Block:
            values = []
            for _ in range(count):
                self.calls += 1
                drift = 1 + 0.05 * self.calls / 500
                noise = self.random.lognormvariate(0, 0.02)
                outlier = 1.5 if self.random.random() < 0.03 else 1.0
                values.append(1e-6 * self.times[name] * drift * noise * outlier)
            return Block(tuple(values), (0.0,) * count)

        return measure

    def collect(self, rounds: int = 12, samples: int = 5) -> Collected:
        return collect({n: self.source(n) for n in self.times}, rounds, samples, Reading)


def call(seed: int, own: float, other: float) -> str:
    collected = SimulatedDevice(seed, candidate=own, reference=other).collect()
    return compare(collected.samples("candidate"), collected.samples("reference")).call


def test_a_candidate_against_itself_is_called_different_in_at_most_five_of_a_hundred_runs() -> None:
    assert sum(call(seed, 100, 100) != "equal" for seed in range(100)) <= 5


def test_a_slowdown_of_three_percent_is_seen() -> None:
    assert sum(call(seed, 103, 100) == "slower" for seed in range(20)) >= 19


def test_a_speedup_of_three_percent_is_seen() -> None:
    assert sum(call(seed, 100, 103) == "faster" for seed in range(20)) >= 19


def test_a_difference_below_the_clocks_resolution_is_none() -> None:
    own, other = [[5.7e-6] * 5] * 12, [[5.9e-6] * 5] * 12
    assert compare(own, other).call == "faster"
    assert compare(own, other, resolution=0.5e-6).call == "equal"


def test_few_rounds_decide_nothing() -> None:
    assert compare([[1.0]] * 3, [[2.0]] * 3).call == "unknown"


def test_an_interval_covers_the_true_median() -> None:
    covered = 0
    for seed in range(60):
        generator = random.Random(seed)
        rounds = [[generator.gauss(10, 1) for _ in range(5)] for _ in range(12)]
        found = bootstrap(rounds, pooled_median)
        covered += found.low <= 10 <= found.high
    assert covered >= 54


def test_an_interval_needs_two_rounds() -> None:
    with pytest.raises(ValueError, match="two rounds"):
        bootstrap([[1.0]], pooled_median)


@pytest.mark.parametrize(("freedom", "expected"), [(4, 2.776445), (11, 2.200985), (30, 2.042272)])
def test_student_quantiles_agree_with_the_tables(freedom: int, expected: float) -> None:
    assert student_quantile(0.975, freedom) == pytest.approx(expected, rel=0.005)


def test_rounds_are_palindromes_and_alternate() -> None:
    seen: list[str] = []

    def source(name: str):
        def measure(count: int) -> Block:
            seen.append(name)
            return Block((1.0,) * count)

        return measure

    collect({"a": source("a"), "b": source("b")}, 2, 1, Reading)
    assert "".join(seen) == "abbabaab"


def test_throttled_rounds_are_dropped() -> None:
    readings = iter([Reading(2000.0, 50.0)] * 5 + [Reading(2000.0, 90.0, "thermal")] + [Reading(2000.0)] * 99)
    device = SimulatedDevice(1, candidate=10.0, reference=10.0)
    sources = {name: device.source(name) for name in device.times}
    collected = collect(sources, 4, 2, lambda: next(readings))
    assert len(collected.rounds) == 4
    assert [text.split(":")[0] for text in collected.dropped] == ["round 1"]
    assert len(collected.samples("candidate")) == 3


def test_a_round_with_a_low_clock_is_dropped() -> None:
    readings = iter([Reading(2000.0)] * 7 + [Reading(1500.0)] + [Reading(2000.0)] * 99)
    device = SimulatedDevice(1, candidate=10.0, reference=10.0)
    sources = {name: device.source(name) for name in device.times}
    collected = collect(sources, 4, 2, lambda: next(readings))
    assert "1500 MHz" in collected.dropped[0]


def test_unknown_clocks_drop_nothing() -> None:
    collected = SimulatedDevice(2, candidate=10.0, reference=10.0).collect(4, 2)
    assert not collected.dropped
    assert statistics.median(collected.samples("candidate")[0]) > 0
