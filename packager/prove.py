"""Proof that a packaged Model makes the same kernels as the workspace that it came from.

Original and packaged Model are imported and traced in processes of their own, for every shape of
the task and every target. The IR that FlyDSL hands to its compiler is compared with source
locations removed, and the code objects that come out byte for byte.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kernel_lint.diagnostics import Reason, StageResult, StageStatus
from kernel_lint.errors import KernelLintError
from kernel_lint.packager.report import PackageResult
from kernel_lint.packager.resolve import entry_name

TARGETS = ("gfx942", "gfx950")
_LOCATION = re.compile(r'loc\((?:"[^"]*"\()?"([^"]+)":(\d+)')


@dataclass(frozen=True, slots=True)
class Job:
    """One side of one comparison: which module to import, where, and what to call it with.

    ``path`` is None for a module that is found by name on ``paths``.
    """

    id: str
    module: str
    path: str | None
    paths: tuple[str, ...]
    folder: str
    input: str
    init_kwargs: dict[str, Any]
    input_kwargs: dict[str, Any]
    timeout: float


def prove(
    entry: Path,
    result: PackageResult,
    *,
    task: Path | None = None,
    roots: Sequence[Path] = (),
    targets: Sequence[str] = TARGETS,
    timeout: float = 300.0,
    python: str = sys.executable,
) -> list[StageResult]:
    """Return a ``prove`` stage for each target and shape of ``shapes.json``.

    ``task`` is the folder of ``shapes.json`` and ``input.py`` (default: the entry's). A stage passes
    when both sides trace, and all IR and code objects are equal; ``data`` holds the kernels, whether
    code objects were linked, and on a difference the first one. ``timeout`` bounds, in seconds, each
    side of each shape. Raises :class:`KernelLintError` where the task cannot be read.
    """
    entry = entry.resolve()
    task = (task or entry.parent).resolve()
    shapes = _shapes(task)
    with tempfile.TemporaryDirectory(prefix="kernel-lint-prove-") as name:
        scratch = Path(name)
        jobs: list[Job] = []
        for shape in shapes:
            jobs.extend(pair(shape["id"], entry, result.text, task, roots, scratch, shape, timeout))
        stages: list[StageResult] = []
        for target in targets:
            outcomes = trace(jobs, target, scratch / target, python)
            for shape in shapes:
                first, second = (outcomes[f"{shape['id']}/{side}"] for side in ("original", "packaged"))
                stages.append(compare(first, second, shape["id"], target, result))
        return stages


def _shapes(task: Path) -> list[dict[str, Any]]:
    path = task / "shapes.json"
    try:
        loaded = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise KernelLintError(
            f"{path} cannot be read: {error}", "name the folder that holds shapes.json and input.py"
        ) from error
    if not (task / "input.py").is_file():
        raise KernelLintError(
            f"{task} has no input.py", "name the folder that holds shapes.json and input.py"
        )
    return [{"init_kwargs": {}, "input_kwargs": {}, **shape, "id": name} for name, shape in loaded.items()]


def pair(
    name: str,
    entry: Path,
    text: str,
    task: Path,
    roots: Sequence[Path],
    scratch: Path,
    shape: dict[str, Any],
    timeout: float,
) -> tuple[Job, Job]:
    """Return the two jobs of a comparison: the workspace's entry, and ``text`` alone in an empty folder."""
    package, top = entry_name(entry)
    folders = [*(str(root.resolve()) for root in roots), str(entry.parent), str(top)]
    module = f"{package}.{entry.stem}" if package else entry.stem
    place = scratch / f"alone-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    empty = scratch / "empty"
    for folder in (place, empty):
        folder.mkdir(exist_ok=True)
    packaged = place / "generated_kernel.py"
    packaged.write_text(text)

    def job(side: str, module: str, path: str | None, paths: tuple[str, ...], folder: Path) -> Job:
        return Job(
            f"{name}/{side}",
            module,
            path,
            paths,
            str(folder),
            str(task / "input.py"),
            shape["init_kwargs"],
            shape["input_kwargs"],
            timeout,
        )

    return (
        job("original", module, None, tuple(dict.fromkeys(folders)), empty),
        job("packaged", "generated_kernel", str(packaged), (), place),
    )


@functools.lru_cache(maxsize=1)
def _linker() -> Any:
    from kernel_lint.verify.linker import find_linker

    return find_linker()[0]


def trace(
    jobs: Sequence[Job], target: str, scratch: Path, python: str = sys.executable
) -> dict[str, dict[str, Any]]:
    """Run jobs for one target, each in a process of its own; return the outcome of each by its id.

    An outcome holds ``modules`` (files of IR, digests of code objects) or ``error``, and ``seconds``.
    """
    scratch.mkdir()
    results = scratch / "results.jsonl"
    request = {
        "environment": _environment(target, scratch),
        "target": target,
        "results": str(results),
        "jobs": [{**asdict(job), "dump": str(scratch / f"job{number}")} for number, job in enumerate(jobs)],
    }
    worker = Path(__file__).with_name("prove_worker.py")
    limit = 120.0 + sum(job.timeout for job in jobs)
    try:
        done = subprocess.run(
            [python, str(worker)],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=limit,
            cwd=scratch,
            check=False,
        )
        problem = f"the process ended with {done.returncode}: {done.stderr.strip()[-400:]}"
    except subprocess.TimeoutExpired:
        problem = f"no answer within {limit:g} s"
    outcomes: dict[str, dict[str, Any]] = {}
    for line in results.read_text().splitlines() if results.exists() else []:
        outcome = json.loads(line)
        outcomes.setdefault(outcome["id"], outcome)
    return {job.id: outcomes.get(job.id, {"error": problem, "seconds": 0.0}) for job in jobs}


def _environment(target: str, place: Path) -> dict[str, str]:
    variables = {
        "COMPILE_ONLY": "1",
        "ARCH": target,
        "FLYDSL_GPU_ARCH": target,
        "FLYDSL_RUNTIME_ENABLE_CACHE": "0",
        "FLYDSL_RUNTIME_CACHE_DIR": str(place / "cache"),
        "FLYDSL_AUTOTUNE_CACHE_DIR": str(place / "autotune"),
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
    }
    linker = _linker()
    if linker is not None:
        from kernel_lint.verify.linker import write_rocm_shim

        variables["ROCM_PATH"] = str(write_rocm_shim(linker, place / "rocm"))
    return variables


def compare(
    first: dict[str, Any], second: dict[str, Any], shape: str, target: str, result: PackageResult
) -> StageResult:
    """Compare what the two sides made; see :func:`prove`."""
    seconds = first["seconds"] + second["seconds"]

    def stage(status: StageStatus, message: str, reason: Reason | None = None, **data: Any) -> StageResult:
        return StageResult("prove", status, shape, target, reason, message, seconds, data)

    if "error" in first:
        message = f"the workspace itself does not trace: {first['error']}"
        return stage(StageStatus.ERROR, message, Reason.COMPILE_ERROR, trace=first.get("trace", ""))
    if "error" in second:
        message = f"the packaged file does not trace: {second['error']}"
        return stage(StageStatus.FAILED, message, Reason.COMPILE_ERROR, trace=second.get("trace", ""))
    pairs = list(zip(first["modules"], second["modules"], strict=False))
    for one, other in pairs:
        difference = _difference(one, other, result)
        if difference:
            return stage(StageStatus.FAILED, difference, Reason.VALUE, ir_equal=False)
    if len(first["modules"]) != len(second["modules"]):
        counts = (
            f"{len(first['modules'])} kernels compiled from the workspace, {len(second['modules'])} packaged"
        )
        return stage(StageStatus.FAILED, counts, Reason.NO_LAUNCH)
    if not pairs:
        return stage(StageStatus.ERROR, "forward compiled no FlyDSL kernel", Reason.NO_LAUNCH)
    if any(one["objects"] != other["objects"] for one, other in pairs):
        message = "the IR is equal and the code objects are not"
        return stage(StageStatus.FAILED, message, Reason.VALUE, ir_equal=True, objects_equal=False)
    linked = _linker() is not None and all(one["objects"] for one, _ in pairs)
    kernels = sum(len(one["objects"]) for one, _ in pairs)
    message = f"{kernels} code objects byte for byte" if linked else "IR equal; no linker, so no code objects"
    return stage(StageStatus.PASSED, message, ir_equal=True, objects_equal=linked or None, modules=len(pairs))


def _difference(one: dict[str, Any], other: dict[str, Any], result: PackageResult) -> str:
    """Return the first operation that differs, and where it comes from; "" where the IR is equal."""
    left, right = (Path(side["ir"]).read_text().splitlines() for side in (one, other))
    if left == right:
        return ""
    index = next(
        (number for number, pair in enumerate(zip(left, right, strict=False)) if pair[0] != pair[1]),
        min(len(left), len(right)),
    )
    old = left[index].strip() if index < len(left) else "(nothing)"
    new = right[index].strip() if index < len(right) else "(nothing)"
    return (
        f"first difference in the IR, line {index + 1}: {old!r} became {new!r}{_origin(other, index, result)}"
    )


def _origin(side: dict[str, Any], index: int, result: PackageResult) -> str:
    lines = Path(side["located"]).read_text().splitlines()
    found = _LOCATION.search(lines[index]) if index < len(lines) else None
    if found is None:
        return ""
    line = int(found.group(2))
    place = result.provenance.get(line)
    where = f"{place[0]}:{place[1]}" if place else f"line {line} of the packaged file"
    return f", from {where}"
