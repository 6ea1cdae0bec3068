"""KL411."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernel_lint.rule import Context, Finding, Invalid, Rule, cases
from kernel_lint.rules._flydsl import applies, traced
from kernel_lint.rules._samples import candidate, kernel
from kernel_lint.source.domain import Func

_DIRECT = candidate().replace(
    "        _double(x, y, x.numel(), stream=torch.cuda.current_stream())", "        {}"
)


class FlydslKernelCall(Rule):
    """
    ## What it does
    Finds a kernel that is called from ordinary host code instead of from a launcher.

    ## Why is this bad?
    A `@flyc.kernel` function can be called only while a `@flyc.jit` function is traced. From host code the call raises
    `RuntimeError`, or, without `.launch(...)`, does nothing at all.

    ## What is allowed
    Calling kernels in a function decorated `@flyc.jit`, or in a helper that such a function calls.

    ## How to fix it
    Write a launcher: a `@flyc.jit` function that calls the kernel and its `.launch(grid=..., block=..., stream=...)`.

    ## Example
    ```python
    def forward(self, x):
        _kernel(x).launch(grid=(1, 1, 1), block=(64, 1, 1))
    ```

    ## References
    - FlyDSL, `python/flydsl/compiler/kernel_function.py`: "@kernel can only be called inside @jit function".
    """

    code = "KL411"
    name = "flydsl-kernel-call"
    clauses = ("P1",)
    VALID = cases(
        lambda: (
            candidate(),
            kernel(),
            kernel().replace("    _kernel(X, Y, n).launch", "    k = _kernel\n    k(X, Y, n).launch"),
        )
    )
    INVALID = cases(
        lambda: (
            Invalid(_DIRECT.format("_double_kernel(x, y, 4).launch(grid=(1, 1, 1), block=(64, 1, 1))")),
            Invalid(_DIRECT.format("_double_kernel(x, y, 4)")),
            Invalid(
                kernel()
                + "\n\ndef run(x, y):\n    _kernel(x, y, 4).launch(grid=(1, 1, 1), block=(1, 1, 1))\n"
            ),
        )
    )

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield calls of kernels outside traced code."""
        if not applies(context):
            return
        kernels = set(context.module.flow.kernels(context.framework))
        inside = traced(context)
        for node in context.module.survey.calls_of_kind(Func):
            if context.module.flow.function_of(node) in inside:
                continue
            for value in context.module.values.of(node.func):
                if isinstance(value, Func) and value.node in kernels:
                    assert isinstance(value.node, ast.FunctionDef)
                    message = f"the kernel `{value.node.name}` is called outside a @flyc.jit launcher"
                    yield Finding(node.func, message, "call it from a @flyc.jit function, and that from here")
