"""Watch what a piece of code does with random generators, and reach the seeds that it sets itself."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
import torch


@dataclass(frozen=True, slots=True)
class RandomState:
    """The states of torch's CPU and device generators, numpy's global one and ``random``'s."""

    torch_state: torch.Tensor
    devices: tuple[torch.Tensor, ...]
    numpy_state: Any
    python_state: Any

    def restore(self) -> None:
        """Put every generator back into this state."""
        torch.set_rng_state(self.torch_state)
        for index, state in enumerate(self.devices):
            torch.cuda.set_rng_state(state, index)
        np.random.set_state(self.numpy_state)
        random.setstate(self.python_state)

    def same_as(self, other: RandomState) -> bool:
        """Whether no random number was drawn between the two states.

        Where a GPU was started in between, its generator may have been drawn from: then they differ.
        """
        if len(self.devices) != len(other.devices):
            return False
        pairs = zip((self.torch_state, *self.devices), (other.torch_state, *other.devices), strict=True)
        return (
            all(torch.equal(a, b) for a, b in pairs)
            and self.python_state == other.python_state
            and all(np.array_equal(a, b) for a, b in zip(self.numpy_state, other.numpy_state, strict=True))
        )


def random_state() -> RandomState:
    """Capture the present state of all global generators."""
    started = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    devices = tuple(torch.cuda.get_rng_state_all()) if started else ()
    return RandomState(torch.get_rng_state(), devices, np.random.get_state(), random.getstate())


@dataclass(slots=True)
class SeedCalls:
    """What was seen: the seeding functions called, and whether random numbers were drawn."""

    names: set[str] = field(default_factory=set)
    consumed: bool = False
    _before: RandomState | None = None

    @property
    def seeded(self) -> bool:
        """Whether the code set a seed, or made a generator, of its own."""
        return bool(self.names)

    @property
    def random(self) -> bool:
        """Whether random numbers were drawn, as far as can be seen."""
        return self.consumed or self.seeded

    def note_consumption(self) -> None:
        """Look whether the global generators moved since the watch began."""
        self.consumed = self._before is not None and not self._before.same_as(random_state())

    def merge(self, other: SeedCalls) -> None:
        """Add what another watch saw."""
        self.names |= other.names
        self.consumed |= other.consumed


_TARGETS = (
    "torch.manual_seed",
    "torch.random.manual_seed",
    "torch.cuda.manual_seed",
    "torch.cuda.manual_seed_all",
    "torch.Generator",
    "numpy.random.seed",
    "numpy.random.default_rng",
    "numpy.random.RandomState",
    "random.seed",
    "random.Random",
)


@contextmanager
def watched_seeds(mix: int | None) -> Iterator[SeedCalls]:
    """Record calls that set seeds or make generators; with ``mix``, change the seeds that they get.

    Equal seeds stay equal under mixing, different ones stay different. Names bound before the
    watch (``from torch import manual_seed`` at import time) are not reached; the caller notices
    by the inputs staying the same.
    """
    calls = SeedCalls()
    with ExitStack() as stack:
        for target in _TARGETS:
            stack.enter_context(mock.patch(target, _wrapped(target, _resolve(target), calls, mix)))
        calls._before = random_state()
        yield calls


def _resolve(target: str) -> Any:
    roots: dict[str, Any] = {"torch": torch, "numpy": np, "random": random}
    first, *rest = target.split(".")
    value = roots[first]
    for name in rest:
        value = getattr(value, name)
    return value


def _mixed(seed: Any, mix: int | None) -> Any:
    if mix is None or isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        return seed
    return (int(seed) * 0x9E3779B1 + mix * 0x85EBCA77) % 2**32


def _wrapped(target: str, original: Any, calls: SeedCalls, mix: int | None) -> Any:
    if isinstance(original, type):
        return _CLASSES[target](calls, mix)

    def call(*arguments: Any, **keywords: Any) -> Any:
        calls.names.add(target)
        changed = [_mixed(argument, mix) for argument in arguments]
        named = {key: _mixed(value, mix) for key, value in keywords.items()}
        return original(*changed, **named)

    return call


def _torch_generator(calls: SeedCalls, mix: int | None) -> type:
    class Generator(torch.Generator):
        def manual_seed(self, seed: int) -> torch.Generator:
            calls.names.add("torch.Generator.manual_seed")
            super().manual_seed(_mixed(seed, mix))
            return self

    return Generator


def _numpy_state(calls: SeedCalls, mix: int | None) -> type:
    class RandomState(np.random.RandomState):
        def __init__(self, seed: Any = None) -> None:
            calls.names.add("numpy.random.RandomState")
            super().__init__(_mixed(seed, mix))

    return RandomState


def _python_random(calls: SeedCalls, mix: int | None) -> type:
    class Random(random.Random):
        def seed(self, a: Any = None, version: int = 2) -> None:
            calls.names.add("random.Random")
            super().seed(_mixed(a, mix), version)

    return Random


_CLASSES: dict[str, Callable[[SeedCalls, int | None], type]] = {
    "torch.Generator": _torch_generator,
    "numpy.random.RandomState": _numpy_state,
    "random.Random": _python_random,
}
