"""What a kernel, a launch and an allowed import are, for each kernel language."""

from __future__ import annotations

from kernel_lint.records import dataclass


@dataclass(frozen=True, slots=True)
class Framework:
    """The names that make up one kernel language.

    ``kernels`` are decorators of device functions, ``launchers`` decorators of host functions
    that launch them, ``compilers`` functions that turn a launcher into a callable;
    ``imports`` the packages that a candidate may import for it.
    """

    name: str
    title: str
    kernels: frozenset[str]
    launchers: frozenset[str]
    compilers: frozenset[str]
    imports: frozenset[str]
    printers: frozenset[str]


# From flydsl.compiler and flydsl.expr as exported by flydsl 0.5.0.
FLYDSL = Framework(
    name="flydsl",
    title="FlyDSL",
    kernels=frozenset({"flydsl.compiler.kernel", "flydsl.compiler.kernel_function.kernel"}),
    launchers=frozenset({"flydsl.compiler.jit", "flydsl.compiler.jit_function.jit"}),
    compilers=frozenset({"flydsl.compiler.compile", "flydsl.compiler.jit_function.compile"}),
    imports=frozenset({"flydsl"}),
    printers=frozenset({"flydsl.expr.printf", "flydsl.expr.gpu.printf", "flydsl.expr.primitive.printf"}),
)
# From cutlass.cute as exported by nvidia-cutlass-dsl 4.x.
CUTEDSL = Framework(
    name="cutedsl",
    title="CuteDSL",
    kernels=frozenset({"cutlass.cute.kernel"}),
    launchers=frozenset({"cutlass.cute.jit"}),
    compilers=frozenset({"cutlass.cute.compile"}),
    imports=frozenset({"cutlass", "cuda"}),
    printers=frozenset({"cutlass.cute.printf", "cutlass.cute.print_tensor"}),
)
FRAMEWORKS = {framework.name: framework for framework in (FLYDSL, CUTEDSL)}
