"""Other packagers, run on the same entries as ours by ``packager_flydsl.py``.

All of them get a workspace of the entry as ``kernel.py`` beside a copy of ``kernels/``, which is the
layout that every one of them can find. impacker was not to be had from the package index when this
was written, and pinliner 0.2.0 does not start on Python 3.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import Command, once


@dataclass(frozen=True, slots=True)
class Peer:
    """``words`` is its command; ``{out}`` is the file to write (flay writes a folder there)."""

    name: str
    words: tuple[str, ...]


# Ours as a process, which is what the others are.
OURS = Peer("kernel-lint", ("kernel-lint", "package", "kernel.py", "--output", "{out}"))
PEERS = (
    Peer("cribo", ("cribo", "--entry", "kernel.py", "--output", "{out}")),
    Peer("stickytape", ("stickytape", "kernel.py", "--add-python-path", ".", "--output-file", "{out}")),
    Peer("pinliner", ("pinliner", "kernels", "-o", "{out}")),
    Peer("impacker", ("impacker", "kernel.py", "{out}")),
    Peer("flay", ("flay", "bundle", "kernel:Model", "--output-path", "{out}")),
    Peer("xpline", ("xpline", "kernel.py", "-o", "{out}")),
    Peer("pybunch", ("pybunch", "-d", ".", "-e", "kernel", "-so", "-o", "{out}")),
)


def workspace(folder: Path, checkout: Path) -> Path:
    """Make the folder in which peers work."""
    shutil.copytree(checkout / "kernels", folder / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def run_peer(peer: Peer, tools: Path, entry: Path, folder: Path, timeout: float = 120.0) -> dict[str, Any]:
    """Return what a peer does with an entry: ``text``, ``bytes``, ``seconds`` of CPU, or a ``note``."""
    tool = (tools / peer.words[0]).resolve()
    if not tool.exists():
        return {"note": "not installed"}
    shutil.copyfile(entry, folder / "kernel.py")
    with tempfile.TemporaryDirectory(prefix="packager-peer-") as name:
        out = Path(name) / "generated_kernel.py"
        argv = (str(tool), *(word.format(out=out) for word in peer.words[1:]))
        env = (("PYTHONPATH", str(folder)), ("PYTHONWARNINGS", "ignore"))
        try:
            spent = once(Command(peer.name, argv, (0,), env, str(folder), timeout=timeout))
        except SystemExit as error:
            return {"note": str(error).splitlines()[-1][:120]}
        if out.is_dir():
            size = sum(path.stat().st_size for path in out.rglob("*.py"))
            return {"note": f"a folder of {size:,} bytes", "seconds": spent.cpu}
        if not out.exists():
            return {"note": "writes no file", "seconds": spent.cpu}
        text = out.read_text()
        return {"text": text, "bytes": len(text.encode()), "seconds": spent.cpu}
