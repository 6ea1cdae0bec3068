"""How fast the emulator runs, and how much memory it takes as rows grow.

    OMP_NUM_THREADS=1 python benchmarks/emulator_speed.py --device cpu

Two kernels of examples/: softmax of 4,096 x 2,048 bf16 and a 512 x 512 x 512 bf16 GEMM, with and without the
checks; then softmax with rows growing 16-fold, each size in its own process, for its peak memory. Times
are the launch alone (decoded and translated before), wall and process time, the best of --repeat. Exits 1
when memory grows by more than the tensors and a constant.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tables import Table, write_tables

ROOT = Path(__file__).resolve().parent.parent
# A chunk of workgroups works on a few dozen registers of 64 Ki lanes; allocators keep some of what is freed.
BEYOND_TENSORS = 96
CASES = [("softmax", 4096), ("gemm", 512)]
HEIGHTS = (1024, 4096, 16384)


def model_of(name: str) -> Any:
    """The Model of an example."""
    from kernel_lint.emulator.develop import load_module

    folder = ROOT / "examples" / name
    sys.path.insert(0, str(folder))
    return load_module(folder / "kernel.py", f"bench_{name}").Model()


def inputs_of(name: str, size: int, device: str) -> dict[str, Any]:
    """Inputs: softmax of ``size`` x 2,048, or a GEMM of ``size`` cubed."""
    import torch

    def draw(*shape: int) -> Any:
        # Drawn in its own type: a float32 twice its size would be the peak that is measured.
        return torch.empty(*shape, dtype=torch.bfloat16, device=device).normal_()

    if name == "softmax":
        return {"x": draw(size, 2048)}
    from kernel_lint.emulator.develop import load_module

    task = load_module(ROOT / "examples" / "gemm" / "input.py", "bench_gemm_input")
    shape = json.loads((ROOT / "examples" / "gemm" / "shapes.json").read_text(encoding="utf-8"))
    kwargs = dict(next(iter(shape.values()))["input_kwargs"])
    for key, value in kwargs.items():
        if isinstance(value, int):
            kwargs[key] = size
    return {k: v.to(device) if hasattr(v, "to") else v for k, v in task._make_inputs(**kwargs).items()}


def measure(name: str, size: int, device: str, checks: str, repeat: int) -> dict[str, Any]:
    """Run one case in this process."""
    import torch

    from kernel_lint.emulator import EmulatorOptions, install
    from kernel_lint.emulator.session import Launch

    torch.set_num_threads(1)
    spent: list[tuple[float, float]] = []
    original = Launch.run

    def timed(self: Launch) -> None:
        if device == "cuda":
            torch.cuda.synchronize()
        wall, cpu = time.perf_counter(), time.process_time()
        original(self)
        if device == "cuda":
            torch.cuda.synchronize()
        spent.append((time.perf_counter() - wall, time.process_time() - cpu))

    with install(EmulatorOptions(device=device, checks=checks)):
        model, inputs = model_of(name), inputs_of(name, size, device)
        model(**inputs)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        Launch.run = timed  # type: ignore[method-assign]
        for _ in range(repeat):
            model(**inputs)
        Launch.run = original  # type: ignore[method-assign]
    peak = (
        torch.cuda.max_memory_allocated() / 2**20
        if device == "cuda"
        else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    )
    return {
        "kernel": name,
        "size": size,
        "device": device,
        "checks": checks,
        "wall_s": round(min(w for w, _ in spent), 6),
        "cpu_s": round(min(c for _, c in spent), 6),
        "peak_mib": round(peak),
        "first_call_peak_mib": round(before / 1024),
    }


def in_own_process(name: str, size: int, device: str, checks: str, repeat: int) -> dict[str, Any]:
    """Run one case in a process of its own, so that its peak memory is its own."""
    command = [
        sys.executable,
        __file__,
        "--one",
        name,
        str(size),
        checks,
        "--device",
        device,
        "--repeat",
        str(repeat),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name} {size}: exit {done.returncode}: {done.stderr.strip()[-500:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> int:
    """Print one table; see the module's docstring."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="small inputs")
    parser.add_argument("--one", nargs=3, metavar=("KERNEL", "SIZE", "CHECKS"))
    parser.add_argument("--json", type=Path, help="write the table there")
    arguments = parser.parse_args()
    if arguments.one:
        name, size, checks = arguments.one
        print(json.dumps(measure(name, int(size), arguments.device, checks, arguments.repeat)))
        return 0
    cases = [("softmax", 128), ("gemm", 128)] if arguments.quick else CASES
    heights = (64, 1024) if arguments.quick else HEIGHTS
    rows = []
    for name, size in cases:
        for checks in ("none", "all"):
            found = in_own_process(name, size, arguments.device, checks, arguments.repeat)
            rows.append(_row(found))
    peaks = {}
    for height in heights:
        found = in_own_process("softmax", height, arguments.device, "none", 1)
        peaks[height] = found["peak_mib"]
        rows.append(_row(found, ", for its memory"))
    said, code = memory_grew(peaks)
    columns = ("kernel", "checks", "CPU s", "wall s", "M a second", "of", "peak MiB")
    note = f"one launch on {arguments.device}, decoded and translated before; {said}"
    table = Table("The emulator", columns, tuple(rows), note)
    print(table.text())
    write_tables(arguments.json, [table])
    if code:
        print(said, file=sys.stderr)
    return code


def _row(found: dict[str, Any], what: str = "") -> tuple[Any, ...]:
    """Return a table's row; the rate counts output elements, or the floating-point operations of a GEMM."""
    size = found["size"]
    gemm = found["kernel"] == "gemm"
    shape = f"{size:,} x {size:,} x {size:,}" if gemm else f"{size:,} x 2,048"
    work = 2 * size**3 if gemm else size * 2048
    rate = work / found["wall_s"] / 1e6
    return (
        f"{found['kernel']} {shape} bf16{what}",
        found["checks"],
        found["cpu_s"],
        found["wall_s"],
        rate,
        "FLOP" if gemm else "elements",
        found["peak_mib"],
    )


def memory_grew(peaks: dict[int, float]) -> tuple[str, int]:
    """Say by how much the peak (MiB) grew beyond the tensors; 1 when by more than ``BEYOND_TENSORS``."""
    fewest, most = min(peaks), max(peaks)
    # Input and output, bf16.
    tensors = 2 * (most - fewest) * 2048 * 2 / 2**20
    beyond = peaks[most] - peaks[fewest] - tensors
    verdict = "within" if beyond <= BEYOND_TENSORS else "BEYOND"
    grown = f"{beyond:.0f} MiB more than the tensors"
    said = f"with {most // fewest} times the rows, memory grew by {grown}, {verdict} {BEYOND_TENSORS} MiB"
    return said, int(beyond > BEYOND_TENSORS)


if __name__ == "__main__":
    raise SystemExit(main())
