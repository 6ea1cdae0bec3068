"""What the processes of a verify run say to each other, and in which files.

Three kinds of channel connect the judge with a worker (candidate or reference):

* requests and replies: one JSON object a line, on two pipes. A request has ``op``; its reply
  repeats ``op`` and has ``ok``, with ``reason`` and ``message`` when that is false. Before it may
  come lines with ``seen``: what the audit hook saw, told at once, so that it cannot be unsaid. The
  reference's worker tells in lines with ``doing`` which code of the task it calls.
* tensors: safetensors files written by :mod:`kernel_lint.verify.trees`. The judge names every
  file; a worker never chooses one.
* status: the keeper, a process of ours between the zygote and the candidate, tells how the
  candidate ended. The candidate has no handle on that pipe.

A reply comes from a process that runs the candidate's code, so the judge takes it as a
claim: PASS is decided from the tensors, the status pipe and the deadline.

Folders of one worker (``Job.folder``)::

    work/     generated_kernel.py and nothing else; the current directory
    inbox/    inputs and parameters, written by the judge's side; the candidate may only read
    outbox/   outputs, written by the worker
    scratch/  caches, dumps, temporary files, HOME
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from kernel_lint.diagnostics import Reason
from kernel_lint.verify.isolation import Limits

# The longest reply line that the judge reads; more is a broken worker.
MAXIMUM_REPLY_BYTES = 8 << 20

# The exit status of a worker whose own code failed; the error is the last of its stderr.
FAILED_TO_RUN = 70

_LONGEST_TEXT = 20000
# Claims of a worker that are lists of texts.
_TEXTS = ("changed_inputs", "damage", "remarks")

FOLDERS = ("work", "inbox", "outbox", "scratch")


@dataclass(frozen=True, slots=True)
class Job:
    """Everything that a worker process is told when it starts; plain data, sent as JSON."""

    role: Literal["candidate", "reference"]
    folder: str
    module: str
    backend: str
    target: str
    device: str
    options: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    readable: tuple[str, ...] = ()
    secret: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    isolate: bool = True
    threads: int = 1

    def to_json(self) -> str:
        """Return the job as one JSON text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Job:
        """Undo :meth:`to_json`."""
        values = json.loads(text)
        values["limits"] = Limits(**values["limits"])
        values["readable"] = tuple(values["readable"])
        values["secret"] = tuple(values["secret"])
        return cls(**values)


@dataclass(frozen=True, slots=True)
class Reply:
    """What a worker answered, or how it ended instead of answering (``ended`` True)."""

    op: str
    ok: bool
    reason: Reason | None = None
    message: str = ""
    data: dict[str, Any] = field(default_factory=dict)
    ended: bool = False
    seconds: float = 0.0


def encode(message: dict[str, Any]) -> bytes:
    """Return one line for a pipe."""
    return json.dumps(message, separators=(",", ":")).encode("utf-8") + b"\n"


def decode_reply(line: bytes, op: str, seconds: float) -> Reply:
    """Read a reply to ``op``; raises ValueError when it is not one."""
    value = json.loads(line)
    if not isinstance(value, dict) or value.get("op") != op or not isinstance(value.get("ok"), bool):
        raise ValueError("not a reply to the request")
    reason = Reason(value["reason"]) if value.get("reason") else None
    if not value["ok"] and reason is None:
        raise ValueError("a failure without a reason")
    data = value.get("data", {})
    if not isinstance(data, dict):
        raise ValueError("data is not an object")
    _check_claims(data)
    return Reply(op, value["ok"], reason, str(value.get("message", ""))[:20000], data, seconds=seconds)


def decode_seen(line: bytes) -> dict[str, str] | None:
    """Read a line that tells what the audit hook saw; None when it is another line."""
    if not line.startswith(b'{"seen":'):
        return None
    seen = json.loads(line)["seen"]
    return {"reason": Reason(seen["reason"]).value, "message": str(seen["message"])[:_LONGEST_TEXT]}


def decode_doing(line: bytes) -> str | None:
    """Read a line that tells which code of the task runs now ("": none); None when it is another line."""
    return str(json.loads(line)["doing"]) if line.startswith(b'{"doing":') else None


def _check_claims(data: dict[str, Any]) -> None:
    """Raise ValueError unless what a worker claims has the form that the judge reads."""
    seen = data.get("observation") or {}
    aten = data.get("aten") or {}
    findings = [*_list(data.get("tampering"), dict), *_list(_field(seen, "findings"), dict)]
    for finding in findings:
        Reason(finding.get("reason"))
        _text(finding.get("message"))
    for text in (text for name in _TEXTS for text in _list(data.get(name), str)):
        _text(text)
    _list(_field(seen, "artifacts"), dict)
    counts = [_field(seen, "launch_count"), _field(aten, "work"), *(_field(aten, "operators") or {}).values()]
    if any(type(count) is not int or count < 0 for count in counts if count is not None):
        raise ValueError("a count is not a number")


def _field(value: Any, name: str) -> Any:
    if not isinstance(value, dict):
        raise ValueError("a claim is not an object")
    return value.get(name)


def _list(value: Any, kind: type) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, kind) for item in value):
        raise ValueError(f"a claim is not a list of {kind.__name__}")
    return value


def _text(value: Any) -> None:
    if not isinstance(value, str) or len(value) > _LONGEST_TEXT:
        raise ValueError("a message is not a text")
