"""What single instructions cost in the emulator: 65,536 lanes (1,024 waves) in one call, and one wave alone.

    python benchmarks/emulator_numerics.py [--waves 1024] [--json FILE]

Wall times on one thread: the median of many calls, after a first one that builds the index tables.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tables import Table, write_tables

SECONDS = 0.3


def cases(lanes: int) -> dict[str, Callable[[], Any]]:
    """Return what is measured, on so many lanes."""
    import torch

    from kernel_lint.emulator.numerics import dpp, formats
    from kernel_lint.emulator.numerics import lanes as moves
    from kernel_lint.emulator.numerics.mfma import MFMA_SPECS, mfma

    waves = lanes // 64
    words = torch.randint(0, 2**31 - 1, (lanes,), dtype=torch.int32)
    numbers = torch.randn(lanes)
    codes = torch.randint(0, 256, (lanes,), dtype=torch.uint8)
    address = (torch.randint(0, 64, (lanes,), dtype=torch.int32)) * 4

    def product(name: str, gfx: str, scaled: bool = False, **more: Any) -> Callable[[], Any]:
        spec = MFMA_SPECS[f"rocdl.mfma.{name}"]
        if spec.a_type == "f16":
            a, b = (torch.randn(waves, 64, spec.items).to(torch.float16) for _ in range(2))
        else:
            registers = 8 if spec.a_type == "f8f6f4" else spec.registers("a")
            a, b = (torch.full((waves, 64, registers), 0x38383838, dtype=torch.int32) for _ in range(2))
        c = torch.zeros(waves, 64, spec.acc_items)
        scale = torch.full((waves, 64), 127, dtype=torch.int32) if scaled else None
        return lambda: mfma(spec, a, b, c, gfx=gfx, scale_a=scale, scale_b=scale, **more)

    scaled = "scale.f32.16x16x128.f8f6f4"
    return {
        "matrix 16x16x16 f16": product("f32.16x16x16f16", "gfx942"),
        "matrix 32x32x8 f16": product("f32.32x32x8f16", "gfx942"),
        "matrix 16x16x32 FP8": product("f32.16x16x32.fp8.fp8", "gfx942"),
        "matrix 16x16x128 F8F6F4": product(scaled, "gfx950"),
        "the same with block scales": product(scaled, "gfx950", True),
        "encode FP8": lambda: formats.encode(numbers, formats.FP8_E4M3),
        "decode FP8": lambda: formats.decode(codes, formats.FP8_E4M3),
        "shuffle": lambda: moves.shuffle(words, 1, 64, "xor"),
        "bpermute": lambda: moves.ds_bpermute(address, words),
        "DPP": lambda: dpp.update_dpp(words, words, 0x111),
    }


def median_ms(call: Callable[[], Any]) -> float:
    """Return the median time of a call in milliseconds."""
    call()
    times: list[float] = []
    while sum(times) < SECONDS or len(times) < 5:
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return statistics.median(times) * 1e3


def main() -> int:
    """Print the table."""
    import torch

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--waves", type=int, default=1024)
    parser.add_argument("--json", type=Path, help="write the table there")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    lanes = 64 * arguments.waves
    many, one = cases(lanes), cases(64)
    rows = tuple((name, median_ms(call), median_ms(one[name])) for name, call in many.items())
    columns = ("wall ms", f"{lanes:,} lanes", "one wave")
    table = Table("Instructions in the emulator", columns, rows, "medians, one thread")
    print(table.text())
    write_tables(arguments.json, [table])
    return 0


if __name__ == "__main__":
    sys.exit(main())
