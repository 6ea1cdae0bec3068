"""Take the steps of a comparison on several threads, and their results in order.

numpy lets go of the interpreter's lock inside its loops, so steps run beside each other; results come in
the order of the steps, so that no number depends on how many threads there are.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from kernel_lint.verify.compare_flat import Blocks

# More threads than this wait for memory, and for the lock between numpy's loops.
MAXIMUM_THREADS = 6
# What a thread's arrays take, what the statistics take for each block, and what both may take together, in
# bytes: with the positions of wrong elements, a comparison stays under 256 MB (benchmarks/verify_compare.py).
_THREAD_BYTES, _BLOCK_BYTES, _BUDGET = 36 << 20, 200, 200 << 20
# Beside other threads a step is this many times as long: shorter loops only pass the lock around.
LONGER = 4
# Fewer steps are not worth the start of threads.
MINIMUM_STEPS = 32

Result = TypeVar("Result")


def in_order(
    function: Callable[[int, int], Result], blocks: Blocks, elements: int
) -> Iterator[tuple[int, int, Result]]:
    """Yield each range of blocks that is a step (:meth:`Blocks.steps`) with what ``function`` makes of it.

    Only as many steps are ahead of the one that is yielded as keep the threads busy: memory stays bounded.
    """
    spare = (_BUDGET - _BLOCK_BYTES * blocks.count) // _THREAD_BYTES
    threads = min(MAXIMUM_THREADS, _processors(), spare)
    if threads <= 1 or blocks.starts[-1] < MINIMUM_STEPS * elements:
        for block, after in blocks.steps(elements):
            yield block, after, _quietly(function, block, after)
        return
    pending: deque[tuple[int, int, Future[Result]]] = deque()
    with ThreadPoolExecutor(threads, "compare") as pool:
        for block, after in blocks.steps(LONGER * elements):
            pending.append((block, after, pool.submit(_quietly, function, block, after)))
            if len(pending) > 2 * threads:
                first, last, future = pending.popleft()
                yield first, last, future.result()
        for first, last, future in pending:
            yield first, last, future.result()


def _quietly(function: Callable[[int, int], Result], block: int, after: int) -> Result:
    # numpy's error state belongs to a thread.
    with np.errstate(all="ignore"):
        return function(block, after)


def _processors() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
