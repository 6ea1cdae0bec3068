"""What happens to one shape under a backend that only compiles."""

from __future__ import annotations

import shutil
from dataclasses import replace

from kernel_lint.diagnostics import Reason, StageResult
from kernel_lint.verify.contract import Shape
from kernel_lint.verify.options import VerifyOptions
from kernel_lint.verify.protocol import Reply
from kernel_lint.verify.reference import TASK_SECONDS, Reference
from kernel_lint.verify.stages import as_task_fault, failed, from_reply, passed
from kernel_lint.verify.wording import counted
from kernel_lint.verify.workplace import Workplace


def compile_shape(
    place: Workplace, reference: Reference, shape: Shape, target: str, options: VerifyOptions
) -> list[StageResult]:
    """Build the Model and call forward once in a fresh process, in which launches only compile."""
    inputs = place.private / "inputs.safetensors"
    reply = reference.ask(
        "inputs",
        shape=shape.id,
        input_kwargs=shape.input_kwargs,
        path=str(inputs),
        folder=str(place.private),
    )
    if not reply.ok:
        return [from_reply("compile", as_task_fault(reply, "input.py"), shape.id, target)]
    with place.start_candidate(target) as session:
        copy = session.folder / "inbox" / "inputs.safetensors"
        shutil.copyfile(inputs, copy)
        for op, seconds, arguments in (
            ("prepare", TASK_SECONDS, {}),
            ("import", options.import_timeout, {}),
            ("build", options.call_seconds, {"slot": shape.id, "init_kwargs": shape.init_kwargs, "seed": 1}),
            ("run", options.call_seconds, {"slot": shape.id, "inputs": str(copy), "seed": 1}),
        ):
            reply = session.ask(op, seconds, **arguments)
            if not reply.ok:
                return [
                    from_reply("compile", _as_compile_fault(reply, op), shape.id, target, session.output())
                ]
        return [_judge(reply, shape.id, target, options)]


def _as_compile_fault(reply: Reply, op: str) -> Reply:
    reason = Reason.COMPILE_ERROR if reply.reason is Reason.RUNTIME_ERROR and op == "run" else reply.reason
    return replace(reply, reason=reason)


def _judge(reply: Reply, shape: str, target: str, options: VerifyOptions) -> StageResult:
    seen = reply.data.get("observation", {})
    kernels = seen.get("artifacts", [])
    if not kernels and options.require_launch:
        return failed(
            "compile",
            Reason.NO_LAUNCH,
            "forward compiled and launched no FlyDSL kernel",
            shape,
            target,
            reply.seconds,
        )
    return passed("compile", shape, target, counted(len(kernels), "kernel"), reply.seconds, kernels=kernels,
                  launches=seen.get("launch_count", 0))  # fmt: skip
