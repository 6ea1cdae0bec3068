"""Random operators of the reference: recorded in one run, given again in its runs in float64.

A generator gives other numbers in another dtype. A float64 run that drew its own would differ from the
reference by the numbers drawn, and a tolerance taken from that difference would let anything pass.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class UnrepeatableError(Exception):
    """A run does not draw as the recorded one did, or an operator mixes what it draws into its result."""


class _Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Say that nothing here needs torch.compile's protection, whose import takes two seconds."""
        return False


class Draws(_Mode):
    """Records what random operators give while the mode is on."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.made: list[tuple[str, torch.Tensor | None]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if _is_random(func, args, kwargs or {}):
            alone = isinstance(result, torch.Tensor) and "dropout" not in str(func)
            self.made.append((str(func), result.detach().clone() if alone else None))
        return result


class Replay(_Mode):
    """Gives, in the same order, what was recorded, in the dtype that is asked for.

    Raises :class:`UnrepeatableError` where the operators are others, or mix what they draw with their input.
    """

    def __init__(self, draws: Draws) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._left = list(reversed(draws.made))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not _is_random(func, args, kwargs or {}):
            return result
        name, drawn = self._left.pop() if self._left else ("nothing", None)
        if name != str(func) or drawn is None or drawn.shape != result.shape:
            raise UnrepeatableError(f"{func} after {name} was recorded")
        return result.copy_(drawn)


def _is_random(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call draws random numbers; attention and dropout may be told not to."""
    if torch.Tag.nondeterministic_seeded not in func.tags:
        return False
    names = (argument.name for argument in func._schema.arguments)
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    if "dropout_p" in func._schema.__str__() and not given.get("dropout_p", 0.0):
        return False
    return not any(given.get(name) is False for name in ("train", "training"))
