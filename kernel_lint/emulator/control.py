"""What the generated functions call for control flow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from kernel_lint.emulator import masks
from kernel_lint.emulator.ir import MType, Place
from kernel_lint.emulator.machine import Machine, Mask
from kernel_lint.emulator.values import Tensor, Value, is_uniform, where
from kernel_lint.errors import KernelFaultError, KernelLintError

# A loop that spins on memory which no other workgroup of the chunk will write never ends.
MAX_PASSES = 1_000_000


def branch(m: Machine, mask: Mask, cond: Value) -> tuple[Mask, Mask, bool, bool]:
    """The masks of ``then`` and ``else``, and whether each side runs."""
    if not isinstance(cond, Tensor):
        return mask, mask, bool(cond), not cond
    return masks.split(m, mask, cond)


def choose(m: Machine, cond: Value, a: Value, b: Value, mtype: MType) -> Value:
    """The result of an ``scf.if`` whose two sides both ran."""
    return where(cond, a, b, mtype, m.device)


def _negative(bound: Value) -> bool:
    return bool((bound < 0).any()) if isinstance(bound, Tensor) else bound < 0


def _uniform(bound: Value) -> Value:
    """A bound as a Python number when it is the same in all lanes."""
    if not isinstance(bound, Tensor):
        return bound
    if bound.numel() == 1:
        return int(bound.reshape(-1)[0])
    low, high = torch.aminmax(bound)
    return int(low) if bool(low == high) else bound


def trips(
    m: Machine, mask: Mask, low: Value, high: Value, step: Value, is_unsigned: bool
) -> Iterator[tuple[Value, Mask, bool]]:
    """The passes of an ``scf.for``: induction variable, mask, and whether every lane of ``mask`` takes
    part."""
    low, high, step = _uniform(low), _uniform(high), _uniform(step)
    if is_unsigned and any(_negative(bound) for bound in (low, high)):
        raise KernelLintError(
            f"a loop of kernel {m.env.kernel} has unsigned bounds with the top bit set",
            "use signed bounds; the emulator does not count such loops",
        )
    if is_uniform(low) and is_uniform(high) and is_uniform(step):
        for i in range(low, high, step):
            yield i, mask, True
        return
    index = low
    while True:
        alive = index < high
        active, _, go, rest = branch(m, mask, alive)
        if not go:
            return
        yield index, active, not rest
        index = index + step


def advance(
    m: Machine, mask: Mask, new: tuple[Value, ...], old: tuple[Value, ...], types: tuple[MType, ...]
) -> tuple[Value, ...]:
    """Loop-carried values after a pass in which only the lanes of ``mask`` took part."""
    if mask is None:
        return new
    return tuple(where(mask, n, o, t, m.device) for n, o, t in zip(new, old, types, strict=True))


def leave(
    m: Machine, alive: Mask, new: tuple[Value, ...], old: tuple[Any, ...], types: tuple[MType, ...]
) -> tuple[Value, ...]:
    """Results of an ``scf.while``: the values of this pass in lanes still alive, kept in those that left
    before."""
    if alive is None or any(o is None for o in old):
        return new
    return tuple(where(alive, n, o, t, m.device) for n, o, t in zip(new, old, types, strict=True))


def still(m: Machine, alive: Mask, cond: Value) -> tuple[Mask, bool]:
    """The lanes that stay in an ``scf.while``, and whether there is one."""
    inside, _, go, _ = branch(m, alive, cond)
    return inside, go


def passes(m: Machine, place: Place) -> Iterator[int]:
    """Count the passes of a loop; raise :class:`KernelFaultError` when it does not end."""
    yield from range(MAX_PASSES)
    raise KernelFaultError(
        f"the loop at {place} in kernel {m.env.kernel} has not ended after {MAX_PASSES} passes",
        "it waits for something that never happens: another workgroup that runs later, "
        "or a value that no lane writes",
    )
