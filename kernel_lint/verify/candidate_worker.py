"""The candidate's side: prepare the process, import the candidate, run what the judge asks.

What this module reports travels from a process that the candidate shares, so the judge
treats it as a claim (see :mod:`kernel_lint.verify.protocol`). The functions that it needs
after the import are bound before it.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import importlib.machinery
import importlib.util
import inspect
import json
import os
import sys
import tempfile
import types
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from kernel_lint.diagnostics import Reason
from kernel_lint.verify import audit, isolation, trees
from kernel_lint.verify.backends import BackendContext, Observer, load_backend
from kernel_lint.verify.backends.standin import device_redirect, gpu_present
from kernel_lint.verify.faults import WorkerError, classify, describe, trace_of
from kernel_lint.verify.inputs import map_tensors, seed_everything
from kernel_lint.verify.integrity import Fingerprint, Watch, undisturbed
from kernel_lint.verify.memory import MemoryWatch, changed, guarded_inputs, snapshots, watched_memory
from kernel_lint.verify.performance.bench import Bench
from kernel_lint.verify.protocol import Job, encode

MODULE_NAME = "generated_kernel"
# Modules of the harness that the candidate has no business to find.
_HIDDEN = ("zygote", "session", "judge", "protocol", "audit", "integrity", "memory", "isolation", "landlock",
           "candidate_worker", "reference_worker", "threads")  # fmt: skip
# What a file system answers when a name is taken by something that is no file.
_IN_THE_WAY = (errno.EISDIR, errno.EEXIST, errno.ENOTDIR, errno.ENOENT, errno.ENOTEMPTY, errno.ELOOP)
_VIOLATIONS = 20


def main(job: Job, requests: int, replies: int, record: isolation.Isolation) -> None:
    """Serve requests until the judge has no more; never raises for what the candidate does."""
    worker = _Worker(job, record, replies)
    write, close, getpid, leave, own = os.write, os.close, os.getpid, os._exit, os.getpid()
    with os.fdopen(requests, "rb", closefd=True) as lines:
        for line in lines:
            request = json.loads(line)
            answer = worker.answer(request)
            if getpid() != own:
                leave(0)  # A process that the candidate forked has no answer to give.
            data = encode({"op": request["op"], **answer})
            while data:
                data = data[write(replies, data) :]
    close(replies)


class _Worker:
    def __init__(self, job: Job, record: isolation.Isolation, replies: int) -> None:
        self._job = job
        self._replies = replies
        self._folder = Path(job.folder)
        self._record = record
        self._module: types.ModuleType | None = None
        self._models: dict[str, torch.nn.Module] = {}
        self._held: dict[str, Any] = {}
        self._input_memory = MemoryWatch()
        self._observer: Observer | None = None
        self._bench: Bench | None = None
        self._log = audit.AuditLog()
        self._fingerprint: Fingerprint | None = None
        self._redirect: Callable[[], Any] = contextlib.nullcontext
        self._operations = {
            "prepare": self._prepare,
            "import": self._import,
            "signature": self._signature,
            "build": self._build,
            "run": self._run,
            "forget": self._forget,
            "time": self._time,
        }

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Carry out one request; whatever is raised becomes a typed reason."""
        try:
            data = self._operations[request["op"]](request)
        except WorkerError as error:
            return {"ok": False, "reason": error.reason.value, "message": error.message, "data": error.data}
        except trees.TreeError as error:
            return {"ok": False, "reason": Reason.HARNESS_ERROR.value, "message": str(error)}
        except BaseException as error:
            return self._own_fault(error)
        return {"ok": True, "data": {**data, "tampering": self._tampering()}}

    def _own_fault(self, error: BaseException) -> dict[str, Any]:
        """Say that our code failed; after a function that it relies on was replaced, that is no wonder."""
        found = self._tampering()
        reason, message = Reason.HARNESS_ERROR, describe(error)
        replaced = self._replaced()
        if replaced:
            reason = Reason.TAMPERING
            message = f"replaced {replaced[0]}, on which the judge relies ({message})"
        data = {"traceback": trace_of(error, self._job.module), "tampering": found}
        return {"ok": False, "reason": reason.value, "message": message, "data": data}

    def _prepare(self, _request: dict[str, Any]) -> dict[str, Any]:
        """Install the backend and close the process in; nothing of the candidate has run yet."""
        job = self._job
        torch.set_num_threads(job.threads)
        tempfile.tempdir = str(self._folder / "scratch")
        backend = load_backend(job.backend)
        context = BackendContext(job.target, self._folder / "scratch", job.options)
        self._observer = backend.install(context)
        if job.device != "cpu":
            # The driver opens files that are closed to this process from here on.
            torch.zeros(1, device=job.device)
        if job.device == "cpu" and not gpu_present():
            self._redirect = device_redirect
        self._bench = Bench(job.device, self._observer.synchronize)
        isolation.apply_limits(job.limits, bound_address_space=job.device == "cpu")
        self._fingerprint = Fingerprint()
        sys.modules["__main__"] = types.ModuleType("__main__")
        for name in _HIDDEN:
            sys.modules.pop(f"kernel_lint.verify.{name}", None)
        sys.path[:] = [str(self._folder / "work"), *(p for p in sys.path if _is_library(p))]
        if job.isolate:
            self._close()
        return {"isolation": self._record.to_json()}

    def _close(self) -> None:
        job = self._job
        work, inbox, outbox, scratch = (
            self._folder / name for name in ("work", "inbox", "outbox", "scratch")
        )
        readable = (work, inbox, *map(Path, job.readable))
        writable = (outbox, scratch, *(isolation.device_nodes() if job.device != "cpu" else ()))
        dropped, problem = isolation.drop_capabilities()
        abi, refusal = isolation.close_file_system(readable, writable)
        library = tuple(Path(p) for p in sys.path[1:]) + (Path(__file__).parents[1],)
        devices = (Path("/proc/self"), Path("/dev"))
        self._log = audit.install(
            Path(job.module),
            (*readable, *writable, *devices),
            tuple(map(Path, job.secret)),
            (*library, Path(sys.base_prefix), Path(sys.prefix)),
            self._witness(),
        )
        problems = (*self._record.problems, *filter(None, (problem, refusal)))
        self._record = replace(
            self._record, landlock_abi=abi, capabilities_dropped=dropped, audit_hook=True, problems=problems
        )

    def _witness(self) -> Callable[[Reason, str], None]:
        """Return what tells the judge at once what was seen: later the candidate might make us forget it."""
        write, replies = os.write, self._replies

        def tell(reason: Reason, message: str) -> None:
            with contextlib.suppress(OSError):
                write(replies, encode({"seen": {"reason": reason.value, "message": message}}))

        return tell

    def _import(self, _request: dict[str, Any]) -> dict[str, Any]:
        """Import the candidate as ``generated_kernel`` and look for its Model."""
        path = Path(self._job.module)
        loader = importlib.machinery.SourceFileLoader(MODULE_NAME, str(path))
        spec = importlib.util.spec_from_file_location(MODULE_NAME, path, loader=loader)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[MODULE_NAME] = module
        with self._candidate_code(Reason.IMPORT_ERROR):
            loader.exec_module(module)
        self._log.threads.imported = True
        model = vars(module).get("Model")
        if not (isinstance(model, type) and issubclass(model, torch.nn.Module)):
            what = "no Model" if model is None else "a Model that is not a torch.nn.Module class"
            raise WorkerError(Reason.SIGNATURE, f"the candidate defines {what} at module level")
        self._module = module
        return {}

    def _signature(self, request: dict[str, Any]) -> dict[str, Any]:
        """Check that Model and forward accept the names that the task will pass."""
        model = self._model_class()
        for function, names, what in (
            (model.__init__, request["init_names"], "Model.__init__"),
            (model.forward, request["input_names"], "Model.forward"),
        ):
            try:
                signature = inspect.signature(function)
            except (TypeError, ValueError) as error:
                raise WorkerError(Reason.SIGNATURE, f"{what} has no readable signature ({error})") from None
            try:
                signature.bind(None, **dict.fromkeys(names))
            except TypeError as error:
                raise WorkerError(
                    Reason.SIGNATURE,
                    f"{what}{signature} does not accept {', '.join(names) or 'no arguments'}: {error}",
                ) from None
        return {}

    def _build(self, request: dict[str, Any]) -> dict[str, Any]:
        """Build a Model under the reference's seed and copy the reference's parameters into it."""
        model_class = self._model_class()
        seed_everything(request["seed"])
        with self._candidate_code(Reason.RUNTIME_ERROR, "Model(...)"):
            model = model_class(**request["init_kwargs"])
            if self._job.device != "cpu":
                model = model.to(self._job.device)
            if hasattr(model, "eval"):
                model.eval()
        copied = "none"
        if request.get("parameters"):
            copied = self._copy_parameters(model, Path(request["parameters"]))
        self._models[request["slot"]] = model
        return {"parameters": copied}

    def _copy_parameters(self, model: torch.nn.Module, path: Path) -> str:
        wanted = trees.load_tree(path).value
        with self._candidate_code(Reason.RUNTIME_ERROR, "Model.state_dict()"):
            have = model.state_dict()
        if {k: tuple(v.shape) for k, v in have.items()} != {k: tuple(v.shape) for k, v in wanted.items()}:
            return "same seed"
        with self._candidate_code(Reason.RUNTIME_ERROR, "Model.load_state_dict()"):
            model.load_state_dict({k: v.to(have[k].device) for k, v in wanted.items()})
        return "copied"

    def _run(self, request: dict[str, Any]) -> dict[str, Any]:
        """Call forward once and write what it returned.

        With ``poison`` (a byte) memory is allocated poisoned and between guard bands and the
        operators are observed; without it the call is as plain as an evaluator's. With ``idle``
        launches pass without running, where the backend can do that.
        """
        observer = self._observer
        assert observer is not None
        with undisturbed():
            held = self._place(Path(request["inputs"]), bool(request.get("reuse")))
            before = snapshots(held)
        os.environ.update(request.get("environment") or {})
        seed_everything(request["seed"])
        watch = Watch()
        observer.begin()
        result, memory = self._call(request, held, observer, watch)
        with undisturbed():
            violations = (*self._input_memory.violations(), *memory.violations())
            data: dict[str, Any] = {
                "observation": observer.end().to_json(),
                "changed_inputs": list(changed(before, held)),
                "damage": [violation.describe() for violation in violations[:_VIOLATIONS]],
                "remarks": self._log.threads.left(harmless=True),
            }
            if request.get("poison") is not None:
                data["aten"] = watch.summary()
            if request.get("output"):
                self._save(result, Path(request["output"]), held)
        del result
        return data

    def _call(
        self, request: dict[str, Any], held: dict[str, Any], observer: Observer, watch: Watch
    ) -> tuple[Any, MemoryWatch]:
        """Call forward in the circumstances that are asked for; returns its result and the memory it got."""
        model, poison = self._models[request["slot"]], request.get("poison")
        with contextlib.ExitStack() as around:
            memory = around.enter_context(watched_memory(poison)) if poison is not None else MemoryWatch()
            around.enter_context(torch.no_grad())
            around.enter_context(self._candidate_code(Reason.RUNTIME_ERROR, "Model.forward"))
            if poison is not None:
                around.enter_context(watch)
            if request.get("idle"):
                idle: Any = observer
                idle.idle(True)
                around.callback(idle.idle, False)
            result = model(**held)
            observer.synchronize()
        return result, memory

    def _place(self, source: Path, reuse: bool) -> dict[str, Any]:
        """Load inputs into guarded memory; with ``reuse`` at the addresses of the last call's."""
        inputs: dict[str, Any] = trees.load_tree(source, strides=True).value
        if self._job.device != "cpu":
            inputs = map_tensors(inputs, lambda tensor: _to_device(tensor, self._job.device))
        if not reuse:
            self._input_memory = MemoryWatch()
        held: dict[str, Any] = guarded_inputs(inputs, self._input_memory)
        self._held = _at_old_addresses(held, self._held) if reuse else held
        return self._held

    def _save(self, result: Any, path: Path, inputs: dict[str, Any]) -> None:
        try:
            trees.save_tree(result, path, outside={"inputs": inputs})
        except trees.TreeError as error:
            lazy = "subclass" in error.message
            reason = Reason.TAMPERING if lazy else Reason.STRUCTURE
            raise WorkerError(reason, f"the output cannot be taken: {error}") from None
        except OSError as error:
            if error.errno in _IN_THE_WAY:
                message = f"put something where the judge's file with its output goes ({error.strerror})"
                raise WorkerError(Reason.TAMPERING, message) from None
            message = f"the output could not be written: {error.strerror}"
            raise WorkerError(Reason.ENV_ERROR, message) from None
        except BaseException as error:
            if self._replaced():
                raise
            # Writing is ours, but the values are the candidate's: say what it returned.
            raise WorkerError(
                Reason.STRUCTURE, f"the output ({type(result).__name__}) cannot be read: {describe(error)}"
            ) from None

    def _time(self, request: dict[str, Any]) -> dict[str, Any]:
        """Carry out one step of a measurement; see :mod:`kernel_lint.verify.performance.bench`."""
        assert self._bench is not None
        with torch.no_grad(), self._candidate_code(Reason.RUNTIME_ERROR, "Model.forward"):
            return self._bench.answer(request, self._models[request["model"]])

    def _forget(self, request: dict[str, Any]) -> dict[str, Any]:
        self._models.pop(request["slot"], None)
        gc.collect()
        return {}

    def _model_class(self) -> type[torch.nn.Module]:
        assert self._module is not None
        model: type[torch.nn.Module] = vars(self._module)["Model"]
        return model

    def _tampering(self) -> list[dict[str, str]]:
        found = [{"reason": reason.value, "message": message} for reason, message in self._log.records]
        found += [
            {"reason": Reason.TAMPERING.value, "message": f"replaced {name}"} for name in self._replaced()
        ]
        found += [
            {"reason": Reason.TAMPERING.value, "message": message} for message in self._log.threads.left()
        ]
        return found

    def _replaced(self) -> list[str]:
        return self._fingerprint.changes() if self._fingerprint is not None else []

    @contextlib.contextmanager
    def _candidate_code(self, reason: Reason, what: str = "the import") -> Any:
        """Run code of the candidate: everything that it raises becomes a typed failure."""
        try:
            with self._redirect():
                yield
        except BaseException as error:
            raise WorkerError(
                *classify(error, reason, what, self._job.module), self._evidence(error)
            ) from None

    def _evidence(self, error: BaseException) -> dict[str, Any]:
        observation = self._observer.end().to_json() if self._observer else {}
        return {
            "traceback": trace_of(error, self._job.module),
            "tampering": self._tampering(),
            "observation": observation,
        }


def _is_library(path: str) -> bool:
    root = os.path.realpath(path) if path else ""
    return bool(root) and any(
        root == base or root.startswith(base + os.sep)
        for base in (os.path.realpath(sys.prefix), os.path.realpath(sys.base_prefix))
    )


def _to_device(value: torch.Tensor, device: str) -> torch.Tensor:
    """Copy a tensor to a device with its strides, its storage offset and its storage's extent."""
    storage = torch.empty(0, dtype=torch.uint8).set_(value.untyped_storage()).to(device)
    empty = torch.empty(0, dtype=value.dtype, device=device)
    return empty.set_(storage.untyped_storage(), value.storage_offset(), value.shape, value.stride())


def _at_old_addresses(new: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    """Put new contents where the last call's inputs lie, wherever the two are laid out alike."""

    def same(a: Any, b: Any) -> bool:
        tensors = isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)
        return tensors and (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride())

    return {k: old[k].copy_(v) if same(v, old.get(k)) and not _overlaps(v) else v for k, v in new.items()}


def _overlaps(tensor: torch.Tensor) -> bool:
    """Whether several elements share memory, as in a broadcast view: torch does not copy into such."""
    return torch._debug_has_internal_overlap(tensor) == 1
