"""Test a workspace's kernel against its reference (clauses B2 to B5)."""

from __future__ import annotations

import ast
import json
import math
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernel_lint.errors import KernelLintError
from kernel_lint.tools import kernel_cases, measured
from kernel_lint.tools.case_pool import CaseProcess
from kernel_lint.tools.kernel_cases import ERROR, FAIL, PASS, TIMEOUT_FAIL, Case, CaseResult
from kernel_lint.tools.workspace import Workspace

RESULT_MARK = "[test_kernel] RESULT_JSON="
DEFAULT_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True)
class KernelTestPlan:
    """What to run. ``backend`` None chooses by what the machine has; ``timeout`` is a case's, in seconds."""

    version: str
    multi_seed: int = 0
    seed: int = 0
    backend: str | None = None
    shapes: tuple[str, ...] = ()
    timeout: float = DEFAULT_TIMEOUT


@dataclass(frozen=True, slots=True)
class KernelTestResult:
    """The outcome of a run; ``performance`` is None where nothing could be timed."""

    version: str
    backend: str
    target: str
    cases: tuple[CaseResult, ...]
    performance: dict[str, Any] | None
    candidate: str
    notes: tuple[str, ...] = field(default=())

    @property
    def passed(self) -> bool:
        """Whether every case passed, and there was one."""
        return bool(self.cases) and all(case.status == PASS for case in self.cases)

    def to_json(self) -> dict[str, Any]:
        """Return the object of the RESULT_JSON line."""
        worst = max((case.rel_err for case in self.cases if case.rel_err is not None), default=None)
        thresholds = [case.threshold for case in self.cases if case.threshold is not None]
        return {
            "version": self.version,
            "passed": self.passed,
            "backend": self.backend,
            "target": self.target,
            "candidate": self.candidate,
            "max_rel_err": worst,
            "threshold": max(thresholds, default=None),
            "seeds": sorted({case.seed for case in self.cases}),
            "timeouts": [case.name for case in self.cases if case.status == TIMEOUT_FAIL],
            "counts": {
                name: sum(case.status == name for case in self.cases)
                for name in (PASS, FAIL, TIMEOUT_FAIL, ERROR)
            },
            "cases": [case.to_json() for case in self.cases],
            "launches": _merged(self.cases, "launches"),
            "kernels": _merged(self.cases, "kernels"),
            "performance": self.performance,
            "notes": list(self.notes),
        }


def time_limit() -> float:
    """Return the limit of one case from ``TEST_TIMEOUT_SEC``, 30 s when it is not set.

    Raises :class:`KernelLintError` when it is not a positive number.
    """
    text = os.environ.get("TEST_TIMEOUT_SEC", str(DEFAULT_TIMEOUT))
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds > 0):
        raise KernelLintError(
            f"TEST_TIMEOUT_SEC is {text!r}", "set it to a number of seconds, for instance 30"
        )
    return seconds


def run(
    workspace: Workspace, plan: KernelTestPlan, progress: Callable[[CaseResult], None]
) -> KernelTestResult:
    """Run all cases of a plan and return what came out; ``progress`` is called after each.

    Raises :class:`KernelLintError` when the workspace's task or kernel cannot be loaded, or no
    backend here can run it.
    """
    from kernel_lint.verify.contract import load_task

    task = load_task(workspace.folder)
    known = [shape.id for shape in task.shapes]
    if unknown := set(plan.shapes) - set(known):
        raise KernelLintError(f"shapes.json has no shape {min(unknown)!r}", f"it has {', '.join(known)}")
    shapes = [shape for shape in known if not plan.shapes or shape in plan.shapes]
    backend, extra = choose_backend(workspace, plan.backend)
    text, origin = candidate_source(workspace.folder)
    cases = kernel_cases.base_cases(shapes, plan.seed)
    if plan.multi_seed:
        cases = kernel_cases.seed_cases(shapes, plan.seed, plan.multi_seed)
    results = []
    place = {"task": str(workspace.folder.resolve())}
    warm_up = {"warm": True, **place, "options": _options(cases[0], backend, extra, plan.timeout)}
    with tempfile.TemporaryDirectory(prefix="kernel-lint-") as name, CaseProcess(warm_up) as process:
        candidate = Path(name) / "generated_kernel.py"
        candidate.write_text(text, encoding="utf-8")
        for case in cases:
            options = _options(case, backend, extra, plan.timeout)
            request = {"candidate": str(candidate), **place, "options": options}
            result = _run_case(process, case, request, plan.timeout)
            progress(result)
            results.append(result)
    target = ", ".join(extra["targets"]) or "cpu"
    timing = measured.performance(workspace, results)
    return KernelTestResult(plan.version, backend, target, tuple(results), timing, origin)


