"""The child process of :mod:`kernel_lint.packager.proof`: import a Model, trace it, keep what FlyDSL made.

It reads one request as JSON from standard input and writes one JSON line per job to the file
that the request names. A job is one side (original or packaged) on one shape, and runs in a
process of its own, forked after torch and FlyDSL are loaded and before anything else is: an
abort in LLVM costs one job, and neither modules nor compiled state carry over.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn


def main() -> int:
    """Serve the request."""
    request = json.load(sys.stdin)
    os.environ.update(request["environment"])
    import flydsl.compiler  # noqa: F401 - before the forks, so that each of them starts warm
    import torch  # noqa: F401

    results = Path(request["results"])
    for job in request["jobs"]:
        began = time.perf_counter()
        if job["after"] is not None and not _ended(results, job["after"]):
            _write(
                results,
                {"id": job["id"], "error": f"not run, as {job['after']} took too long", "seconds": 0.0},
            )
            continue
        pid = os.fork()
        if pid == 0:
            _child(request["target"], job, results)
        message = _wait(pid, job["timeout"])
        if message:
            seconds = time.perf_counter() - began
            late = seconds >= job["timeout"]
            _write(results, {"id": job["id"], "error": message, "late": late, "seconds": seconds})
    return 0


def _child(target: str, job: dict[str, Any], results: Path) -> NoReturn:
    began = time.perf_counter()
    outcome: dict[str, Any] = {"modules": []}
    try:
        sys.path[:0] = job["paths"]
        os.chdir(job["folder"])
        _run(target, job, outcome["modules"])
    except BaseException as error:
        outcome.update(error=_describe(error), trace=traceback.format_exc(limit=-6))
    _write(results, {"id": job["id"], **outcome, "seconds": time.perf_counter() - began})
    sys.stdout.flush()
    os._exit(0)


def _write(results: Path, outcome: dict[str, Any]) -> None:
    with results.open("a") as stream:
        stream.write(json.dumps(outcome) + "\n")


def _ended(results: Path, name: str) -> bool:
    outcomes = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    return any(outcome["id"] == name and not outcome.get("late") for outcome in outcomes)


def _wait(pid: int, timeout: float) -> str:
    """Return how a child ended if it did not end well; one that takes longer than ``timeout`` s is killed."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return f"the process ended with status {os.waitstatus_to_exitcode(status)}" if status else ""
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return f"no answer within {timeout:g} s"


def _describe(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {' '.join(text[:3])[:400]}"


def _run(target: str, job: dict[str, Any], modules: list[dict[str, Any]]) -> None:
    import torch

    _stand_in(target)
    recorder = _Recorder(Path(job["dump"]), modules)
    recorder.hook()
    module = _import(job["module"], job["path"])
    inputs = _import("kernel_lint_prove_input", job["input"])
    torch.manual_seed(0)
    arguments = inputs._make_inputs(**job["input_kwargs"])
    torch.manual_seed(0)
    model = module.Model(**job["init_kwargs"])
    model(**arguments)


def _import(name: str, path: str | None) -> Any:
    if path is None:
        return importlib.import_module(name)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _stand_in(target: str) -> None:
    try:
        from kernel_lint.verify.backends.standin import install_cuda_standins
    except ImportError:
        return
    install_cuda_standins(target)


class _Recorder:
    """Keeps the IR that goes into FlyDSL's compiler, and digests of the code objects that come out."""

    def __init__(self, dump: Path, modules: list[dict[str, Any]]) -> None:
        self.dump = dump
        self.modules = modules
        dump.mkdir(parents=True, exist_ok=True)

    def hook(self) -> None:
        """Wrap the compiler; both of its forms (IR object in 0.3, text in 0.5) are known."""
        from flydsl.compiler import jit_function

        original = jit_function.MlirCompiler.__dict__["compile"].__func__
        context = jit_function.ir

        def compile_and_record(cls: Any, source: Any, *args: Any, **kwargs: Any) -> Any:
            module = source if hasattr(source, "operation") else context.Module.parse(source)
            number = len(self.modules)
            plain = self.dump / f"{number}.mlir"
            plain.write_text(module.operation.get_asm(enable_debug_info=False))
            located = self.dump / f"{number}.located.mlir"
            located.write_text(module.operation.get_asm(enable_debug_info=True, pretty_debug_info=True))
            entry: dict[str, Any] = {"ir": str(plain), "located": str(located), "objects": []}
            self.modules.append(entry)
            compiled = original(cls, source, *args, **kwargs)
            for operation in compiled.body.operations:
                if operation.operation.name == "gpu.binary":
                    text = operation.operation.get_asm(enable_debug_info=False, large_elements_limit=None)
                    entry["objects"].append(hashlib.sha256(text.encode()).hexdigest())
            return compiled

        jit_function.MlirCompiler.compile = classmethod(compile_and_record)
        self._hook_ahead_of_time(jit_function)

    def _hook_ahead_of_time(self, jit_function: Any) -> None:
        """Make ``flyc.compile`` return a callable: in compile-only mode it returns None."""
        original = jit_function._compile_impl

        def compile_ahead(function: Any, *args: Any, **kwargs: Any) -> Any:
            return original(function, *args, **kwargs) or (lambda *_a, **_k: None)

        jit_function._compile_impl = compile_ahead


if __name__ == "__main__":
    sys.exit(main())
