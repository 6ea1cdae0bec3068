"""What only a GPU can show: equal code is called equal, slower code slower, and how the examples do.

    python benchmarks/gpu.py --backend nvptx --runs 100 --json gpu.json

Three parts, each with the stage's own clock, schedule and statistics, every source in a process of its own:

- A/A: the softmax example against itself, ``--runs`` times; a call of "faster" or "slower" is a false one.
- planted: the same against itself with 3% more rows to do; every run should call it "slower".
- torch: the examples against torch's own kernels (``torch.softmax``; an addition and ``F.rms_norm``), with
  the bandwidth of each and its share of a copy's, timed in the same rounds.

Exits 1 when more than 5% of the A/A runs are called apart, or a planted slowdown is not seen.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import random
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SLOWER = 1.03
_DRAWS = 2


@dataclass(frozen=True)
class Source:
    """What one process times: a function of this module that makes the model, and its argument."""

    name: str
    make: str
    argument: Any = None


def example_softmax(rows: int | None) -> Callable[..., Any]:
    """The softmax example, on the first ``rows`` rows."""
    model = _example("softmax").Model()
    return lambda x, **_: model(x[:rows])


def example_rmsnorm(columns: int) -> Callable[..., Any]:
    """The rmsnorm example: an addition, the norm, a weight."""
    model = _example("rmsnorm").Model(columns, dtype="bfloat16").to(_device())
    return lambda x, residual: model(x.unsqueeze(0), residual.unsqueeze(0))


def torch_softmax(_: None) -> Callable[..., Any]:
    """Torch's own softmax."""
    import torch

    return lambda x, **_: torch.softmax(x, -1)


def torch_rmsnorm(columns: int) -> Callable[..., Any]:
    """Torch's addition and its fused norm."""
    import torch

    weight = torch.ones(columns, dtype=torch.bfloat16, device=_device())

    def model(x: Any, residual: Any) -> Any:
        summed = x + residual
        return torch.nn.functional.rms_norm(summed, (columns,), weight, 1e-6), summed

    return model


def torch_copy(_: None) -> Callable[..., Any]:
    """A copy."""
    return lambda x, **_: x.clone()


def _device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _example(name: str) -> Any:
    from kernel_lint.emulator.develop import load_module

    folder = ROOT / "examples" / name
    sys.path.insert(0, str(folder))
    return load_module(folder / "kernel.py", f"gpu_{name}")


def serve(source: Source, backend: str, folder: Path, pipe: Any) -> None:
    """A process: make the model, then answer the stage's requests, one at a time."""
    from kernel_lint.verify.backends import BackendContext
    from kernel_lint.verify.performance.bench import Bench

    bench = Bench(_device())
    if source.make.startswith("example"):
        module = importlib.import_module(f"kernel_lint.verify.backends.{backend}").BACKEND
        context = BackendContext(module.default_targets()[0], folder / source.name)
        os.environ.update(module.environment(context))
        module.install(context)
    model = globals()[source.make](source.argument)
    while (request := pipe.recv()) is not None:
        pipe.send(bench.answer(request, model))


class Side:
    """A source's process, seen from here."""

    def __init__(self, source: Source, arguments: argparse.Namespace, files: list[str]) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        work = (source, arguments.backend, Path(files[0]).parent, theirs)
        self._process = context.Process(target=serve, args=work, daemon=True)
        self._process.start()
        theirs.close()
        self._random = random.Random(source.name)
        self._load: dict[str, Any] = {"slot": "0", "files": files, "sets": arguments.sets}
        self._load |= {"warmup": 3, "graph": True}
        self.place()

    def _ask(self, **request: Any) -> dict[str, Any]:
        self._pipe.send(request)
        answer: dict[str, Any] = self._pipe.recv()
        return answer

    def place(self) -> None:
        """Put the inputs at other places in memory."""
        self.facts = self._ask(action="load", **self._load)
        self._blocks = 0

    def measure(self, count: int) -> Any:
        """A block of samples, as the stage takes them."""
        from kernel_lint.verify.performance.schedule import Block, pair_of_sets

        pair = pair_of_sets(self._blocks, self.facts["sets"])
        self._blocks += 1
        samples = [[pair[number % 2], self._random.getrandbits(48)] for number in range(count)]
        reply = self._ask(action="block", slot="0", samples=samples)
        return Block(tuple(reply["seconds"]), tuple(reply["leftover"]))

    def close(self) -> None:
        """End the process."""
        self._pipe.send(None)
        self._process.join(30)


def draw(folder: Path, rows: int, columns: int, names: tuple[str, ...]) -> list[str]:
    """Two sets of inputs as files."""
    import torch

    from kernel_lint.verify import trees

    files = [folder / f"{number}.safetensors" for number in range(_DRAWS)]
    for file in files:
        trees.save_tree({name: torch.randn(rows, columns).to(torch.bfloat16) for name in names}, file)
    return [str(file) for file in files]


