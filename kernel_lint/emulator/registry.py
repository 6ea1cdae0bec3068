"""The table of operations: MLIR name -> builder of the function that runs it.

A builder gets the decoded operation and the :class:`Env` of the translation once, and returns
a plain function of the operand values that runs at every execution. One with ``context=True``
returns a function that gets the machine and the mask of active lanes first (memory, lanes,
barriers); all others are pure.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from kernel_lint.emulator.ir import Op
from kernel_lint.errors import KernelLintError

Run = Callable[..., Any]
Builder = Callable[[Op, "Env"], Run]
B = TypeVar("B", bound=Builder)

ISSUES_URL = "https://github.com/kernel-lint/kernel-lint/issues"


@dataclass(frozen=True, slots=True)
class Env:
    """What a translation is specialised for.

    ``device`` is a torch device name, ``target`` the gfx name, ``wave`` the lanes of a wave,
    ``checks`` the names of the checks that are on, ``kernel`` the kernel's name; ``trace_lines`` are source
    lines whose values are recorded, ``nan_trace`` looks at every float for the first NaN.
    """

    device: str
    target: str
    wave: int
    checks: frozenset[str]
    kernel: str
    trace_lines: frozenset[int] = frozenset()
    nan_trace: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """A builder and whether its function takes the machine and the mask."""

    build: Builder
    context: bool


TABLE: dict[str, Entry] = {}


class UnknownOperationError(KernelLintError):
    """The emulator has no function for an operation; it never skips one."""


def op(*names: str, context: bool = False) -> Callable[[B], B]:
    """Register a builder for the MLIR operations of these names."""

    def register(build: B) -> B:
        for name in names:
            if name in TABLE:
                raise ValueError(f"{name} has two builders")
            TABLE[name] = Entry(build, context)
        return build

    return register


def lookup(operation: Op, env: Env) -> Entry:
    """Return the table's entry for an operation, or raise :class:`UnknownOperationError`."""
    load_all()
    entry = TABLE.get(operation.name)
    if entry is None:
        raise unknown(operation, env)
    if _computes_wide(operation):
        raise unknown(operation, env, "with integers of more than 64 bits")
    return entry


_CARRIES_BITS = (
    "bitcast",
    "load",
    "store",
    "select",
    "poison",
    "undef",
    "extractvalue",
    "insertvalue",
    "freeze",
    "ptrtoint",
    "launch",
)
_WIDE = re.compile(r"i(\d\d\d|6[5-9]|[7-9]\d)")


def _computes_wide(operation: Op) -> bool:
    types = (*operation.operand_types, *operation.result_types)
    wide = any(t.kind == "int" and _WIDE.fullmatch(t.name) for t in types)
    return wide and not any(word in operation.name for word in _CARRIES_BITS)


def unknown(operation: Op, env: Env, detail: str = "") -> UnknownOperationError:
    """The error for an operation, or a form of one, that the emulator does not know."""
    what = f"{operation.name}{': ' + detail if detail else ''}"
    types = ", ".join(map(str, operation.operand_types))
    return UnknownOperationError(
        f"the emulator does not know the operation {what} ({types}), at {operation.place} "
        f"in kernel {env.kernel} for {env.target}",
        "express the line another way, verify on a GPU, or report the operation and its line "
        f"at {ISSUES_URL}",
    )


@functools.cache
def load_all() -> None:
    """Import every module of :mod:`kernel_lint.emulator.ops`, which fills :data:`TABLE`."""
    package = importlib.import_module("kernel_lint.emulator.ops")
    for info in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{info.name}")
