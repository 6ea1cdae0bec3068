"""KL106."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from kernel_lint import TYPE_CHECKING
from kernel_lint.rule import Context, Finding, Invalid, Valid, cases
from kernel_lint.rules._modules import NATIVE
from kernel_lint.rules._paths import ForbiddenPaths
from kernel_lint.source.scopes import walk

if TYPE_CHECKING:
    from typing import ClassVar

    from kernel_lint.frameworks import Framework

_BUILDS = "builds native code"
_LOADS = "loads native code"
_COMPILERS = frozenset(
    """hipcc nvcc gcc g++ cc c++ clang clang++ amdclang amdclang++ ld ld.lld lld cmake make ninja meson
    ptxas hiprtc nvrtc cicc llc opt""".split()
)
_STARTERS = ("subprocess", "os.system", "os.popen", "os.posix_spawn", "os.execv", "os.execvp", "os.spawnv")


class CppExtension(ForbiddenPaths):
    """
    ## What it does
    Finds native code that is built or loaded at run time: `torch.utils.cpp_extension`, `ctypes`, `cffi`, `load_library`,
    run-time compilers (nvrtc, hiprtc, `torch.cuda._compile_kernel`), other kernel compilers used as libraries, and
    compilers started as processes.

    ## Why is this bad?
    The contract asks for a FlyDSL kernel in one Python file. Native code is not checked by anything here, needs a
    compiler on the evaluator, and can do whatever it likes to the measuring process.

    ## What is allowed
    The names of these things in text; reading a pointer with `data_ptr()` for an alignment check.

    ## How to fix it
    Write the kernel in FlyDSL. What FlyDSL cannot say yet, its `llvm` inline assembly often can.

    ## Example
    ```python
    ext = load_inline(name="e", cpp_sources=src, functions=["f"])
    ```

    ## References
    - Contract clause P5: no custom C++ extension is built or loaded.
    """

    code = "KL106"
    name = "cpp-extension"
    clauses = ("P5",)
    FORBIDDEN: ClassVar[Mapping[str, str]] = {
        "torch.utils.cpp_extension": _BUILDS,
        "torch.utils.hipify": _BUILDS,
        "torch.utils._cpp_extension_versioner": _BUILDS,
        "torch.ops.load_library": _LOADS,
        "torch.classes.load_library": _LOADS,
        "torch.library": _LOADS,
        "torch.cuda._compile_kernel": _BUILDS,
        "torch.cuda.jiterator": _BUILDS,
        "torch.cuda._utils": _BUILDS,
        "torch._C._cuda_jiterator_compile_and_launch_kernel": _BUILDS,
        "ctypes": _LOADS,
        "_ctypes": _LOADS,
        "numpy.ctypeslib": _LOADS,
        "numpy.f2py": _BUILDS,
        "sysconfig": _BUILDS,
        "llvmlite": _BUILDS,
        "cuda.bindings.nvrtc": _BUILDS,
        "cuda.nvrtc": _BUILDS,
        "sys.setdlopenflags": _LOADS,
        "importlib.machinery.ExtensionFileLoader": _LOADS,
        "_imp.create_dynamic": _LOADS,
        **dict.fromkeys(sorted(NATIVE), _BUILDS),
    }
    HELP = "write the kernel in the kernel language; nothing native may be built or loaded"
    VALID = cases(
        lambda: (
            "NOTE = 'no load_inline here'\n",
            "# built by the DSL, never by nvcc or hipcc\nARCH = 'gfx950'\n",
            "def f(x):\n    if x.data_ptr() % 16:\n        raise ValueError('alignment')\n",
            Valid("import cuda.bindings.driver as cuda\n", options={"framework": "cutedsl"}),
        )
    )
    INVALID = cases(
        lambda: (
            Invalid("from torch.utils.cpp_extension import load_inline\n", lines=(1,)),
            Invalid(
                "def f():\n    from torch.utils import cpp_extension\n    return cpp_extension.load_inline(name='e')\n",
                lines=(2, 3),
            ),
            Invalid("import ctypes\nL = ctypes.CDLL('k.so')\n", lines=(1, 2)),
            Invalid("from cffi import FFI\n", lines=(1,)),
            Invalid("from hip import hiprtc\n", lines=(1,)),
            Invalid("import subprocess\nsubprocess.run(['hipcc', 'k.hip'])\n", lines=(2,)),
            Invalid("import os\nos.system('nvcc -shared k.cu')\n", lines=(2,)),
            Invalid("import torch\nk = torch.cuda._compile_kernel('', 'k')\n", lines=(2,)),
            Invalid("import torch\ntorch.ops.load_library('k.so')\n", lines=(2,)),
            Invalid("import importlib\nc = importlib.import_module('cty' + 'pes')\n", lines=(2,)),
        )
    )

    @classmethod
    def table(cls, framework: Framework) -> Mapping[str, str]:
        """Leave out the packages that belong to the chosen kernel language."""
        return {k: v for k, v in cls.FORBIDDEN.items() if k not in framework.imports}

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield forbidden paths, then compilers started as processes."""
        yield from super().check(context)
        for call in context.module.survey.calls_below(_STARTERS):
            compiler = self._compiler(context, call)
            if compiler:
                yield Finding(call, f"`{compiler}` is started: it {_BUILDS}", self.HELP)

    def _compiler(self, context: Context, call: ast.Call) -> str | None:
        for argument in call.args[:2]:
            command = context.module.values.fold(argument)
            words = command.value if command is not None else [
                c.value for part in walk(argument) if isinstance(part, ast.expr)
                for c in [context.module.values.constant(part)] if c is not None
            ]  # fmt: skip
            text = (
                words.split()
                if isinstance(words, str)
                else [str(word) for word in words]
                if isinstance(words, (list, tuple))
                else []
            )
            for word in text:
                if word.rpartition("/")[2] in _COMPILERS:
                    return word
        return None