def choose_backend(workspace: Workspace, wanted: str | None) -> tuple[str, dict[str, Any]]:
    """Return the verify backend and the options that go with it.

    A device of the platform's kind comes first, then the emulator for FlyDSL kernels. Raises
    :class:`KernelLintError` where neither is there.
    """
    from kernel_lint.verify.backends import backend_names, load_backend

    flydsl = workspace.gpu.framework == "FlyDSL"
    settings: dict[str, Any] = {"targets": [workspace.gpu.target] if flydsl else []}
    if wanted is not None:
        load_backend(wanted)  # refuses a name that there is not
        return wanted, settings if wanted != "torch" else {"targets": [], "require_launch": False}
    names = backend_names()
    vendor = _device_vendor()
    if flydsl:
        # The device backend takes times, which clause B6 asks for.
        for name, needed in (("device", "AMD"), ("emulate", None)):
            if name in names and needed in (None, vendor):
                return name, settings
        remedy = "install it with `pip install 'kernel-lint[verify]'`, or name a --backend"
        raise KernelLintError(f"nothing here can run a FlyDSL kernel for the {workspace.gpu.name}", remedy)
    if vendor == "NVIDIA":
        return "device", settings
    raise KernelLintError(
        f"{workspace.gpu.framework} kernels run only on an NVIDIA GPU that torch sees, and there is none",
        "run it on the GPU; memory, sandbox and utilization work as they are",
    )


def candidate_source(folder: Path) -> tuple[str, str]:
    """Return the kernel as one module, and how it was made: as it is, or packaged.

    Raises :class:`KernelLintError` when there is no kernel.py or it cannot be packaged.
    """
    path = folder / "kernel.py"
    if not path.is_file():
        raise KernelLintError(f"{path} does not exist", "write the kernel there; it defines class Model")
    text = path.read_text(encoding="utf-8")
    if not local_modules(folder, text):
        return text, "kernel.py"
    from kernel_lint.packager import package

    return package(path).text, "kernel.py with its local modules, packaged"


def local_modules(folder: Path, text: str) -> list[str]:
    """Return the modules and packages of the folder that a source imports, at any depth of its tree."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return []
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add("." if node.level else (node.module or "").split(".")[0])
    found = {
        name
        for name in names
        if (folder / f"{name}.py").is_file() or ((folder / name).is_dir() and name != ".")
    }
    return sorted(found | ({"."} & names))


def result_line(result: KernelTestResult) -> str:
    """Return the one machine-readable line of the output (clause B4)."""
    return RESULT_MARK + json.dumps(result.to_json(), allow_nan=False)


def parse_result(output: str) -> dict[str, Any]:
    """Find the RESULT_JSON line in a run's output.

    Raises :class:`KernelLintError` when there is not exactly one.
    """
    lines = [line for line in output.splitlines() if line.startswith(RESULT_MARK)]
    if len(lines) != 1:
        tail = output.strip().splitlines()[-1:] or ["nothing"]
        raise KernelLintError(
            f"test_kernel.py printed {len(lines)} RESULT_JSON lines; its last: {tail[0]}", "run it by hand"
        )
    found = json.loads(lines[0].removeprefix(RESULT_MARK))
    assert isinstance(found, dict)
    return found


def _options(case: Case, backend: str, extra: dict[str, Any], limit: float) -> dict[str, Any]:
    """Return verify's options for a case: the contract's norm, one draw, no lint of a file in the making."""
    common: dict[str, Any] = {"backend": backend, "tolerance": "contract", "lint": False, "timeout": limit}
    common |= {"seeds": 1, "seed": case.seed, "shapes": [case.shape], "variants": case.variants}
    return common | extra


def _run_case(process: CaseProcess, case: Case, request: dict[str, Any], limit: float) -> CaseResult:
    started = time.monotonic()
    reply = process.ask(request, limit)
    seconds = time.monotonic() - started
    if reply is None:
        return kernel_cases.timed_out(case, limit)
    if "error" in reply:
        return kernel_cases.broken(case, reply["error"], seconds)
    return kernel_cases.interpret(case, reply["report"], seconds)


def _device_vendor() -> str | None:
    """Return whose GPU torch sees, if any."""
    import torch

    if not torch.cuda.is_available():
        return None
    return "AMD" if torch.version.hip else "NVIDIA"


def _merged(cases: tuple[CaseResult, ...], key: str) -> list[dict[str, Any]]:
    """Return the distinct launches, each with its shape, or kernels over all cases."""
    found: list[dict[str, Any]] = []
    for case in cases:
        if key == "launches":
            items = [{"shape": case.shape, **launch} for launch in case.data.get("launches", [])]
        else:
            items = case.data.get("compile", {}).get("kernels", [])
        found += [item for item in items if item not in found]
    return found
