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

ROOT = Path(__file__).resolve().parent.parent
# A chunk of workgroups works on a few dozen registers of 64 Ki lanes; allocators keep some of what is freed.
BEYOND_TENSORS = 96


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
        return torch.randn(*shape).to(torch.bfloat16).to(device)

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
        "wall_s": round(min(w for w, _ in spent), 4),
        "cpu_s": round(min(c for _, c in spent), 4),
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
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> int:
    """Print one JSON line for each case."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--one", nargs=3, metavar=("KERNEL", "SIZE", "CHECKS"))
    arguments = parser.parse_args()
    if arguments.one:
        name, size, checks = arguments.one
        print(json.dumps(measure(name, int(size), arguments.device, checks, arguments.repeat)))
        return 0
    cases = [("softmax", 4096), ("gemm", 512)]
    for name, size in cases:
        for checks in ("none", "all"):
            print(
                json.dumps(in_own_process(name, size, arguments.device, checks, arguments.repeat)), flush=True
            )
    peaks = {}
    for rows in (1024, 4096, 16384):
        result = in_own_process("softmax", rows, arguments.device, "none", 1)
        peaks[rows] = result["peak_mib"]
        print(json.dumps(result), flush=True)
    return memory_grew(peaks)


def memory_grew(peaks: dict[int, float]) -> int:
    """Print by how much the peak (MiB) grew beyond the tensors; 1 when by more than ``BEYOND_TENSORS``."""
    fewest, most = min(peaks), max(peaks)
    # Input and output, bf16.
    tensors = 2 * (most - fewest) * 2048 * 2 / 2**20
    beyond = peaks[most] - peaks[fewest] - tensors
    verdict = "within" if beyond <= BEYOND_TENSORS else "BEYOND"
    grown = f"{beyond:.0f} MiB more than the tensors"
    print(f"{most // fewest}-fold rows: {grown}, {verdict} {BEYOND_TENSORS} MiB")
    return int(beyond > BEYOND_TENSORS)


if __name__ == "__main__":
    raise SystemExit(main())
