"""Find a linker for AMD GPU code objects.

The last step of FlyDSL's pipeline runs ``$ROCM_PATH/llvm/bin/ld.lld`` (LLVM's
``gpu-module-to-binary`` for ROCDL targets; ``/opt/rocm`` where ROCM_PATH is unset). An LLD
older than 17 refuses code object version 6 ("unknown abi version"), which is what FlyDSL
asks for (``abi: 600`` in its ROCm backend).
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MINIMUM_VERSION = 17


@dataclass(frozen=True, slots=True)
class Linker:
    """A usable LLD: ``command`` is what runs it, ``source`` says in words where it came from."""

    command: tuple[str, ...]
    version: str
    source: str

    @property
    def rocm_path(self) -> Path | None:
        """The ROCm folder that already holds it, or None when a shim folder is needed."""
        path = Path(self.command[0])
        return (
            path.parents[2]
            if len(self.command) == 1 and path.parts[-3:] == ("llvm", "bin", "ld.lld")
            else None
        )


def find_linker() -> tuple[Linker | None, tuple[str, ...]]:
    """Return the first usable linker, and a sentence for each one that was looked at and refused."""
    refused: list[str] = []
    for command, source in _places():
        version, problem = _version(command)
        if version is None:
            refused.append(f"{source}: {problem}")
        elif int(version.split(".", 1)[0]) < MINIMUM_VERSION:
            refused.append(f"{source}: LLD {version} is older than {MINIMUM_VERSION}")
        else:
            return Linker(command, version, source), tuple(refused)
    return None, tuple(refused)


def _places() -> Iterator[tuple[tuple[str, ...], str]]:
    for variable in ("ROCM_PATH", "ROCM_HOME"):
        if root := os.environ.get(variable):
            yield (str(Path(root, "llvm/bin/ld.lld")),), f"${variable}"
    yield ("/opt/rocm/llvm/bin/ld.lld",), "/opt/rocm"
    names = ["ld.lld", *(f"ld.lld-{n}" for n in range(30, MINIMUM_VERSION - 1, -1))]
    for name in names:
        if found := shutil.which(name):
            yield (found,), f"{name} on PATH"
    spec = importlib.util.find_spec("ziglang")
    if spec is not None and spec.submodule_search_locations:
        yield (str(Path(next(iter(spec.submodule_search_locations)), "zig")), "ld.lld"), "the ziglang package"


def _version(command: tuple[str, ...]) -> tuple[str | None, str]:
    if not Path(command[0]).exists():
        return None, "there is none"
    try:
        run = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, f"does not run ({error})"
    found = re.search(r"LLD (\d+(?:\.\d+)*)", run.stdout)
    return (found.group(1), "") if found else (None, "does not report a version")


def write_rocm_shim(linker: Linker, folder: Path) -> Path:
    """Return a ROCM_PATH whose ``llvm/bin/ld.lld`` is ``linker``; made in ``folder`` when needed."""
    if linker.rocm_path is not None:
        return linker.rocm_path
    script = folder / "llvm" / "bin" / "ld.lld"
    script.parent.mkdir(parents=True, exist_ok=True)
    words = " ".join("'" + word.replace("'", "'\\''") + "'" for word in linker.command)
    script.write_text(f'#!/bin/sh\nexec {words} "$@"\n', encoding="utf-8")
    script.chmod(script.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    # ROCm's device library (ocml, ockl) is looked up under the same root.
    bitcode = Path(os.environ.get("ROCM_PATH", "/opt/rocm"), "amdgcn")
    if bitcode.is_dir() and not (folder / "amdgcn").exists():
        (folder / "amdgcn").symlink_to(bitcode)
    return folder
