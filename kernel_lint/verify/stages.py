"""Small makers of :class:`StageResult`, and the adapter to the linter."""

from __future__ import annotations

import time
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernel_lint.diagnostics import Reason, Severity, StageResult, StageStatus
from kernel_lint.errors import KernelLintError
from kernel_lint.verify.protocol import Reply

_NOT_OURS = (Reason.HARNESS_ERROR, Reason.ENV_ERROR, Reason.INVALID_TASK)
_LISTED_FINDINGS = 50


def passed(
    stage: str,
    shape: str | None = None,
    target: str | None = None,
    message: str = "",
    seconds: float = 0.0,
    **data: Any,
) -> StageResult:
    """Return a stage that passed, with its evidence."""
    return StageResult(stage, StageStatus.PASSED, shape, target, None, message, seconds, data)


def failed(
    stage: str,
    reason: Reason,
    message: str,
    shape: str | None = None,
    target: str | None = None,
    seconds: float = 0.0,
    **data: Any,
) -> StageResult:
    """Return a stage that did not pass: ``failed`` for the candidate's faults, ``error`` for others."""
    status = StageStatus.ERROR if reason in _NOT_OURS else StageStatus.FAILED
    return StageResult(stage, status, shape, target, reason, message, seconds, data)


def skipped(
    stage: str, message: str, shape: str | None = None, target: str | None = None, unmeasured: bool = False
) -> StageResult:
    """Return a stage that was not run, and why; ``unmeasured`` where the backend cannot do it."""
    reason = Reason.UNMEASURED if unmeasured else None
    return StageResult(stage, StageStatus.SKIPPED, shape, target, reason, message)


def from_reply(
    stage: str,
    reply: Reply,
    shape: str | None = None,
    target: str | None = None,
    output: dict[str, str] | None = None,
) -> StageResult:
    """Return the failed stage that a worker's failing reply stands for."""
    assert reply.reason is not None
    data = {k: v for k, v in reply.data.items() if k in ("traceback",)}
    if output and any(output.values()):
        data["output"] = {name: text[-4000:] for name, text in output.items() if text}
    return failed(stage, reply.reason, reply.message, shape, target, reply.seconds, **data)


def as_task_fault(reply: Reply, file: str) -> Reply:
    """Turn the end of the reference's process into a fault of the task or of ours."""
    if not reply.ended:
        return reply
    if reply.op == "prepare":
        # None of the task's code has run yet.
        message = f"the reference's process could not start: it {reply.message}"
        return replace(reply, reason=Reason.HARNESS_ERROR, message=message)
    if reply.reason is Reason.TIMEOUT:
        where = reply.data.get("doing") or file
        remedy = "make it faster, or give it more time: --task-timeout SECONDS"
        message = f"{where}: {reply.message}; {remedy}"
        return replace(reply, reason=Reason.INVALID_TASK, message=message)
    if reply.message.startswith("ended itself"):
        return replace(reply, reason=Reason.INVALID_TASK, message=f"{file}: its process {reply.message}")
    return replace(reply, reason=Reason.HARNESS_ERROR, message=f"the reference's process {reply.message}")


def as_harness_fault(reply: Reply) -> Reply:
    """Turn a failure before any code of the candidate ran into a fault of ours."""
    message = f"the candidate's process could not start: {reply.message}"
    return replace(reply, reason=Reason.HARNESS_ERROR, message=message)


def lint_stage(candidate: Path, reference: Path, framework: str | None = None) -> StageResult:
    """Lint the candidate as a final file; an error of the linter itself is not the candidate's fault."""
    from kernel_lint.verify.lint_adapter import lint_findings

    started = time.monotonic()
    try:
        findings = lint_findings(candidate, reference, framework)
    except KernelLintError as error:
        return failed("lint", Reason.LINT, error.message)
    except Exception as error:
        message = f"the linter failed: {type(error).__name__}: {error}"
        return failed("lint", Reason.HARNESS_ERROR, message, traceback=traceback.format_exc(limit=-6))
    seconds = time.monotonic() - started
    bad = [f for f in findings if f.severity is not Severity.INFO]
    listed = [f.to_json() for f in findings[:_LISTED_FINDINGS]]
    if not bad:
        return passed(
            "lint", message=f"{len(findings)} notes" if findings else "", seconds=seconds, findings=listed
        )
    syntax = next((f for f in bad if f.code == "KL001"), None)
    first = syntax or bad[0]
    reason = Reason.SYNTAX if syntax else Reason.LINT
    more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
    message = f"line {first.span.line}: {first.code} {first.message}{more}"
    return failed("lint", reason, message, seconds=seconds, findings=listed)
