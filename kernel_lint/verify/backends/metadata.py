"""Read what LLVM says about compiled kernels out of a printed ``gpu.binary`` operation.

MLIR prints an object as ``#gpu.object<..., kernels = <[#gpu.kernel_metadata<"name", type,
metadata = {vgpr_count = 16 : i64, ...}>]>, bin = "...">``, with ``assembly = "..."`` in place
of ``bin`` when the pipeline stopped at ``format=isa``.
"""

from __future__ import annotations

import hashlib
import re

import yaml

from kernel_lint.verify.backends import Artifact

# MLIR attribute (and amdhsa.kernels key, with a leading dot) -> field of Artifact.
_FIELDS = {
    "vgpr_count": "vgprs",
    "agpr_count": "agprs",
    "sgpr_count": "sgprs",
    "vgpr_spill_count": "vgpr_spills",
    "sgpr_spill_count": "sgpr_spills",
    "group_segment_fixed_size": "lds_bytes",
    "private_segment_fixed_size": "scratch_bytes",
}
_KERNEL = re.compile(
    r'#gpu\.kernel_metadata<"((?:[^"\\]|\\.)*)"(.*?)(?=#gpu\.kernel_metadata<|\bbin = "|\Z)', re.DOTALL
)
_NUMBER = re.compile(r"\b(\w+) = (\d+) : i64")
_PAYLOAD = re.compile(r'\b(bin|assembly) = "((?:[^"\\]|\\.)*)"', re.DOTALL)


def read_gpu_binary(text: str, target: str) -> list[Artifact]:
    """Return the kernels of one printed ``gpu.binary``."""
    payload = _PAYLOAD.search(text)
    if payload is None:
        return []
    data = unescape(payload.group(2))
    if payload.group(1) == "assembly":
        return read_assembly(data.decode("utf-8", "replace"), target)
    digest = hashlib.sha256(data).hexdigest()
    artifacts = []
    for kernel in _KERNEL.finditer(text[: payload.start()]):
        numbers = {name: int(value) for name, value in _NUMBER.findall(kernel.group(2))}
        figures = {field: numbers.get(name) for name, field in _FIELDS.items()}
        name = kernel.group(1)
        artifacts.append(Artifact(name, target, **figures, code_bytes=len(data), code_sha256=digest))
    return artifacts


def read_assembly(text: str, target: str) -> list[Artifact]:
    """Return the kernels that the ``amdhsa.kernels`` metadata of an assembly listing names."""
    pattern = r"^\s*\.amdgpu_metadata\s*\n(.*?)^\s*\.end_amdgpu_metadata"
    match = re.search(pattern, text, re.DOTALL | re.MULTILINE)
    if match is None:
        return []
    document = yaml.safe_load(match.group(1)) or {}
    return [
        Artifact(
            str(kernel[".name"]), target, **{field: kernel.get("." + name) for name, field in _FIELDS.items()}
        )
        for kernel in document.get("amdhsa.kernels", [])
    ]


def unescape(text: str) -> bytes:
    """Undo MLIR's string escapes: a backslash and two hexadecimal digits, or the character itself."""
    return re.sub(
        rb"\\([0-9A-Fa-f]{2}|.)",
        lambda m: bytes([int(m.group(1), 16)]) if len(m.group(1)) == 2 else m.group(1),
        text.encode("utf-8", "surrogateescape"),
        flags=re.DOTALL,
    )
