"""Medians, bootstrap intervals, and the decision whether two times differ.

Rounds, not samples, are resampled: samples of one block share the clock and the temperature of their
moment, so they are no independent evidence. With few rounds the plain percentile interval is too short;
it is widened as T. C. Hesterberg, "What Teachers Should Know About the Bootstrap" (The American
Statistician 69(4), 2015, section 4.1, "expanded percentile interval") says.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

RESAMPLES = 2000
CONFIDENCE = 0.95
# A difference below this is not called one, however sure it is: clocks and placement of buffers
# differ that much between two processes that run the same code.
RESOLUTION = 0.01
MINIMUM_ROUNDS = 4

Statistic = Callable[[Sequence[Sequence[float]]], float]


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its 95% confidence interval; the unit is that of the data."""

    value: float
    low: float
    high: float

    def scaled(self, factor: float) -> Interval:
        """Return the interval in another unit."""
        return Interval(self.value * factor, self.low * factor, self.high * factor)

    def to_json(self) -> dict[str, float]:
        """Return plain JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times as fast the second of two is (``other`` time over ``own`` time), and what to call it."""

    speedup: Interval
    call: str
    rounds: int

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {"speedup": self.speedup.to_json(), "call": self.call, "rounds": self.rounds}


def student_quantile(probability: float, freedom: int) -> float:
    """Return the quantile of Student's t distribution.

    The expansion in 1/freedom of Abramowitz and Stegun, "Handbook of Mathematical Functions", 26.7.5;
    its error is below 0.5% from 4 degrees of freedom on.
    """
    z = statistics.NormalDist().inv_cdf(probability)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return float(sum(term / freedom**power for power, term in enumerate(terms)))


def bootstrap(rounds: Sequence[Sequence[float]], statistic: Statistic, seed: int = 0) -> Interval:
    """Return ``statistic`` of all rounds with its interval from resampled rounds.

    ``rounds`` are lists of samples. Raises ValueError for fewer than two rounds.
    """
    count = len(rounds)
    if count < 2:
        raise ValueError("an interval needs at least two rounds")
    generator = random.Random(seed)
    values = sorted(statistic(generator.choices(rounds, k=count)) for _ in range(RESAMPLES))
    tail = (1 - CONFIDENCE) / 2
    z = math.sqrt(count / (count - 1)) * student_quantile(tail, count - 1)
    share = statistics.NormalDist().cdf(z)
    low = values[int(share * (RESAMPLES - 1))]
    high = values[math.ceil((1 - share) * (RESAMPLES - 1))]
    return Interval(statistic(rounds), low, high)


def pooled_median(rounds: Sequence[Sequence[float]]) -> float:
    """Return the median of all samples of all rounds."""
    return statistics.median(value for values in rounds for value in values)


def _geometric_mean(rounds: Sequence[Sequence[float]]) -> float:
    return math.exp(statistics.fmean(values[0] for values in rounds))


def compare(
    own: Sequence[Sequence[float]], other: Sequence[Sequence[float]], resolution: float = 0.0, seed: int = 0
) -> Ratio:
    """Compare two sources that took turns: ``own[i]`` and ``other[i]`` are the samples of round ``i``.

    The ratio is taken inside each round, where both saw the same clock. ``call`` is ``faster`` or
    ``slower`` when the interval excludes 1 and the difference is at least :data:`RESOLUTION` and
    ``resolution`` (of the clock, in the samples' unit), else ``equal``; with too few rounds ``unknown``.
    """
    logs = [[math.log(statistics.median(b) / statistics.median(a))] for a, b in zip(own, other, strict=True)]
    speedup = bootstrap(logs, _geometric_mean, seed)
    apart = abs(pooled_median(own) - pooled_median(other))
    if len(logs) < MINIMUM_ROUNDS:
        call = "unknown"
    elif apart < resolution:
        call = "equal"
    elif speedup.low > 1 and speedup.value >= 1 + RESOLUTION:
        call = "faster"
    elif speedup.high < 1 and speedup.value <= 1 / (1 + RESOLUTION):
        call = "slower"
    else:
        call = "equal"
    return Ratio(speedup, call, len(logs))
