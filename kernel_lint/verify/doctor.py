"""What this machine has of what verify needs, and what each absence costs."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from kernel_lint.verify import landlock
from kernel_lint.verify.backends import BackendUnavailableError, backend_names, load_backend
from kernel_lint.verify.linker import find_linker

SCHEMA_VERSION = 1
_MINIMUM_PYTHON = (3, 10)


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked for. ``cost`` says what cannot be done without it, ``remedy`` how to get it."""

    name: str
    present: bool
    version: str = ""
    detail: str = ""
    cost: str = ""
    remedy: str = ""
    required: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the check as its JSON object."""
        return asdict(self)


def examine() -> tuple[Check, ...]:
    """Look at everything, in a fixed order. Takes the seconds that importing torch takes."""
    return tuple(check() for check in _CHECKS)


def report_json(checks: tuple[Check, ...]) -> dict[str, Any]:
    """Return the JSON document (``docs/schemas/verify-doctor.schema.json``)."""
    return {
        "schema_version": SCHEMA_VERSION,
        "platform": platform.platform(),
        "complete": all(check.present for check in checks),
        "checks": [check.to_json() for check in checks],
        "backends": backends(checks),
    }


def report_text(checks: tuple[Check, ...]) -> str:
    """Return the same for people: what is there, what is not, and what that costs."""
    lines = [f"kernel-lint doctor on {platform.platform()}", ""]
    for check in checks:
        mark = "ok" if check.present else "MISSING" if check.required else "absent"
        facts = " ".join(filter(None, (check.version, f"({check.detail})" if check.detail else "")))
        lines.append(f"  {mark:<8}{check.name:<14}{facts}".rstrip())
        if not check.present:
            lines.append(f"{'':10}without it: {check.cost}")
            if check.remedy:
                lines.append(f"{'':10}to get it:  {check.remedy}")
    lines += ["", "verify backends:"]
    lines += [f"  {name:<10}{state}" for name, state in backends(checks).items()]
    return "\n".join(lines) + "\n"


def backends(checks: tuple[Check, ...]) -> dict[str, str]:
    """Return, for each way of verifying, whether it works here, or what it lacks."""
    linked = any(check.name == "linker" and check.present for check in checks)
    found = {}
    for name in backend_names():
        try:
            load_backend(name).check()
        except BackendUnavailableError as lack:
            found[name] = f"no: {lack.message}; {lack.remedy}" if lack.remedy else f"no: {lack.message}"
        else:
            found[name] = "works, as far as assembly" if name == "compile" and not linked else "works"
    return found


def _python() -> Check:
    good = sys.version_info >= _MINIMUM_PYTHON
    return Check(
        "python",
        good,
        platform.python_version(),
        sys.executable,
        "nothing works",
        "install Python 3.10 or newer",
        True,
    )


def _package(name: str, cost: str, required: bool) -> Callable[[], Check]:
    def look() -> Check:
        remedy = "pip install 'kernel-lint[verify]'"
        if importlib.util.find_spec(name) is None:
            return Check(name, False, "", "", cost, remedy, required)
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            version = "of unknown version"
        return Check(name, True, version, "", cost, remedy, required)

    return look


def _linker() -> Check:
    found, refused = find_linker()
    cost = (
        "compilation stops at assembly: registers, LDS and spills are reported, code objects are not linked"
    )
    if found is None:
        remedy = "pip install ziglang, or install ROCm or lld 17 or newer"
        return Check("linker", False, "", "; ".join(refused), cost, remedy)
    return Check("linker", True, f"LLD {found.version}", found.source, cost)


def _gpu() -> Check:
    cost = "kernels cannot run on hardware: correctness by emulation only, performance is UNMEASURED"
    remedy = "run on a machine with a GPU, with the torch build made for it"
    if importlib.util.find_spec("torch") is None:
        return Check("GPU", False, "", "cannot be looked for without torch", cost, remedy)
    import torch

    if not torch.cuda.is_available():
        return Check("GPU", False, "", f"torch {torch.__version__} sees none", cost, remedy)
    kind = f"ROCm {torch.version.hip}" if torch.version.hip else f"CUDA {torch.version.cuda}"
    names = ", ".join(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))
    return Check("GPU", True, names, kind, cost)


def _landlock() -> Check:
    version = landlock.abi_version()
    cost = "only the Python audit hook keeps a candidate from files, and native code can go around it"
    remedy = "use Linux 5.13 or newer with Landlock enabled (lsm=landlock,...)"
    return Check("Landlock", version > 0, f"ABI {version}" if version else "", "", cost, remedy)


def _namespaces() -> Check:
    cost = (
        "stray processes of a candidate are hunted one by one, and only Landlock and the audit hook "
        "close the network"
    )
    remedy = "allow unprivileged user namespaces (sysctl user.max_user_namespaces)"
    problem = _try_namespaces()
    return Check(
        "namespaces", not problem, "user, PID, network" if not problem else "", problem, cost, remedy
    )


def _try_namespaces() -> str:
    """Enter the namespaces in a process of its own; returns the problem."""
    import subprocess

    code = "from kernel_lint.verify.isolation import enter_namespaces as e; n, p = e(); print('; '.join(p))"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    return run.stdout.strip() if run.returncode == 0 else (run.stderr.strip().splitlines() or ["failed"])[-1]


def _bubblewrap() -> Check:
    found = shutil.which("bwrap")
    cost = "nothing: verify uses the kernel's namespaces and Landlock itself"
    return Check("bubblewrap", found is not None, "", found or "", cost)


_CHECKS: tuple[Callable[[], Check], ...] = (
    _python,
    _package("torch", "verify cannot run anything; lint and package work", True),
    _package("flydsl", "kernels can be neither compiled nor emulated; lint and package work", True),
    _package("numpy", "flydsl cannot be imported (it needs numpy and does not declare it)", True),
    _package("psutil", "a candidate's processes cannot be counted or found: verify refuses to start", True),
    _package("safetensors", "kept evidence cannot be opened with the usual tools", False),
    _linker,
    _gpu,
    _landlock,
    _namespaces,
    _bubblewrap,
)
