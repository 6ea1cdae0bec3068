"""What an error that the candidate raised means, told without trusting anything about the error."""

from __future__ import annotations

import errno
import re
import traceback
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from kernel_lint.diagnostics import Reason
from kernel_lint.errors import KernelFaultError, KernelLintError

_PACKAGE = str(Path(__file__).parents[1])
_TRACE_LINES = 36
_LONGEST_MESSAGE = 2000
_LONGEST_LINE = 1000


# What a file system answers when nothing more fits.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def no_room(error: OSError, folder: Path) -> str:
    """Say that the temporary folder is full."""
    return f"{folder} takes no more ({error.strerror}); set TMPDIR to a folder with room"


_NO_BITCODE = re.compile(r"bitcode path: \S+ does not exist")


class WorkerError(Exception):
    """A typed failure on its way to the judge."""

    def __init__(self, reason: Reason, message: str, data: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.data = data or {}


def text_of(error: BaseException) -> str:
    """Return an error's text, cut where it is long: its own code may raise, or return what is no text."""
    try:
        text = str(error)
    except BaseException:
        return "its text cannot be told"
    return text if len(text) <= _LONGEST_MESSAGE else text[:_LONGEST_MESSAGE] + "..."


def _name(error: BaseException) -> str:
    return type(error).__name__[:100]


def describe(error: BaseException) -> str:
    """Return type and first line of an error."""
    lines = text_of(error).strip().splitlines()
    return f"{_name(error)}: {lines[0] if lines else 'no message'}"


def classify(error: BaseException, reason: Reason, what: str, module: str) -> tuple[Reason, str]:
    """Return the typed reason and a sentence for what ``what`` raised.

    ``module`` is the candidate's file, ``reason`` what it is where nothing more is known.
    """
    frames = _frames(error.__traceback__)
    ours = bool(frames) and _is_ours(frames[-1][0])
    if isinstance(error, KernelLintError) and ours and not isinstance(error, KernelFaultError):
        # Our own backend gave up (an operation that the emulator does not know): no fault of the candidate's.
        return Reason.HARNESS_ERROR, text_of(error)
    line = next((number for frame, number in reversed(frames) if _file(frame) == module), None)
    where = f" at line {line}" if line else ""
    message = f"{what} raised {_name(error)}{where}: {describe(error).partition(': ')[2]}"
    if isinstance(error, SyntaxError) and what == "the import":
        return Reason.SYNTAX, _syntax(error)
    if isinstance(error, SystemExit):
        return reason, f"{what} called sys.exit({_shown(error.code)}){where}"
    text = text_of(error)
    if isinstance(error, MemoryError) or "can't allocate memory" in text or "out of memory" in text.lower():
        return Reason.OOM, message
    names = {kind.__name__ for kind in type(error).__mro__}
    if _NO_BITCODE.search(text) and not (frames and _file(frames[-1][0]) == module):
        # A kernel that calls the device library cannot be linked without it.
        return Reason.ENV_ERROR, (
            "the kernel needs ROCm's device library, which this machine lacks: install rocm-device-libs "
            f"and set ROCM_PATH, or use --backend emulate ({describe(error)})"
        )
    if names & {"DSLCompileError", "MLIRError", "DSLError"}:
        return Reason.COMPILE_ERROR, message
    return reason, message


def trace_of(error: BaseException, module: str) -> str:
    """Return the end of the traceback, with ``module`` under the name that the user knows it by."""
    try:
        lines = traceback.format_exception(type(error), error, error.__traceback__)
    except BaseException:
        lines = [*traceback.format_tb(error.__traceback__), f"{_name(error)}: {text_of(error)}"]
    text = "".join(lines).replace(module, "generated_kernel.py")
    return "\n".join(line[:_LONGEST_LINE] for line in text.splitlines()[-_TRACE_LINES:])


def _syntax(error: SyntaxError) -> str:
    """Say what is wrong and where; Python knows no line for a NUL byte or an encoding."""
    problem = error.msg if isinstance(error.msg, str) else text_of(error)
    return f"line {error.lineno}: {problem}" if error.lineno else problem


def _shown(value: object) -> str:
    return repr(value)[:200] if isinstance(value, (int, str, type(None))) else type(value).__name__


def _frames(trace: TracebackType | None) -> list[tuple[FrameType, int]]:
    return list(traceback.walk_tb(trace))


def _file(frame: FrameType) -> str:
    return frame.f_code.co_filename


def _is_ours(frame: FrameType) -> bool:
    return _file(frame).startswith(_PACKAGE)
