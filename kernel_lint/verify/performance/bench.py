"""The worker's side of the stage: holds inputs on the device and carries out the judge's requests.

One bench lives in each worker, made before any foreign code is imported. A *slot* is one model with
its sets of inputs; requests name it. The actions:

``load``    read sets of inputs, place them several times in memory, warm up, capture graphs; says how calls
            are made
``block``   take samples, each on a set and with contents that the judge chose
``burst``   call as often as asked, back to back, and wait; the judge looks at its own clock
``save``    write the output of the last call on a set
``unload``  let go
"""

from __future__ import annotations

import _thread
import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from kernel_lint.verify import trees
from kernel_lint.verify.performance.clocks import UNJOINED, Clock, open_clock
from kernel_lint.verify.performance.contents import renew, renewable

# Calls of which the most diligent one counts.
_IDLE_CALLS = 5
_listdir = os.listdir
# Threads that Python started and that still run, the main one not counted.
_python_threads = _thread._count


@dataclass(slots=True)
class _Set:
    """One set of inputs at its own addresses, the way to run on it, and what came of the last run."""

    inputs: dict[str, Any]
    call: Callable[[], Any] | None = None
    replay: Callable[[], Any] | None = None
    result: Any = None


@dataclass(slots=True)
class _Slot:
    sets: list[_Set] = field(default_factory=list)
    # What keeps the sets at odd distances.
    gaps: list[torch.Tensor] = field(default_factory=list)


class TimingError(Exception):
    """A timed call gave something that is no result."""


