"""What a sandboxed run is: the command, its limits, what it may see and what comes back."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from kernel_lint.errors import KernelLintError
from kernel_lint.hardware import get_gpu

ENVIRONMENT_ALLOWED = (
    "PATH|LANG|LANGUAGE|LC_.*|TZ|USER|LOGNAME|SHELL|TERM|VIRTUAL_ENV|LD_LIBRARY_PATH",
    "TEST_TIMEOUT_SEC|KERNEL_LINT_.*|FLYDSL_.*|ARCH|COMPILE_ONLY|OMP_NUM_THREADS|MKL_NUM_THREADS",
    "ROCM_.*|HIP_.*|HSA_.*|ROCR_VISIBLE_DEVICES|CUDA_.*|NVIDIA_.*|PYTHONHASHSEED|SSL_CERT_.*",
)
"""Names that a command sees of the executor's environment; tokens, agents and proxies are not among them."""

NEVER_COPIED = (".git", "__pycache__", ".venv", "*.pyc", ".*.lock", ".*.tmp", ".pytest_cache", "*.egg-info")
"""Patterns that the isolated copy leaves out: history, caches, and the memory files' locks."""

PROFILE_FOLDER = "profile"
_AMD_PROFILERS = [
    ["rocprofv3", "--kernel-trace", "--stats", "--output-format", "csv", "-d", PROFILE_FOLDER, "--"]
]
_NVIDIA_PROFILERS = [
    ["ncu", "--force-overwrite", "-o", f"{PROFILE_FOLDER}/report"],
    ["nsys", "profile", "--force-overwrite", "true", "-o", f"{PROFILE_FOLDER}/report"],
]
_AMD_PROBES = [["rocminfo"], ["rocm-smi", "--showproductname"]]
_NVIDIA_PROBES = [["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a run may use; None is no limit of ours. Bytes and counts are of the whole process tree."""

    memory_bytes: int | None = None
    processes: int | None = 4096
    open_files: int | None = None
    file_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """One command to run in a copy of ``workspace``.

    ``outputs`` are paths relative to the workspace that come back; ``timeout`` is in seconds.
    ``environment`` is added to what :data:`ENVIRONMENT_ALLOWED` lets through.
    """

    command: tuple[str, ...]
    workspace: Path
    kind: str = "run"
    outputs: tuple[str, ...] = ()
    timeout: float | None = None
    limits: Limits = field(default_factory=Limits)
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)
    hardware: str | None = None

    def checked(self) -> Run:
        """Return the run itself.

        Raises :class:`KernelLintError` for an empty command, a missing workspace, an output
        outside it, or an unknown GPU.
        """
        if not self.command:
            raise KernelLintError(
                "there is no command", "write it after --, for instance -- python test_kernel.py"
            )
        if not self.workspace.is_dir():
            raise KernelLintError(f"{self.workspace} is not a folder", "give the workspace with --workspace")
        if self.timeout is not None and self.timeout <= 0:
            raise KernelLintError(f"--timeout is {self.timeout:g}", "give a number of seconds above 0")
        for name in self.outputs:
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or path.parts in ((), (".git",)):
                raise KernelLintError(
                    f"--sync {name!r} is not a path inside the workspace", "give a relative path"
                )
        if self.hardware is not None:
            get_gpu(self.hardware)
        return self

    @property
    def brought_back(self) -> tuple[str, ...]:
        """All paths that come back: the declared ones, and the profile of a profiling run."""
        return (*self.outputs, PROFILE_FOLDER) if self.kind == "profile" else self.outputs


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended.

    ``reason`` is exited, timeout, limit, cancelled or not-started; ``missing`` are declared outputs
    that the command did not write.
    """

    exit_code: int
    reason: str
    message: str
    seconds: float
    missing: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, data: Mapping[str, Any], missing: tuple[str, ...] = ()) -> RunResult:
        """Read the supervisor's status."""
        reason, message = str(data["reason"]), str(data["message"])
        return cls(int(data["exit_code"]), reason, message, float(data["seconds"]), missing)


class Executor(Protocol):
    """Where a run takes place."""

    def run(self, run: Run, output: Path | None = None) -> RunResult:
        """Run the command; its output goes to this process's own, or to a file.

        Raises :class:`KernelLintError` when the place cannot be reached.
        """


def supervisor_spec(run: Run, **more: Any) -> dict[str, Any]:
    """Return what supervisor.py is told; its paths are relative to the folder of the spec file."""
    spec: dict[str, Any] = {
        "command": list(run.command),
        "environment_allowed": list(ENVIRONMENT_ALLOWED),
        "environment": {"PYTHONDONTWRITEBYTECODE": "1", **run.environment},
        "timeout": run.timeout,
        "limits": asdict(run.limits),
        "watch_stdin": True,
    }
    vendor = get_gpu(run.hardware).vendor if run.hardware else None
    if run.hardware:
        probes = _AMD_PROBES if vendor == "AMD" else _NVIDIA_PROBES
        spec["hardware"] = {"name": get_gpu(run.hardware).name.split("-")[0], "probes": probes}
    if run.kind == "profile":
        known = {"AMD": _AMD_PROFILERS, "NVIDIA": _NVIDIA_PROFILERS}
        spec["profilers"] = known[vendor] if vendor else [*_AMD_PROFILERS, *_NVIDIA_PROFILERS]
    return {**spec, **more}


def stage(run: Run, folder: Path) -> None:
    """Copy the workspace into ``folder/work``.

    Links are followed, so that the copy cannot be used to write to what they point at; links
    to nothing are left out.
    """
    ignore = shutil.ignore_patterns(*NEVER_COPIED)
    shutil.copytree(run.workspace, folder / "work", ignore=ignore, ignore_dangling_symlinks=True)
    if run.kind == "profile":
        (folder / "work" / PROFILE_FOLDER).mkdir(exist_ok=True)


def bring_back(run: Run, source: Path) -> tuple[str, ...]:
    """Copy the declared outputs from ``source`` into the workspace; return those that are missing.

    A file is written beside its place and renamed into it. Links in the source are not followed.
    """
    missing = []
    for name in run.brought_back:
        origin, target = source / name, run.workspace / name
        if not _inside(origin, source) or not origin.exists():
            missing.append(name)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        files = [origin] if origin.is_file() else [path for path in origin.rglob("*") if path.is_file()]
        for file in files:
            if file.is_symlink() or not _inside(file, source):
                continue
            place = target / file.relative_to(origin) if file != origin else target
            place.parent.mkdir(parents=True, exist_ok=True)
            temporary = place.with_name(f".{place.name}.{os.getpid()}.tmp")
            shutil.copyfile(file, temporary)
            temporary.replace(place)
    return tuple(missing)


def _inside(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())


def parse_environment(assignments: tuple[str, ...]) -> dict[str, str]:
    """Read ``NAME=VALUE``, or ``NAME`` for the value that it has here.

    Raises :class:`KernelLintError` for a name that is not set here.
    """
    environment = {}
    for assignment in assignments:
        name, sign, value = assignment.partition("=")
        if not sign and name not in os.environ:
            raise KernelLintError(
                f"--env {name}: there is no such variable", f"give it as --env {name}=VALUE"
            )
        environment[name] = value if sign else os.environ[name]
    return environment
