"""What stands beside the figures: the machine, the versions, and who is not here."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from counting import counter


def machine() -> dict[str, str]:
    """Return what a reader must know of the machine and the Python."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "system": platform.system(),
        "load": f"{os.getloadavg()[0]:.1f}",
        "counter": counter() or "none",
    }


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor()
    found = re.search(r"^model name\s*: (.*)$", text, re.M)
    return found[1] if found else platform.processor()


def versions(names: Sequence[str]) -> dict[str, str]:
    """Return the versions of those distributions that are installed beside this Python."""
    found = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


@lru_cache(maxsize=32)
def program_version(path: str) -> str:
    """Return what a program says is its version, or "?"."""
    env = {**os.environ, "SEMGREP_ENABLE_VERSION_CHECK": "0", "SEMGREP_SEND_METRICS": "off"}
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, text=True, check=False, timeout=60, env=env
        )
    except (OSError, subprocess.TimeoutExpired):
        return "?"
    found = re.search(r"\d+(?:\.\d+)+", done.stdout)
    return found[0] if found else "?"


def beside(program: str) -> str | None:
    """Return the path of a program installed beside this Python, or on PATH, or None."""
    path = Path(sys.executable).with_name(program)
    return str(path) if path.exists() else shutil.which(program)


def importable(name: str) -> bool:
    """Return whether this Python has a package; a program on PATH may be another Python's."""
    return importlib.util.find_spec(name) is not None


def commit_of(folder: Path) -> str:
    """Return the short name of a checkout's commit, or "?"."""
    words = ["git", "-C", str(folder), "rev-parse", "--short", "HEAD"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError:
        return "?"
    return done.stdout.strip() or "?"


def sources() -> frozenset[tuple[str, int, int]]:
    """Return the state of the files of the kernel-lint that this Python has: path, time of change, size."""
    found = set()
    package = importlib.util.find_spec("kernel_lint")
    assert package is not None
    assert package.origin is not None
    # rules, packager and tools are links beside the others, which os.walk is told to follow.
    for folder, _, names in os.walk(Path(package.origin).parent, followlinks=True):
        for name in names:
            if name.endswith((".py", ".json", ".yml")):
                path = Path(folder, name)
                with contextlib.suppress(OSError):
                    status = path.stat()
                    found.add((str(path), status.st_mtime_ns, status.st_size))
    return frozenset(found)


def headline(where: dict[str, str], found: dict[str, str]) -> str:
    """Return the machine and the versions in two sentences."""
    tools = ", ".join(f"{name} {version}" for name, version in found.items())
    return (
        f"{where['processor']}, {where['cores']} cores, {where['system']}, Python {where['python']}; "
        f"load average {where['load']} at the start. {tools}."
    )