class Bench:
    """Carries out timing requests; see the module's docstring."""

    def __init__(self, device: str, synchronize: Callable[[], None] | None = None) -> None:
        self._device = device
        self._clock: Clock = open_clock(device)
        self._settle = synchronize or self._clock.synchronize
        self._slots: dict[str, _Slot] = {}

    def answer(self, request: dict[str, Any], model: Callable[..., Any]) -> dict[str, Any]:
        """Carry out one request for ``model``; raises what the model raises."""
        action = request["action"]
        if action == "load":
            return self._load(request, model)
        slot = self._slots[request["slot"]]
        if action == "block":
            return self._block(request, slot)
        if action == "burst":
            return self._burst(request, slot)
        if action == "save":
            return self._save(request, slot)
        assert action == "unload"
        del self._slots[request["slot"]]
        return {}

    def _load(self, request: dict[str, Any], model: Callable[..., Any]) -> dict[str, Any]:
        slot = self._place([Path(path) for path in request["files"]], request.get("sets", 0))
        problem = "" if request["graph"] else "not asked for"
        for one in slot.sets:
            one.call = _bind(model, one.inputs)
            for _ in range(request["warmup"]):
                one.result = one.call()
            self._settle()
            if not problem:
                captured = self._clock.capture(one.call)
                if isinstance(captured, str):
                    problem = captured
                else:
                    one.replay, one.result = captured
        if problem:
            for one in slot.sets:
                one.replay = None
        self._slots[request["slot"]] = slot
        call = slot.sets[0].call
        # Graphs have no pauses; whoever else times this reference may use none.
        idle = self._idle(call) if request.get("idle") and call is not None else (0.0, 0.0)
        result = slot.sets[0].result
        return {
            "mode": "eager" if problem else "graph",
            "why": problem,
            "unjoined": problem == UNJOINED,
            "clock": self._clock.name,
            "resolution": self._clock.resolution,
            "idle_seconds": idle,
            "renewable": renewable(slot.sets[0].inputs),
            "sets": len(slot.sets),
            "device": self._describe(),
            "output_bytes": sum(t.numel() * t.element_size() for t in _tensors(result)),
            "threads": _threads(),
            "python_threads": _python_threads(),
        }

    def _place(self, files: list[Path], wanted: int) -> _Slot:
        """Read the files in turn until there are ``wanted`` sets, or as many as a quarter of memory holds.

        Where its tensors lie makes a call on large ones up to 1% faster or slower on an NVIDIA H200, so times
        of one placement say less than their interval claims.
        """
        slot = _Slot([_Set(self._read(path)) for path in files])
        if self._device == "cpu":
            return slot
        size = sum(t.numel() * t.element_size() for t in _tensors(slot.sets[0].inputs))
        # Inputs, outputs and what is made in between.
        room = torch.cuda.mem_get_info()[0] // 4 // max(3 * size, 1)
        while len(slot.sets) < min(wanted, room):
            slot.gaps.append(torch.empty(random.randint(1, 32) << 20, dtype=torch.int8, device=self._device))
            slot.sets.append(_Set(self._read(files[len(slot.sets) % len(files)])))
        return slot

    def _idle(self, call: Callable[[], Any]) -> tuple[float, float]:
        """Return how long nothing works during a call, and how long such a call takes.

        A busy machine takes the processor away now and then; a sleep is in every call. So the least counts.
        """
        least = (float("inf"), float("inf"))
        for _ in range(_IDLE_CALLS):
            started, worked = time.perf_counter(), time.process_time()
            call()
            self._settle()
            wall = time.perf_counter() - started
            least = min(least, (wall - (time.process_time() - worked), wall))
        idle, wall = least
        # The processor may sleep while the device works.
        return (max(0.0, idle - self._clock.busy(call)) if idle > wall / 2 else idle), wall

    def _read(self, path: Path) -> dict[str, Any]:
        values: dict[str, Any] = trees.load_tree(path, strides=True).value
        return {k: v.to(self._device) if isinstance(v, torch.Tensor) else v for k, v in values.items()}

    def _block(self, request: dict[str, Any], slot: _Slot) -> dict[str, Any]:
        seconds, leftover = [], []
        for index, seed in request["samples"]:
            one = slot.sets[index]
            renew(one.inputs, seed)
            taken, left = self._clock.sample(self._runner(one))
            seconds.append(taken)
            leftover.append(left)
            self._check(one.result)
        return {
            "seconds": seconds,
            "leftover": leftover,
            "threads": _threads(),
            "python_threads": _python_threads(),
        }

    def _runner(self, one: _Set) -> Callable[[], Any]:
        if one.replay is not None:
            return one.replay
        call = one.call
        assert call is not None

        def run() -> None:
            one.result = call()

        return run

    def _check(self, result: Any) -> None:
        """Raise when a result holds something that only looks like a tensor."""
        for leaf in trees.flatten(result):
            value = leaf.value
            if isinstance(value, torch.Tensor) and type(value) not in (torch.Tensor, torch.nn.Parameter):
                raise TimingError(f"a timed call returned a {type(value).__name__}, not a torch.Tensor")

    def _burst(self, request: dict[str, Any], slot: _Slot) -> dict[str, Any]:
        runs = [self._runner(one) for one in slot.sets]
        for number in range(request["calls"]):
            runs[number % len(runs)]()
        self._settle()
        return {}

    def _save(self, request: dict[str, Any], slot: _Slot) -> dict[str, Any]:
        self._settle()
        trees.save_tree(slot.sets[request["set"]].result, Path(request["output"]))
        return {}

    def _describe(self) -> dict[str, Any]:
        if self._device == "cpu":
            return {"name": "cpu"}
        properties = torch.cuda.get_device_properties()
        uuid = getattr(properties, "uuid", None)
        return {
            "name": properties.name,
            "uuid": f"GPU-{uuid}" if uuid and torch.version.hip is None else None,
            "index": torch.cuda.current_device(),
            "l2_bytes": getattr(properties, "L2_cache_size", 0),
        }


def _bind(model: Callable[..., Any], inputs: dict[str, Any]) -> Callable[[], Any]:
    def call() -> Any:
        return model(**inputs)

    return call


def _threads() -> int:
    """Return the number of threads of this process, native ones included."""
    try:
        return len(_listdir("/proc/self/task"))
    except OSError:
        return 0


def _tensors(result: Any) -> list[torch.Tensor]:
    return [leaf.value for leaf in trees.flatten(result) if isinstance(leaf.value, torch.Tensor)]
