"""Working out what depends on itself: each way through a cycle is walked once."""

from __future__ import annotations

import ast
from collections.abc import Callable

from kernel_lint import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

MAX_DEPTH = 60
# The depth of the outermost cycle that a result waits for, when there is none.
_COMPLETE = 1 << 60
# And of a result in which something was too deep to be looked at.
_CUT = -1


class Guarded:
    """Keeps what is being worked out, and what is known of it so far."""

    def __init__(self) -> None:
        # What is being worked out, at which depth; results that wait for a cycle above them to end.
        self._open: dict[object, int] = {}
        self._lowest = _COMPLETE
        self._partial: dict[object, tuple[Any, int]] = {}
        self._waiting: dict[int, list[object]] = {}
        # Results in which something was too deep, with the depth that they were asked for at.
        self._cut: dict[object, tuple[Any, int]] = {}

    def guarded(
        self,
        key: object,
        node: ast.expr,
        memo: dict[Any, Any],
        compute: Callable[[Any, Any], Any],
        none: Any,
        too_deep: Any,
    ) -> Any:
        """Return ``compute(self, node)``; what it asks about itself on the way is ``none``.

        What was found while a cycle was cut above it is complete only where the cycle began: it is kept
        until that ends, lest every way through the cycle be walked again.
        """
        opened = self._open
        position = opened.get(key)
        if position is not None:
            self._lowest = min(self._lowest, position)
            return none
        if self._partial:
            partial = self._partial.get(key)
            if partial is not None:
                self._lowest = min(self._lowest, partial[1])
                return partial[0]
        depth = len(opened)
        if depth > MAX_DEPTH or self._cut:
            cut = self._cut.get(key)
            if depth > MAX_DEPTH or (cut is not None and depth >= cut[1] > 0):
                # Asked for from a place less deep, there is more to find.
                self._lowest = _CUT
                return too_deep if cut is None else cut[0]
        outer, self._lowest = self._lowest, _COMPLETE
        opened[key] = depth
        try:
            result = compute(self, node)
        finally:
            del opened[key]
        lowest = self._lowest
        if lowest >= depth or depth == 0:
            memo[node] = result
            self._lowest = outer
        else:
            if lowest == _CUT:
                self._cut[key] = (result, depth)
            else:
                self._partial[key] = (result, lowest)
                self._waiting.setdefault(lowest, []).append(key)
            self._lowest = min(lowest, outer)
        if self._waiting and depth in self._waiting:
            self._settle(self._waiting.pop(depth), result)
        return result

    def _settle(self, keys: list[object], result: Any) -> None:
        """Forget what waited for a cycle that ends with this result."""
        for key in keys:
            self._partial.pop(key, None)
