"""Compile in a child process: LLVM ends the process that it runs in where it has no instruction.

The rewrites refuse all that is known to have none; this is for the rest, so that the author of a kernel
reads what LLVM said instead of looking for a crash in the kernel.
"""

from __future__ import annotations

import os
import pickle
import signal
import traceback
import warnings
from typing import IO, Any

from kernel_lint.nvptx.compile import Ptx, compile_kernel
from kernel_lint.nvptx.errors import REMEDY, NvptxRefusalError
from kernel_lint.nvptx.facts import Known

# How the child ends after a fault of ours; LLVM, where it gives up in good order, ends with 1.
_FAULT = 3


def compile_apart(text: str, kernel: str, known: Known, chip: str) -> Ptx:
    """Return what :func:`~kernel_lint.nvptx.compile.compile_kernel` does, and raise what it raises.

    Raises :class:`NvptxRefusalError` also where LLVM ends the process. Where no process can be made it
    compiles in this one.
    """
    with _memory() as said, _memory() as answer:
        with warnings.catch_warnings():
            # From Python 3.12 on; the child starts no thread of Python's and takes no lock of this process.
            warnings.simplefilter("ignore", DeprecationWarning)
            try:
                child = os.fork()
            except OSError:
                return compile_kernel(text, kernel, known, chip)
        if child == 0:
            _compile(answer, said.fileno(), (text, kernel, known, chip))
        _, status = os.waitpid(child, 0)
        answer.seek(0)
        if status == 0:
            found = pickle.load(answer)
            if isinstance(found, Exception):
                raise found
            assert isinstance(found, Ptx)
            return found
        said.seek(0)
        lines = [line.strip() for line in said.read().decode(errors="replace").splitlines() if line.strip()]
        if os.WIFSIGNALED(status):
            name = signal.Signals(os.WTERMSIG(status)).name
        elif os.WEXITSTATUS(status) != _FAULT and any("LLVM ERROR" in line for line in lines):
            name = f"exit code {os.WEXITSTATUS(status)}"
        else:
            raise RuntimeError(f"the compilation of kernel {kernel} failed: {' '.join(lines)[-2000:]}")
        errors = [line for line in lines if "error" in line.lower()] or lines[-1:] or ["it said nothing"]
        raise NvptxRefusalError(
            f"kernel {kernel} cannot be compiled for an NVIDIA GPU: LLVM ended its process ({name}): "
            f"{errors[-1][:200]}",
            REMEDY,
        )


def _memory() -> IO[bytes]:
    """Return a file that lies in no folder: a sandbox may leave none to write to."""
    return os.fdopen(os.memfd_create("nvptx"), "w+b")


def _compile(answer: IO[bytes], errors: int, request: tuple[Any, ...]) -> None:
    """In the child: compile, answer, and end without the parent's own ways to clean up."""
    code = _FAULT
    try:
        os.dup2(errors, 2)
        try:
            found: Ptx | NvptxRefusalError = compile_kernel(*request)
        except NvptxRefusalError as refusal:
            found = refusal
        pickle.dump(found, answer)
        answer.flush()
        code = 0
    except BaseException:
        os.write(2, traceback.format_exc().encode(errors="replace"))
    finally:
        os._exit(code)
