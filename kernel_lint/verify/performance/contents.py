"""New contents for inputs, without a new draw: so that no timed call sees the same bytes twice.

Both sides compute them: the candidate's process for its tensors, the reference's for its own copy when
the outputs are compared. Values keep their set and their place in no dimension; integers (indices,
lengths, tables) stay as they are, since their order may mean something.
"""

from __future__ import annotations

import random
from typing import Any

import torch

_roll = torch.roll
_copy = torch.Tensor.copy_


def renew(inputs: dict[str, Any], seed: int) -> None:
    """Roll every floating tensor of ``inputs`` in place by amounts drawn from ``seed``.

    Rolling permutes rows and columns: a mask keeps a visible element in each row, and ranges stay.
    """
    generator = random.Random(seed)
    for name in sorted(inputs):
        value = inputs[name]
        if _rolls(value):
            dimensions = [d for d in range(value.dim()) if value.shape[d] > 1]
            shifts = [generator.randrange(value.shape[d]) for d in dimensions]
            shifts[-1] = shifts[-1] or 1
            _copy(value, _roll(value, shifts, dimensions))


def renewable(inputs: dict[str, Any]) -> bool:
    """Return whether :func:`renew` changes anything."""
    return any(_rolls(value) for value in inputs.values())


def _rolls(value: Any) -> bool:
    if not isinstance(value, torch.Tensor) or not value.is_floating_point() or value.numel() < 2:
        return False
    # An expanded view has one element in many places.
    return all(stride != 0 or size == 1 for size, stride in zip(value.shape, value.stride(), strict=True))
