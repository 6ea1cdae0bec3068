"""Proof that a packaged Model makes the same kernels as the workspace that it came from.

Original and packaged Model are imported and traced in processes of their own, for every shape of
the task and every target. The IR that FlyDSL hands to its compiler is compared with source
locations removed, and the code objects that come out byte for byte.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
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

    ``path`` is None for a module that is found by name on ``paths``; ``timeout`` is in seconds.
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
    after: str | None = None  # the job that must have ended in time for this one to be run


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
    jobs: Sequence[Job],
    target: str,
    scratch: Path,
    python: str = sys.executable,
    seen: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, dict[str, Any]]:
    """Run jobs for one target, each in a process of its own; return the outcome of each by its id.

    ``seen`` is called with each outcome as it comes in. An outcome holds ``modules`` (files of IR, digests
    of code objects) as far as it came, ``seconds``, and ``error`` if it failed.
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
    outcomes: dict[str, dict[str, Any]] = {}
    taken = 0

    def collect() -> None:
        nonlocal taken
        text = results.read_text() if results.exists() else ""
        whole = text[: text.rfind("\n") + 1].splitlines()
        for outcome in map(json.loads, whole[taken:]):
            if outcomes.setdefault(outcome["id"], outcome) is outcome and seen is not None:
                seen(outcome)
        taken = len(whole)

    asked, said = scratch / "request.json", scratch / "stderr.txt"
    asked.write_text(json.dumps(request))
    with asked.open() as source, said.open("w") as errors:
        child = subprocess.Popen(
            [python, str(worker)], stdin=source, stdout=subprocess.DEVNULL, stderr=errors, cwd=scratch
        )
        deadline = time.monotonic() + limit
        while child.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(0.2)
            collect()
        problem = f"the process ended with {child.poll()}: {said.read_text().strip()[-400:]}"
        if child.poll() is None:
            child.kill()
            child.wait()
            problem = f"no answer within {limit:g} s"
    collect()
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
