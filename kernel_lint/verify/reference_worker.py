"""The reference's side: make inputs, run the reference as given and in float64, copy parameters out.

It runs the task's own code, which is trusted; what goes wrong here is the task's fault or
ours, never the candidate's.
"""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import inspect
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from kernel_lint.diagnostics import Reason
from kernel_lint.verify import isolation, trees
from kernel_lint.verify.backends.standin import device_redirect, gpu_present, install_cuda_standins
from kernel_lint.verify.draws import Draws, Replay
from kernel_lint.verify.faults import NO_ROOM, WorkerError, no_room
from kernel_lint.verify.inputs import InputError, digest, draw_inputs, perturbed, seed_everything, widened
from kernel_lint.verify.inputs_variants import Constant, VariantInputs, accepted_variants
from kernel_lint.verify.integrity import Watch
from kernel_lint.verify.memory import changed, snapshots
from kernel_lint.verify.performance.bench import Bench
from kernel_lint.verify.performance.contents import renew
from kernel_lint.verify.performance.work import count
from kernel_lint.verify.protocol import Job, encode


def main(job: Job, requests: int, replies: int, record: isolation.Isolation) -> None:
    """Serve requests until the judge has no more."""
    del record
    worker = _Reference(job, replies)
    with os.fdopen(requests, "rb") as lines:
        for line in lines:
            request = json.loads(line)
            data = encode({"op": request["op"], **worker.answer(request)})
            while data:
                data = data[os.write(replies, data) :]


