"""The baseline of a workspace: clauses B4 to B11, in order.

Everything in the report and in ``memory/v0.json`` comes from a run of this command or from what the user
wrote into the memory before it. What nobody measured is null there, and "not measured" in the report.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import kernel_lint
from kernel_lint.errors import KernelLintError
from kernel_lint.tools import baseline_report, git, kernel_memory, kernel_test, roofline, semantics
from kernel_lint.tools.executors.local import LocalExecutor
from kernel_lint.tools.measured import compute_dtype
from kernel_lint.tools.memory_store import MemoryStore, write_atomically
from kernel_lint.tools.quality_gate import Check, check
from kernel_lint.tools.sandbox_spec import Executor, Run
from kernel_lint.tools.semantics import ShapeSemantics
from kernel_lint.tools.workspace import BASELINE_FILES, Workspace

VERSION = "v0"
SUBJECT = "V0: baseline kernel"
REPORT_FILE = "baseline_report.md"
BASE_COMMAND = ("python", "test_kernel.py", "--version", VERSION, "--no-memory")

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class BaselineOptions:
    """How to run the baseline. ``multi_seed`` is B5's number of further seeds."""

    multi_seed: int = 3
    backend: str | None = None
    commit: bool = True
    timeout: float | None = None


@dataclass(frozen=True, slots=True)
class Baseline:
    """What the baseline run found; everything the report and the memory are written from."""

    workspace: Workspace
    shapes: tuple[ShapeSemantics, ...]
    base: Json
    seeds: Json | None
    utilization: tuple[Json, ...]
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether the quality gate passed: no check failed."""
        return all(check.passed is not False for check in self.checks)

    def to_json(self) -> Json:
        """Return the outcome as one JSON object."""
        return {
            "passed": self.passed,
            "checks": [asdict(check) for check in self.checks],
            "base": self.base,
            "seeds": self.seeds,
            "utilization": list(self.utilization),
        }


def run(
    workspace: Workspace, executor: Executor, options: BaselineOptions, progress: Callable[[str], None]
) -> tuple[Baseline, str | None]:
    """Run the baseline and return it with the hash of its commit, None where there is none.

    Raises :class:`KernelLintError` when version 0 is committed already or a step cannot be run.
    """
    folder = workspace.folder
    if (done := git.find_commit(folder, SUBJECT)) is not None:
        raise KernelLintError(
            f"{SUBJECT!r} is committed already ({done[:12]})", "go on with --version v1 and so on"
        )
    progress("describe reference.py (B1)")
    shapes = tuple(semantics.describe(folder / "reference.py"))
    progress("run every shape with the base seed (B2, B3, B4)")
    base = _test(workspace, executor, options, ())
    seeds = None
    if options.multi_seed and base["passed"]:
        progress(f"run {options.multi_seed} further seeds (B5)")
        seeds = _test(workspace, executor, options, ("--multi-seed", str(options.multi_seed)))
    progress("put the times under the roofline (B6, B7)")
    utilization = tuple(_utilization(workspace, shapes, base))
    checks = tuple(check(workspace, base, seeds, options.multi_seed))
    found = Baseline(workspace, shapes, base, seeds, utilization, checks)
    progress("write memory/v0.json (B8, B9)")
    _write_memory(found)
    progress(f"write {REPORT_FILE} (B10)")
    memory = MemoryStore(folder).read(VERSION)
    write_atomically(folder / REPORT_FILE, baseline_report.render(found, memory))
    if not (found.passed and options.commit):
        return found, None
    progress(f"commit {SUBJECT!r} (B11)")
    return found, git.commit(folder, SUBJECT, _commit_paths(folder))


def _test(workspace: Workspace, executor: Executor, options: BaselineOptions, more: tuple[str, ...]) -> Json:
    """Run test_kernel.py in the sandbox and return its RESULT_JSON."""
    extra = ("--backend", options.backend) if options.backend else ()
    run = Run(
        command=(*BASE_COMMAND, *more, *extra),
        workspace=workspace.folder,
        timeout=options.timeout,
        environment=_environment(executor),
    )
    with tempfile.TemporaryDirectory(prefix="kernel-lint-") as name:
        output = Path(name) / "output.txt"
        result = executor.run(run, output)
        text = output.read_text(encoding="utf-8", errors="replace")
    if result.exit_code not in (0, 1):
        last = text.strip().splitlines()[-2:] or [result.message or "it printed nothing"]
        raise KernelLintError(
            f"test_kernel.py ended with {result.exit_code}: {' '.join(last)}", "run it by hand"
        )
    return kernel_test.parse_result(text)


def _environment(executor: Executor) -> dict[str, str]:
    """Return how a run on this machine finds this kernel-lint; elsewhere it must be installed."""
    if not isinstance(executor, LocalExecutor):
        return {}
    package = str(Path(kernel_lint.__file__).parents[1])
    return {"PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))}


def _utilization(workspace: Workspace, shapes: tuple[ShapeSemantics, ...], base: Json) -> list[Json]:
    """Return the roofline of every timed shape; nothing where nothing was timed or no peak is known."""
    found = []
    by_name = {shape.shape: shape for shape in shapes}
    for row in (base["performance"] or {}).get("per_shape", []):
        shape = by_name[row["shape"]]
        name = base["performance"].get("device") or workspace.gpu.name
        try:
            limits = roofline.limits_for(name, compute_dtype(shape))
        except KernelLintError:
            limits = None
        blocks = _blocks(base, shape.shape)
        if limits is None or blocks is None:
            continue
        work = roofline.Work(
            shape.flops / blocks, shape.bytes / blocks, blocks, row["latency_us"] / 1e3, scope="kernel"
        )
        result = roofline.compute(limits, work)
        found.append({"shape": row["shape"], **roofline.to_json(limits, work, result)})
    return found


def _blocks(base: Json, shape: str) -> int | None:
    """Return the number of blocks of a shape's launch, where there is exactly one kind of launch."""
    grids = [launch["grid"] for launch in base["launches"] if launch["shape"] == shape]
    if len(grids) != 1:
        return None
    x, y, z = grids[0]
    return int(x) * int(y) * int(z)


def _write_memory(found: Baseline) -> None:
    """Write what the run measured; fields that the user filled in before stay."""
    gate = [{"name": check.name, "passed": check.passed, "detail": check.detail} for check in found.checks]
    more: Json = {"quality_gate.passed": found.passed, "quality_gate.checks": gate}
    if found.base["launches"]:
        more["optimization.configuration.launches"] = found.base["launches"]
    cases = [*found.base["cases"], *(found.seeds["cases"] if found.seeds else [])]
    runs = [found.base, *([found.seeds] if found.seeds else [])]
    errors = [run["max_rel_err"] for run in runs if run["max_rel_err"] is not None]
    result = {
        **found.base,
        "passed": all(run["passed"] for run in runs),
        "cases": cases,
        "max_rel_err": max(errors, default=None),
        "seeds": sorted({seed for run in runs for seed in run["seeds"]}),
        "timeouts": [name for run in runs for name in run["timeouts"]],
    }
    kernel_memory.write(found.workspace, VERSION, result, more)


def _commit_paths(folder: Path) -> list[str]:
    """Return the files of the baseline's commit: the contract's five, and kernel.py's local imports."""
    text = (folder / "kernel.py").read_text(encoding="utf-8")
    local = [name for name in kernel_test.local_modules(folder, text) if name != "."]
    paths = [f"{name}.py" if (folder / f"{name}.py").is_file() else name for name in local]
    return [*BASELINE_FILES, *paths]
