"""Who is measured when: palindromic rounds (A B B A), and the rounds that a throttled device spoiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernel_lint.verify.performance.telemetry import Reading

# The device's clock may move this far from its median over the run before a round is dropped.
_CLOCK_TOLERANCE = 0.1

Measure = Callable[[int], "Block"]


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive samples of one source.

    ``seconds`` are the device's times, ``leftover`` the time that the device went on working after the end
    of each sample, both in seconds.
    """

    seconds: tuple[float, ...]
    leftover: tuple[float, ...] = ()


@dataclass(slots=True)
class Round:
    """One round: the blocks of each source, and what the device said between them."""

    blocks: dict[str, list[Block]] = field(default_factory=dict)
    readings: list[Reading] = field(default_factory=list)

    def seconds(self, source: str) -> list[float]:
        """Return the samples of one source."""
        return [value for block in self.blocks[source] for value in block.seconds]


@dataclass(frozen=True, slots=True)
class Collected:
    """All rounds; ``dropped`` says for each spoiled one why."""

    rounds: tuple[Round, ...]
    kept: tuple[Round, ...]
    dropped: tuple[str, ...]

    def samples(self, source: str) -> list[list[float]]:
        """Return the kept samples of one source, round by round."""
        return [one.seconds(source) for one in self.kept]

    def blocks(self, source: str) -> list[Block]:
        """Return every block of one source, also of the dropped rounds."""
        return [block for one in self.rounds for block in one.blocks[source]]


def pair_of_sets(block: int, sets: int) -> tuple[int, int]:
    """Return the two sets of inputs that the samples of a source's ``block`` use in turn."""
    return (2 * block % sets, (2 * block + 1) % sets)


def collect(
    sources: Mapping[str, Measure], rounds: int, samples: int, read: Callable[[], Reading]
) -> Collected:
    """Measure all sources in ``rounds`` rounds: each in order, then each in reverse order.

    A drift that is linear over a round meets every source alike. ``samples`` is the size of a block.
    """
    done: list[Round] = []
    for number in range(rounds):
        order = list(sources)[:: 1 if number % 2 == 0 else -1]
        one = Round(readings=[read()])
        for name in [*order, *reversed(order)]:
            one.blocks.setdefault(name, []).append(sources[name](samples))
            one.readings.append(read())
        done.append(one)
    return _without_throttled(done)


def _without_throttled(rounds: Sequence[Round]) -> Collected:
    clocks = sorted(r.clock_mhz for one in rounds for r in one.readings[1:] if r.clock_mhz)
    usual = clocks[len(clocks) // 2] if clocks else None
    kept, dropped = [], []
    for number, one in enumerate(rounds):
        problem = _problem(one, usual)
        if problem:
            dropped.append(f"round {number}: {problem}")
        else:
            kept.append(one)
    return Collected(tuple(rounds), tuple(kept), tuple(dropped))


def _problem(one: Round, usual: float | None) -> str:
    for reading in one.readings:
        if reading.throttled:
            return f"throttled ({reading.throttled})"
    # The first reading of a round may find the device idle.
    for reading in one.readings[1:]:
        if usual and reading.clock_mhz and reading.clock_mhz < (1 - _CLOCK_TOLERANCE) * usual:
            return f"the clock was {reading.clock_mhz:.0f} MHz, {usual:.0f} MHz is usual"
    return ""


def summary(collected: Collected) -> dict[str, Any]:
    """Return what the report says about the rounds."""
    readings = [r for one in collected.rounds for r in one.readings]
    clocks = [r.clock_mhz for r in readings if r.clock_mhz]
    heat = [r.celsius for r in readings if r.celsius is not None]
    return {
        "rounds": len(collected.rounds),
        "kept": len(collected.kept),
        "dropped": list(collected.dropped),
        "clock_mhz": [min(clocks), max(clocks)] if clocks else None,
        "celsius": [min(heat), max(heat)] if heat else None,
    }
