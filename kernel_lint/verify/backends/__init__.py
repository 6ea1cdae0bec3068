"""Backends: the ways in which verify can make a candidate run.

A backend is one module of this package that defines ``BACKEND``, an object with the
methods of :class:`Backend`. ``kernel-lint verify --backend NAME`` loads
``kernel_lint.verify.backends.NAME`` (dashes become underscores); nothing else lists them.

The life of a backend has two sides, in two processes that share no memory:

* judge: :meth:`Backend.check` says whether it can work on this machine,
  :meth:`Backend.default_targets` and :meth:`Backend.stages` what it can do, and
  :meth:`Backend.environment` and :meth:`Backend.preload` how the process that will run
  the candidate is prepared. None of them may import torch or flydsl.
* candidate: :meth:`Backend.install` runs once in the candidate's process, before the
  candidate is imported and before its file system is closed. It returns an
  :class:`Observer`, which is asked around each call of ``Model.forward`` what was
  compiled, launched and found.

What an observer returns crosses the process border as JSON, so it holds plain data only.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from kernel_lint.diagnostics import Reason
from kernel_lint.errors import KernelLintError


class BackendUnavailableError(Exception):
    """This machine lacks something that the backend needs: every shape gets ``ENV_ERROR``.

    ``message`` says what is missing, ``remedy`` how to get it.
    """

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


def require_modules(*names: str) -> None:
    """Raise :class:`BackendUnavailableError` naming the first of ``names`` that is not installed."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise BackendUnavailableError(
                f"{name} is not installed", "install it with: pip install 'kernel-lint[verify]'"
            )


@dataclass(frozen=True, slots=True)
class BackendContext:
    """What a backend is told about the run; the same values on both sides.

    ``target`` is a GPU architecture (``gfx942``), or the backend's own word where it has
    none (``cpu``). ``scratch`` is a folder that the candidate's process may write, fresh
    for each process; put dumps and compile caches there. ``options`` are the ``-O
    key=value`` settings of the command line, strings.
    """

    target: str
    scratch: Path
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Artifact:
    """One kernel that was compiled; unknown figures are None, never zero.

    Registers are per lane (``vgprs``, ``agprs``) or per wave (``sgprs``); ``lds_bytes`` per
    workgroup, ``scratch_bytes`` per lane; ``vgpr_spills`` and ``sgpr_spills`` count registers.
    ``code_sha256`` identifies the linked code object (None when only assembly was made).
    """

    kernel: str
    target: str
    vgprs: int | None = None
    agprs: int | None = None
    sgprs: int | None = None
    vgpr_spills: int | None = None
    sgpr_spills: int | None = None
    lds_bytes: int | None = None
    scratch_bytes: int | None = None
    code_bytes: int | None = None
    code_sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch that really happened, with its grid and block in x, y, z."""

    kernel: str
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong that only the backend can see (a race, an access out of bounds...).

    ``reason`` is the typed reason that the shape fails with; ``file`` and ``line`` point into
    the candidate's source where known. ``fatal`` False makes it a note of the report.
    ``data`` holds further evidence: workgroup, lane, address...
    """

    reason: Reason
    message: str
    kernel: str | None = None
    file: str | None = None
    line: int | None = None
    fatal: bool = True
    data: dict[str, Any] = field(default_factory=dict)


# Launches of one call that an observation lists; the rest are only counted.
MAXIMUM_LISTED = 256


@dataclass(frozen=True, slots=True)
class Observation:
    """What happened between :meth:`Observer.begin` and :meth:`Observer.end`.

    ``launch_count`` counts all launches; ``launches`` lists at most the first ``MAXIMUM_LISTED``.
    """

    artifacts: tuple[Artifact, ...] = ()
    launches: tuple[Launch, ...] = ()
    launch_count: int = 0
    findings: tuple[Finding, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values; reasons become their names."""
        return {
            "artifacts": [asdict(artifact) for artifact in self.artifacts],
            "launches": [asdict(launch) for launch in self.launches],
            "launch_count": self.launch_count,
            "findings": [{**asdict(f), "reason": f.reason.value} for f in self.findings],
        }


@runtime_checkable
class Observer(Protocol):
    """The candidate-side half of an installed backend."""

    def begin(self) -> None:
        """Forget what was seen so far; called right before ``Model(...)`` or ``forward``."""

    def synchronize(self) -> None:
        """Wait until every launched kernel has finished (a no-op where launches are blocking)."""

    def end(self) -> Observation:
        """Return what was seen since :meth:`begin`."""


@runtime_checkable
class Backend(Protocol):
    """One way to run a candidate. See the module's docstring for who calls what, where."""

    name: str

    def stages(self) -> frozenset[str]:
        """Return which of ``compile``, ``correctness``, ``integrity``, ``performance`` it can do.

        The others are reported ``skipped`` with ``UNMEASURED`` and :meth:`limitation`.
        """

    def limitation(self) -> str:
        """Return the sentence that explains why a stage cannot be done with this backend."""

    def check(self) -> None:
        """Raise :class:`BackendUnavailableError` when this machine cannot run the backend."""

    def default_targets(self) -> tuple[str, ...]:
        """Return the targets to use when the command line names none."""

    def device(self, options: Mapping[str, str]) -> str:
        """Return the torch device of the tensors: ``cpu`` or ``cuda``."""

    def describe(self, target: str) -> str:
        """Return what the report calls the run, such as ``emulated gfx942``."""

    def preload(self) -> tuple[str, ...]:
        """Return modules to import once, before any candidate; they must not start threads."""

    def environment(self, context: BackendContext) -> dict[str, str]:
        """Return environment variables for the candidate's process."""

    def readable(self) -> tuple[Path, ...]:
        """Return paths beyond Python and its libraries that the process must be able to read."""

    def install(self, context: BackendContext) -> Observer:
        """Prepare the candidate's process (hooks, patches) before the candidate is imported."""


def load_backend(name: str) -> Backend:
    """Return the backend called ``name``.

    Raises :class:`KernelLintError` when there is no such backend, naming those that exist.
    """
    module_name = f"{__name__}.{name.replace('-', '_')}"
    try:
        module = importlib.import_module(module_name)
        backend = module.BACKEND
    except (ModuleNotFoundError, AttributeError) as error:
        if isinstance(error, ModuleNotFoundError) and error.name != module_name:
            raise
        known = ", ".join(backend_names())
        raise KernelLintError(f"there is no verify backend {name!r}", f"choose one of: {known}") from None
    assert isinstance(backend, Backend)
    return backend


def backend_names() -> list[str]:
    """Return the names of all backends, sorted."""
    folder = Path(__file__).parent
    sources = {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.py")}
    return sorted(stem.replace("_", "-") for stem, text in sources.items() if "\nBACKEND" in text)
