"""The judge's hold on the reference's process: started once, and again when it was lost."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from kernel_lint.verify.contract import Task
from kernel_lint.verify.protocol import Reply
from kernel_lint.verify.session import Session
from kernel_lint.verify.workplace import Workplace

# The start of a worker runs our code alone; this only keeps a hung one from hanging the judge.
TASK_SECONDS = 300.0
# Requests that need nothing of what an earlier process knew.
_FIRST_OPS = ("inputs", "build")


class Reference:
    """A worker with the task's own code; use as a context manager."""

    def __init__(self, place: Workplace, task: Task, target: str) -> None:
        self._place = place
        self._task = task
        self._target = target
        self._session: Session | None = None

    def __enter__(self) -> Reference:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            self._session.close()

    def start(self) -> Reply:
        """Start the process and import the task; returns the failing reply, or the last."""
        if self._session is not None:
            self._session.close()
        self._session = self._place.start_reference(self._target)
        reply = self._session.ask("prepare", TASK_SECONDS)
        if not reply.ok:
            return reply
        return self._session.ask("import", self._place.task_timeout, inputs=str(self._task.inputs.resolve()))

    def ask(self, op: str, **arguments: Any) -> Reply:
        """Send a request; a process that was lost is started again when a new shape begins."""
        if self._session is None or (self._session.ended and op in _FIRST_OPS):
            reply = self.start()
            if not reply.ok:
                return reply
        assert self._session is not None
        return self._session.ask(op, self._place.task_timeout, **arguments)
