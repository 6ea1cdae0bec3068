"""From a lowered module to PTX, in this process, with the LLVM that FlyDSL's wheel carries."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from flydsl._mlir import ir
from flydsl._mlir.passmanager import PassManager

from kernel_lint.nvptx.errors import REMEDY, NvptxRefusalError
from kernel_lint.nvptx.facts import Known
from kernel_lint.nvptx.rewrite import rewrite_kernel
from kernel_lint.nvptx.shared import gather

_PIPELINE = (
    "gpu.module(canonicalize,cse,convert-scf-to-cf,cse,"
    "convert-gpu-to-nvvm{index-bitwidth=0 use-bare-ptr-memref-call-conv=true},"
    "convert-math-to-llvm,reconcile-unrealized-casts)",
    "convert-vector-to-llvm",
    "convert-arith-to-llvm",
    "convert-func-to-llvm",
    "reconcile-unrealized-casts",
    "gpu-module-to-binary{format=isa}",
)
# PTX 8.0 is the first with all of sm_90; every driver since 525 takes it.
_FEATURES = "+ptx80"
_ASSEMBLY = re.compile(r'assembly = "((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r'\\([0-9A-Fa-f]{2}|["\\])')
_UNRESOLVED = re.compile(r"^\.extern \.func .*?(\w+)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Ptx:
    """A compiled kernel: its text for the driver, the name of its entry, and the bytes of LDS to ask for."""

    text: str
    entry: str
    shared: int = 0


def lowered_text(module: Any) -> str:
    """Return a lowered module's text with locations, structs unpacked and shared variables internal.

    PTX reads a packed parameter byte by byte, and an external shared variable has no size: the dynamic LDS.
    """
    text = module.operation.get_asm(enable_debug_info=True)
    text = text.replace("struct<packed (", "struct<(")
    return re.sub(
        r"llvm\.mlir\.global external (?=@\w+\(\) \{addr_space = 3)(?!.*: !llvm\.array<0 x)",
        "llvm.mlir.global internal ",
        text,
    )


def compile_kernel(text: str, kernel: str, known: Known, chip: str) -> Ptx:
    """Compile ``kernel`` of a module's text for ``chip`` (``sm_90``).

    Raises :class:`NvptxRefusalError` where an operation, a type or a call has no equivalent.
    """
    with ir.Context() as context:
        module = ir.Module.parse(text, context)
        rewrite_kernel(module, kernel, known)
        target = f'[#nvvm.target<O = 3, chip = "{chip}", features = "{_FEATURES}">]'
        for operation in module.body.operations:
            if operation.operation.name == "gpu.module":
                # FlyDSL 0.3 has put its own target there.
                operation.operation.attributes["targets"] = ir.Attribute.parse(target, context)
        manager = PassManager.parse(f"builtin.module({','.join(_PIPELINE)})", context)
        try:
            manager.run(module.operation)
        except ir.MLIRError as error:
            raise NvptxRefusalError(
                f"kernel {kernel} cannot be compiled for an NVIDIA GPU: {_cause(error)}", REMEDY
            ) from None
        found = _ASSEMBLY.search(str(module))
    assert found is not None
    ptx = _ESCAPE.sub(lambda m: m[1] if m[1] in '"\\' else chr(int(m[1], 16)), found[1])
    _check(ptx, kernel)
    ptx, shared = gather(ptx)
    return Ptx(ptx, kernel, shared)


def _cause(error: Exception) -> str:
    """Return what MLIR says went wrong, without the operation's text."""
    lines = [line.strip() for line in str(error).splitlines()]
    found = [line for line in lines if line.startswith("error:")] or lines
    return re.sub(r'^error: ("-":\d+:\d+: )?', "", found[0]).split(": %")[0][:200]


def _check(ptx: str, kernel: str) -> None:
    """Refuse what the driver would refuse less clearly."""
    missing = re.findall(r"call\.uni \(?\w*\)?,?\s*(\w+)", ptx) if ".extern .func" in ptx else []
    if missing:
        raise NvptxRefusalError(f"kernel {kernel} calls {missing[0]}, whose library is not bundled", REMEDY)
