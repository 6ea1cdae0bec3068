"""Places in memory: a process's tensors lie where they lie, and a kernel bound by memory notices."""

from __future__ import annotations

import itertools
import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kernel_lint.verify.performance.schedule import Block, Measure, collect, pair_of_sets
from kernel_lint.verify.performance.statistics import compare
from kernel_lint.verify.performance.telemetry import Reading


def calls_of(sets: int, slower: float) -> Counter[str]:
    """What a candidate ``slower`` times as slow as the reference is called in 100 runs.

    Each process puts its tensors at ``sets`` places of its own, which differ by 0.75% (on a GPU two processes
    with the same code differed by 1.07% in the median); samples scatter by 0.6%, blocks by 0.2%.
    """

    def run(seed: int) -> str:
        generator = random.Random(seed)

        def source(factor: float) -> Measure:
            places = [generator.gauss(1, 0.0075) for _ in range(sets)]
            blocks = itertools.count()

            def measure(count: int) -> Block:
                pair = pair_of_sets(next(blocks), sets)
                moment = factor * 70e-6 * generator.gauss(1, 0.002)
                return Block(
                    tuple(moment * places[pair[n % 2]] * generator.gauss(1, 0.006) for n in range(count))
                )

            return measure

        collected = collect({"own": source(slower), "other": source(1.0)}, 12, 5, Reading)
        return compare(collected.samples("own"), collected.samples("other"), 0.5e-6, seed).call

    return Counter(run(seed) for seed in range(100))


def test_equal_code_at_eight_places_is_rarely_called_apart() -> None:
    assert calls_of(8, 1.0)["equal"] >= 95


def test_a_slowdown_of_three_percent_is_seen_at_eight_places() -> None:
    assert calls_of(8, 1.03)["slower"] >= 95


def test_two_places_would_not_do() -> None:
    assert calls_of(2, 1.0)["equal"] < 90


@given(st.integers(0, 40), st.integers(2, 12))
def test_a_block_uses_two_places_and_all_have_their_turn(block: int, sets: int) -> None:
    first, second = pair_of_sets(block, sets)

    assert first != second
    assert {i for b in range(sets) for i in pair_of_sets(b, sets)} == set(range(sets))
    assert 0 <= first < sets
    assert 0 <= second < sets