def rounds(sides: dict[str, Side], count: int, samples: int) -> Any:
    """The stage's rounds over these sides."""
    from kernel_lint.verify.performance.schedule import collect
    from kernel_lint.verify.performance.telemetry import open_telemetry

    device = next(iter(sides.values())).facts["device"]
    telemetry = open_telemetry(device.get("uuid"), device.get("index") or 0)
    return collect({name: side.measure for name, side in sides.items()}, count, samples, telemetry.read)


def calls(pair: dict[str, Side], arguments: argparse.Namespace, title: str) -> Counter[str]:
    """Compare two sides again and again, and count what the second is called."""
    from kernel_lint.verify.performance.statistics import compare

    counted: Counter[str] = Counter()
    speedups = []
    first, second = pair
    resolution = pair[first].facts["resolution"]
    for number in range(arguments.runs):
        if number and number % arguments.replace == 0:
            for side in pair.values():
                side.place()
        done = rounds(pair, arguments.rounds, arguments.samples)
        ratio = compare(done.samples(second), done.samples(first), resolution, seed=number)
        counted[ratio.call] += 1
        speedups.append(ratio.speedup.value)
        print(f"{title} {number}: {ratio.speedup.value:.4f} {ratio.call}", file=sys.stderr, flush=True)
    quantiles = statistics.quantiles(speedups, n=20) if len(speedups) > 1 else speedups
    print(f"{title}: {dict(counted)} in {arguments.runs} runs; speed-up in the median", end=" ")
    middle = statistics.median(speedups)
    print(f"{middle:.4f}, 5% to 95%: {quantiles[0]:.4f} to {quantiles[-1]:.4f}", flush=True)
    return counted


def against_torch(sides: dict[str, Side], arguments: argparse.Namespace) -> dict[str, Any]:
    """Time all sides in the same rounds, and print a line for each."""
    from kernel_lint.verify.performance.statistics import bootstrap, pooled_median

    size = 2 * arguments.rows * arguments.columns
    moved = {name: size * (4 if "norm" in name else 2) for name in sides}
    done = rounds(sides, arguments.rounds, arguments.samples)
    table = {}
    for name in sides:
        interval = bootstrap(done.samples(name), pooled_median)
        rate = moved[name] / interval.value / 1e9
        mode = sides[name].facts["mode"]
        table[name] = {"microseconds": interval.scaled(1e6).to_json(), "GB/s": rate, "mode": mode}
    for name, row in table.items():
        time, share = row["microseconds"], row["GB/s"] / table["copy"]["GB/s"]
        print(
            f"{name:18} {time['value']:9.2f} us [{time['low']:.2f}, {time['high']:.2f}]  "
            f"{row['GB/s']:7.0f} GB/s  {share:4.0%} of a copy's  ({row['mode']})",
            flush=True,
        )
    return table


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--backend", default="nvptx", help="the backend that runs the examples: nvptx, device, torch"
    )
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--replace", type=int, default=5, help="put the inputs elsewhere after so many runs")
    parser.add_argument("--sets", type=int, default=8, help="places in memory in each run, as the stage has")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--rows", type=int, default=8192)
    parser.add_argument("--columns", type=int, default=8192)
    parser.add_argument("--part", choices=("aa", "planted", "torch"), action="append")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def main() -> int:
    """Run the parts asked for."""
    arguments = parse()
    parts = arguments.part or ["aa", "planted", "torch"]
    fewer = round(arguments.rows / SLOWER)
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:

        def sides(*sources: Source, inputs: tuple[str, ...] = ("x",)) -> dict[str, Side]:
            files = draw(Path(tempfile.mkdtemp(dir=folder)), arguments.rows, arguments.columns, inputs)
            return {source.name: Side(source, arguments, files) for source in sources}

        for part, rows in (("aa", fewer), ("planted", None)):
            if part in parts:
                pair = sides(
                    Source("first", "example_softmax", fewer), Source("second", "example_softmax", rows)
                )
                results["device"] = pair["first"].facts["device"]["name"]
                results[part] = calls(pair, arguments, part)
                for side in pair.values():
                    side.close()
        if "torch" in parts:
            every = sides(
                Source("copy", "torch_copy"),
                Source("softmax", "example_softmax"),
                Source("torch.softmax", "torch_softmax"),
                Source("rmsnorm", "example_rmsnorm", arguments.columns),
                Source("add + F.rms_norm", "torch_rmsnorm", arguments.columns),
                inputs=("x", "residual"),
            )
            results["device"] = every["copy"].facts["device"]["name"]
            results["torch"] = against_torch(every, arguments)
            for side in every.values():
                side.close()
    print(f"on {results.get('device')}")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1), encoding="utf-8")
    apart = arguments.runs - results["aa"]["equal"] if "aa" in results else 0
    missed = arguments.runs - results["planted"]["slower"] if "planted" in results else 0
    return int(apart > 0.05 * arguments.runs or missed > 0)


if __name__ == "__main__":
    sys.exit(main())
