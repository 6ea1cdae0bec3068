"""Time and memory of comparing large outputs: ``python benchmarks/verify_compare.py [--elements N]``.

Prints one line per case: elements, seconds, and the growth of the process's peak resident set
while comparing, in MB (10**6 bytes). The inputs are allocated, and touched, before the first
measurement, so the growth is what the comparison itself needs. Each case runs in a fresh
process, as the peak of a process never sinks. Exits 1 when a case needs 256 MB or more.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import time

LIMIT_MB = 256
COLUMNS = (64, 4096)


def case(columns: int, elements: int, dtype_name: str, wrong: bool) -> tuple[int, float, float, bool]:
    """Compare outputs of ``elements`` elements in rows of ``columns``; returns what is printed."""
    import torch

    from kernel_lint.verify.compare import compare

    torch.set_num_threads(1)
    dtype = getattr(torch, dtype_name)
    rows = max(1, elements // columns)
    generator = torch.Generator().manual_seed(0)
    exact = torch.empty(rows, columns, dtype=torch.float64).normal_(generator=generator)
    reference, candidate = exact.to(dtype), exact.to(dtype)
    if wrong:
        candidate.zero_()
    # The first comparison of a process loads code; that is no part of an output's cost.
    compare(candidate[:1], reference[:1], exact[:1])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    result = compare(candidate, reference, exact)
    seconds = time.perf_counter() - start
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / 1e6
    assert result.passed is not wrong
    return rows * columns, seconds, grown, grown < LIMIT_MB


def main() -> int:
    """Run every case; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--elements", type=int, default=64 * 2**20)
    options = parser.parse_args()
    small = True
    context = multiprocessing.get_context("spawn")
    print(f"{'dtype':10}{'columns':>9}{'elements':>11}{'candidate':>11}{'seconds':>9}{'extra MB':>10}")
    for dtype in ("bfloat16", "float32"):
        for columns in COLUMNS:
            for wrong in (False, True):
                with context.Pool(1) as pool:
                    size, seconds, grown, fits = pool.apply(case, (columns, options.elements, dtype, wrong))
                small = small and fits
                kind = "all zero" if wrong else "right"
                print(f"{dtype:10}{columns:>9}{size:>11}{kind:>11}{seconds:>9.1f}{grown:>10.0f}", flush=True)
    return 0 if small else 1


if __name__ == "__main__":
    sys.exit(main())
