"""Backend ``compile``: every kernel becomes a code object for the target; nothing is run.

FlyDSL's compile-only mode traces and lowers each launch with CPU tensors as arguments and
returns before the launch (``COMPILE_ONLY``, ``flydsl/utils/env.py``). The figures come from
the ``gpu.kernel_metadata`` that LLVM attaches to the object, or, where no linker is found,
from the ``amdhsa.kernels`` metadata of the assembly
(https://llvm.org/docs/AMDGPUUsage.html#code-object-v5-metadata).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from kernel_lint.verify.backends import (
    MAXIMUM_LISTED,
    Artifact,
    BackendContext,
    Launch,
    Observation,
    Observer,
)
from kernel_lint.verify.backends.flydsl import COMPILER_MODULES, flydsl_environment, require_flydsl
from kernel_lint.verify.linker import Linker, find_linker, write_rocm_shim

DEFAULT_TARGETS = ("gfx942", "gfx950")
# Tells the candidate's process what the judge's found out: whether there is a linker.
_LINK = "KERNEL_LINT_LINK"


class CompileBackend:
    """See the module's docstring; the protocol is :class:`kernel_lint.verify.backends.Backend`."""

    name = "compile"

    def stages(self) -> frozenset[str]:
        """Return ``compile`` only."""
        return frozenset({"compile"})

    def limitation(self) -> str:
        """Say why nothing else can be judged."""
        return "the compile backend builds code objects and runs nothing; use --backend emulate or rocm"

    def check(self) -> None:
        """Raise when FlyDSL or torch is missing."""
        require_flydsl()

    def default_targets(self) -> tuple[str, ...]:
        """Return CDNA3 and CDNA4."""
        return DEFAULT_TARGETS

    def device(self, options: Mapping[str, str]) -> str:
        """Return ``cpu``: FlyDSL's compile-only mode takes CPU tensors."""
        return "cpu"

    def describe(self, target: str) -> str:
        """Return ``compiled for gfx942``, and how far."""
        return f"compiled for {target}" if linker() else f"compiled for {target} as far as assembly"

    def notes(self) -> tuple[str, ...]:
        """Return what the report must say about this run: a missing linker."""
        if linker():
            return ()
        looked_at = "; ".join(find_linker()[1]) or "nothing found"
        return (
            f"no linker for AMD GPU code objects (ld.lld 17 or newer; {looked_at}), so compilation stopped "
            "at assembly; install ziglang from PyPI or ROCm to link",
        )

    def preload(self) -> tuple[str, ...]:
        """Return FlyDSL's modules; importing them starts no thread."""
        return COMPILER_MODULES

    def environment(self, context: BackendContext) -> dict[str, str]:
        """Return FlyDSL's compile-only settings for the target."""
        variables = flydsl_environment(context)
        variables["COMPILE_ONLY"] = "1"
        found = linker()
        variables[_LINK] = "1" if found else "0"
        if found:
            variables["ROCM_PATH"] = str(write_rocm_shim(found, context.scratch / "rocm"))
        return variables

    def readable(self) -> tuple[Path, ...]:
        """Return the linker's place."""
        found = linker()
        return (Path(found.command[0]).resolve().parent,) if found else ()

    def install(self, context: BackendContext) -> Observer:
        """Hook FlyDSL's compiler in this process."""
        from kernel_lint.verify.backends.standin import install_cuda_standins

        install_cuda_standins(context.target)
        observer = CompileObserver(context.target)
        observer.hook(link=os.environ[_LINK] == "1")
        return observer


@lru_cache(maxsize=1)
def linker() -> Linker | None:
    """Return the linker of this machine, looked up once."""
    return find_linker()[0]


class CompileObserver:
    """Records each module that FlyDSL's compiler finishes, and each launch that it skips."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._artifacts: list[Artifact] = []
        self._launches: list[Launch] = []
        self._count = 0

    def hook(self, link: bool) -> None:
        """Wrap FlyDSL's compiler; without ``link`` the pipeline ends at assembly."""
        from flydsl.compiler import jit_function
        from flydsl.compiler.backends.rocm import RocmBackend

        compiler = jit_function.MlirCompiler
        original_compile = compiler.__dict__["compile"].__func__
        original_pipeline = RocmBackend.pipeline_fragments
        original_run = jit_function.JitFunction.__call__
        current_context = jit_function.ir.Context

        def compile_and_record(cls: Any, *args: Any, **kwargs: Any) -> Any:
            module = original_compile(cls, *args, **kwargs)
            self._artifacts.extend(artifacts_of(module, self._target))
            return module

        def pipeline_to_assembly(backend: Any, **kwargs: Any) -> list[str]:
            return [
                f.replace("format=fatbin", "format=isa") if f.startswith("gpu-module-to-binary") else f
                for f in original_pipeline(backend, **kwargs)
            ]

        def call_and_count(function: Any, *args: Any, **kwargs: Any) -> Any:
            if current_context.current is None:
                self._note_launch(function.func.__name__)
            return original_run(function, *args, **kwargs)

        compiler.compile = classmethod(compile_and_record)
        jit_function.JitFunction.__call__ = call_and_count
        if not link:
            RocmBackend.pipeline_fragments = pipeline_to_assembly
        self._hook_ahead_of_time(jit_function)

    def _hook_ahead_of_time(self, jit_function: Any) -> None:
        """Make ``flyc.compile`` return a callable: in compile-only mode it returns None."""
        original = jit_function._compile_impl

        def compile_ahead(function: Any, *args: Any, **kwargs: Any) -> Any:
            compiled = original(function, *args, **kwargs)
            if compiled is not None:
                return compiled
            name = getattr(getattr(function, "func", function), "__name__", "kernel")
            return lambda *_a, **_k: self._note_launch(name)

        jit_function._compile_impl = compile_ahead

    def _note_launch(self, name: str) -> None:
        self._count += 1
        if len(self._launches) < MAXIMUM_LISTED:
            self._launches.append(Launch(name))

    def begin(self) -> None:
        """Forget what was seen so far."""
        self._artifacts, self._launches, self._count = [], [], 0

    def synchronize(self) -> None:
        """Return at once: nothing runs."""

    def end(self) -> Observation:
        """Return the kernels compiled since :meth:`begin` and the launches that asked for them."""
        return Observation(tuple(self._artifacts), tuple(self._launches), self._count)


def artifacts_of(module: Any, target: str) -> list[Artifact]:
    """Return one :class:`Artifact` for each kernel of a finished MLIR module."""
    from kernel_lint.verify.backends.metadata import read_gpu_binary

    return [
        artifact
        for operation in module.body.operations
        if operation.operation.name == "gpu.binary"
        for artifact in read_gpu_binary(operation.operation.get_asm(enable_debug_info=False), target)
    ]


BACKEND = CompileBackend()