class _Reference:
    def __init__(self, job: Job, replies: int | None = None) -> None:
        self._job = job
        self._replies = replies
        self._folder = Path(job.module).parent
        self._reference: ModuleType | None = None
        self._make_inputs: Callable[..., Any] | None = None
        self._models: dict[str, torch.nn.Module] = {}
        self._doubles: dict[str, torch.nn.Module | None] = {}
        self._redirect: Callable[[], Any] = contextlib.nullcontext
        self._bench = Bench(job.device)
        self._compiled: dict[str, Callable[..., Any]] = {}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Carry out one request; failures name the file and field of the task."""
        try:
            return {
                "ok": True,
                "data": getattr(self, "do_" + request["op"].replace("import", "load"))(request),
            }
        except WorkerError as error:
            return {"ok": False, "reason": error.reason.value, "message": error.message, "data": error.data}
        except trees.TreeError as error:
            # What the task's code made cannot travel: its file is named where that code was called.
            return {"ok": False, "reason": Reason.INVALID_TASK.value, "message": error.message}
        except OSError as error:
            full = error.errno in NO_ROOM
            reason = Reason.ENV_ERROR if full else Reason.HARNESS_ERROR
            message = (
                no_room(error, Path(self._job.folder).parents[1])
                if full
                else f"{type(error).__name__}: {error}"
            )
            return {"ok": False, "reason": reason.value, "message": message}
        except BaseException as error:
            oom = isinstance(error, MemoryError) or "allocate memory" in str(error)
            what = "out of memory on the judge's side: " if oom else ""
            trace = traceback.format_exc(limit=-8)
            return {
                "ok": False,
                "reason": Reason.HARNESS_ERROR.value,
                "message": f"{what}{type(error).__name__}: {error}",
                "data": {"traceback": trace},
            }

    def do_prepare(self, _request: dict[str, Any]) -> dict[str, Any]:
        torch.set_num_threads(self._job.threads)
        if self._job.device == "cpu":
            install_cuda_standins(self._job.target)
            if not gpu_present():
                self._redirect = device_redirect
        else:
            # From here on the states of all generators can be told, the device's included.
            torch.cuda.init()  # type: ignore[no-untyped-call]
        sys.path.insert(0, str(self._folder))
        return {}

    def do_load(self, request: dict[str, Any]) -> dict[str, Any]:
        self._reference = self._load(Path(self._job.module), "reference")
        inputs = self._load(Path(request["inputs"]), "input")
        self._make_inputs = getattr(inputs, "_make_inputs", None)
        if not callable(self._make_inputs):
            raise WorkerError(Reason.INVALID_TASK, "input.py: _make_inputs: is not a function")
        model = getattr(self._reference, "Model", None)
        if not (isinstance(model, type) and issubclass(model, torch.nn.Module)):
            raise WorkerError(Reason.INVALID_TASK, "reference.py: Model: is not a torch.nn.Module class")
        return {}

    def _load(self, path: Path, name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        with self._task_code(path.name, "import"):
            spec.loader.exec_module(module)
        return module

    def do_build(self, request: dict[str, Any]) -> dict[str, Any]:
        """Build the reference twice under one seed, and write its parameters."""
        slot, seed = request["slot"], request["seed"]
        model, again = (self._construct(request["init_kwargs"], seed, slot) for _ in range(2))
        state = {k: v.detach() for k, v in model.state_dict().items()}
        reproducible = digest(state) == digest(dict(again.state_dict()))
        if state and request.get("parameters"):
            trees.save_tree(state, Path(request["parameters"]))
        self._models[slot] = model
        self._doubles[slot] = self._double(model)
        return {
            "parameters": len(state),
            "reproducible": reproducible,
            "float64": self._doubles[slot] is not None,
        }

    def _construct(self, init_kwargs: dict[str, Any], seed: int, shape: str) -> torch.nn.Module:
        assert self._reference is not None
        seed_everything(seed)
        with self._task_code("reference.py", f'Model(**shapes.json "{shape}".init_kwargs)'):
            model: torch.nn.Module = self._reference.Model(**init_kwargs)
            model = model.to(self._job.device).eval()
        lazy = [name for name, value in model.state_dict().items() if torch.nn.parameter.is_lazy(value)]
        if lazy:
            message = (
                f"reference.py: Model: its parameter {lazy[0]} has no shape before the first call and cannot "
                "be copied to the candidate; give its layer the input's size instead of making it lazy"
            )
            raise WorkerError(Reason.INVALID_TASK, message)
        return model

    def _double(self, model: torch.nn.Module) -> torch.nn.Module | None:
        try:
            with self._redirect():
                return copy.deepcopy(model).double()
        except Exception:
            # Not every module can be copied or cast; the report then says that there is no float64 run.
            return None

    def do_inputs(self, request: dict[str, Any]) -> dict[str, Any]:
        """Write one draw of inputs for a run that needs no more; returns their names."""
        data = self.do_draw({**request, "secret": 1, "count": 1})
        Path(data["draws"][0]).replace(request["path"])
        return {"names": data["names"]}

    def _check_forward(self, inputs: dict[str, Any]) -> None:
        assert self._reference is not None
        names = list(inputs)
        signature = inspect.signature(self._reference.Model.forward)
        try:
            signature.bind(None, **inputs)
        except TypeError as error:
            raise WorkerError(
                Reason.INVALID_TASK,
                f"input.py: _make_inputs: its keys {names} do not fit Model.forward{signature} ({error})",
            ) from None

    def do_draw(self, request: dict[str, Any]) -> dict[str, Any]:
        """Write the draws of a shape; returns files, seeds and digests."""
        assert self._make_inputs is not None
        make = self._make_inputs

        def factory(**kwargs: Any) -> Any:
            with self._redirect(), self._telling(f'input.py: _make_inputs for shape "{request["shape"]}"'):
                return make(**kwargs)

        count = request["count"]
        try:
            found = draw_inputs(factory, request["input_kwargs"], request["secret"], request["shape"], count)
        except InputError as error:
            what = error.message.removeprefix("_make_inputs ").splitlines()[0]
            cause = error.__cause__
            line = _line(cause, "input.py") if cause else ""
            message = f'input.py: _make_inputs for shape "{request["shape"]}": {what}{line}; {error.remedy}'
            raise WorkerError(Reason.INVALID_TASK, message) from None
        if found.reason is not None:
            raise WorkerError(found.reason, f"input.py: {found.notes[-1]}")
        draws = []
        for number, draw in enumerate(found.draws):
            self._check_forward(draw.inputs)
            path = Path(request["folder"], f"draw-{number}.safetensors")
            with _travelling("input.py: _make_inputs: its result"):
                trees.save_tree(draw.inputs, path, records=False)
            draws.append(str(path))
        return {
            "draws": draws,
            "digests": [draw.digest for draw in found.draws],
            "notes": list(found.notes),
            "names": list(found.draws[0].inputs),
        }

    def do_variants(self, request: dict[str, Any]) -> dict[str, Any]:
        """Write the variants of one draw that the reference accepts."""
        model = self._models[request["slot"]]
        base = self._inputs(Path(request["inputs"]))

        where = f'reference.py: Model.forward for shape "{request["slot"]}" on a variant of its inputs'

        def run(inputs: Any) -> Any:
            seed_everything(request["seed"])
            with torch.no_grad(), self._redirect(), self._telling(where):
                return model(**inputs)

        written, notes = [], []
        for found in accepted_variants(run, base):
            note = found.note or _ties(found)
            if note:
                notes.append(f"variant {found.variant.name}: {note}")
                continue
            path = Path(request["folder"], f"variant-{found.variant.name}.safetensors")
            trees.save_tree(found.inputs, path)
            written.append({"name": found.variant.name, "path": str(path), "layout": found.variant.layout})
        return {"variants": written, "notes": notes}

    def do_run(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run the reference on one file of inputs; write its outputs, and those of its float64 copy."""
        watch = Watch() if request.get("observe") else contextlib.nullcontext()
        draws = Draws()
        with watch:
            changed_inputs = self._run_once(request, request["output"], draws)
        data: dict[str, Any] = {"aten": watch.summary()} if isinstance(watch, Watch) else {}
        data["changed_inputs"] = changed_inputs
        data["float64"] = self._run_double(request, draws)
        if request.get("again"):
            self._run_once(request, request["again"], Draws())
        return data

    def _run_once(self, request: dict[str, Any], output: str, draws: Draws) -> list[str]:
        """Run the reference and write its outputs; returns the paths of the inputs that it changed."""
        slot = request["slot"]
        inputs = self._inputs(Path(request["inputs"]))
        before = snapshots(inputs)
        seed_everything(request["seed"])
        where = f'Model.forward for shape "{slot}"'
        with torch.no_grad(), self._task_code("reference.py", where), draws:
            result = self._models[slot](**inputs)
        with _travelling("reference.py: Model.forward: its result"):
            trees.save_tree(result, Path(output))
        return list(changed(before, inputs))

    def _run_double(self, request: dict[str, Any], draws: Draws) -> bool:
        """Run the float64 copy on the inputs as they are, then slightly perturbed, with the same draws."""
        slot = request["slot"]
        model = self._doubles.get(slot)
        if model is None:
            return False
        inputs = self._inputs(Path(request["inputs"]))
        changes: list[Callable[[Any], Any]] = [widened]
        where = f'reference.py: Model.forward for shape "{slot}" in float64'
        changes += [partial(perturbed, seed=number) for number, _ in enumerate(request["perturbed"])]
        try:
            for change, path in zip(changes, [request["output64"], *request["perturbed"]], strict=True):
                values = change(inputs)
                seed_everything(request["seed"])
                with torch.no_grad(), self._redirect(), self._telling(where), Replay(draws):
                    result = model(**values)
                trees.save_tree(result, Path(path))
                del values, result
        except Exception:
            # A reference that insists on its dtype has no float64 run; the report says so.
            return False
        return True

    def _inputs(self, path: Path) -> dict[str, Any]:
        values: dict[str, Any] = trees.load_tree(path, strides=True).value
        device = self._job.device
        return {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in values.items()}

    def do_time(self, request: dict[str, Any]) -> dict[str, Any]:
        """Carry out one step of a measurement, of the reference or of ``torch.compile`` of it."""
        model: Callable[..., Any] = self._models[request["model"]]
        if request["slot"] != request["model"]:
            if request["slot"] not in self._compiled:
                # Compilation in this process: pools of compilers would still work while others are timed.
                os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
                self._compiled[request["slot"]] = torch.compile(model)
            model = self._compiled[request["slot"]]
        with (
            torch.no_grad(),
            self._task_code("reference.py", f'Model.forward for shape "{request["model"]}"'),
        ):
            return self._bench.answer(request, model)

    def do_count(self, request: dict[str, Any]) -> dict[str, Any]:
        """Count the operations and bytes of one call."""
        inputs = self._inputs(Path(request["inputs"]))
        with self._task_code("reference.py", f'Model.forward for shape "{request["slot"]}"'):
            return asdict(count(self._models[request["slot"]], inputs))

    def do_renew(self, request: dict[str, Any]) -> dict[str, Any]:
        """Write inputs as a series of renewals leaves them."""
        inputs = self._inputs(Path(request["inputs"]))
        for seed in request["seeds"]:
            renew(inputs, seed)
        trees.save_tree(inputs, Path(request["output"]))
        return {}

    def do_forget(self, request: dict[str, Any]) -> dict[str, Any]:
        self._models.pop(request["slot"], None)
        self._doubles.pop(request["slot"], None)
        return {}

    @contextlib.contextmanager
    def _telling(self, what: str) -> Iterator[None]:
        """Tell the judge which code of the task runs, should it never come back."""
        self._tell(what)
        try:
            yield
        finally:
            self._tell("")

    def _tell(self, what: str) -> None:
        if self._replies is not None:
            os.write(self._replies, encode({"doing": what}))

    @contextlib.contextmanager
    def _task_code(self, file: str, where: str) -> Any:
        try:
            with self._redirect(), self._telling(f"{file}: {where}"):
                yield
        except MemoryError:
            raise
        except BaseException as error:
            if "allocate memory" in str(error) or "out of memory" in str(error).lower():
                raise MemoryError(str(error)) from None
            text = str(error).strip().splitlines()
            what = f"raised {type(error).__name__}{_line(error, file)}: {text[0] if text else 'no message'}"
            message = f"{file}: {where}: {what}"
            raise WorkerError(
                Reason.INVALID_TASK, message, {"traceback": traceback.format_exc(limit=-8)}
            ) from None


@contextlib.contextmanager
def _travelling(what: str) -> Iterator[None]:
    try:
        yield
    except trees.TreeError as error:
        text = error.message.replace("the value at the root is", "it is")
        message = f"{what} cannot be used: {text}; {error.remedy}"
        raise WorkerError(Reason.INVALID_TASK, message) from None


def _line(error: BaseException, file: str) -> str:
    """Return where in a file of the task an error was raised, as far as it was there."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename).name == file]
    return f" at line {lines[-1]}" if lines else ""


def _ties(found: VariantInputs) -> str:
    """Return why a variant is left out when equal inputs leave its output open (whose index is it?)."""
    values = [leaf.value for leaf in trees.flatten(found.output)]
    dtypes = {value.dtype for value in values if isinstance(value, torch.Tensor)} - {torch.bool}
    if isinstance(found.variant, Constant) and not all(d.is_floating_point or d.is_complex for d in dtypes):
        return "left out: with equal inputs, ties decide the integer outputs"
    return ""
