"""Time and memory of comparing large outputs: ``python benchmarks/verify_compare.py [--elements N]``.

Prints a table, one line per case: elements, seconds, and the growth of the process's peak resident set
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
from pathlib import Path

from tables import Table, write_tables

LIMIT_MB = 256
COLUMNS = (64, 4096)
DTYPES = ("bfloat16", "float32")


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
    parser.add_argument("--json", type=Path, help="write the table there")
    parser.add_argument("--dtype", choices=DTYPES, help="only this one")
    options = parser.parse_args()
    small, rows = True, []
    context = multiprocessing.get_context("spawn")
    for dtype in (options.dtype,) if options.dtype else DTYPES:
        for columns in COLUMNS:
            for wrong in (False, True):
                with context.Pool(1) as pool:
                    size, seconds, grown, fits = pool.apply(case, (columns, options.elements, dtype, wrong))
                small = small and fits
                print(f"  {dtype}, rows of {columns}: {seconds:.0f} s", file=sys.stderr, flush=True)
                kind = "all of it wrong" if wrong else "right"
                rows.append((f"{dtype}, rows of {columns:,}, {kind}", size, seconds, grown))
    note = f"one process; the limit is {LIMIT_MB} MB beyond the tensors"
    table = Table("Comparing an output", ("", "elements", "wall s", "extra MB"), tuple(rows), note)
    print(table.text())
    write_tables(options.json, [table])
    if not small:
        print(f"a comparison needs more than {LIMIT_MB} MB beyond the tensors", file=sys.stderr)
    return 0 if small else 1


if __name__ == "__main__":
    sys.exit(main())
