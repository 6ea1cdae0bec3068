"""KL410."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernel_lint.rule import Context, Finding, Invalid, Rule, cases
from kernel_lint.rules._flydsl import applies
from kernel_lint.rules._samples import kernel
from kernel_lint.source.domain import Func

_SIZED = kernel().replace("@flyc.kernel\n", "@flyc.kernel(known_block_size=(256, 1, 1))\n")
# The hardware's limit on the threads of a workgroup (AMD CDNA3 ISA, section 3.1; HIP documents 1,024).
MAX_THREADS = 1024


class FlydslBlockSize(Rule):
    """
    ## What it does
    Compares the `block` of a launch with the `known_block_size` of its kernel and with the limit of 1,024 threads, where
    both are constants.

    ## Why is this bad?
    The compiler plans registers for the declared size. Another size is undefined behaviour on AMD GPUs; more than 1,024
    threads cannot be launched at all.

    ## What is allowed
    Equal sizes; sizes that are computed.

    ## How to fix it
    Use one name for both.

    ## Example
    ```python
    @flyc.kernel(known_block_size=(256, 1, 1))
    def k(X: fx.Tensor): ...

    k(X).launch(grid=(1, 1, 1), block=(128, 1, 1))
    ```

    ## References
    - FlyDSL, `python/flydsl/compiler/kernel_function.py`: a launch block that differs from known_block_size is rejected.
    """

    code = "KL410"
    name = "flydsl-block-size"
    clauses = ("P1",)
    VALID = cases(lambda: (kernel(), _SIZED, _SIZED.replace("block=(256, 1, 1)", "block=(n, 1, 1)")))
    INVALID = cases(
        lambda: (
            Invalid(_SIZED.replace("block=(256, 1, 1)", "block=(128, 1, 1)")),
            Invalid(kernel().replace("block=(256, 1, 1)", "block=(2048, 1, 1)")),
            Invalid(kernel().replace("block=(256, 1, 1)", "block=(64, 32, 1)")),
        )
    )

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield launches whose block cannot be right."""
        if not applies(context):
            return
        for node in context.module.values.sites.calls_named("launch"):
            block = self._sizes(context, next((k.value for k in node.keywords if k.arg == "block"), None))
            if block is None:
                continue
            threads = block[0] * block[1] * block[2]
            if threads > MAX_THREADS:
                message = f"the workgroup has {threads} threads; the hardware takes at most {MAX_THREADS}"
                yield Finding(node, message, "make the block smaller and the grid larger")
            known = self._known(context, node)
            if known is not None and known != block:
                message = f"block {block} differs from the kernel's known_block_size {known}"
                yield Finding(node, message, "use one name for both sizes")

    def _known(self, context: Context, node: ast.Call) -> tuple[int, int, int] | None:
        if not isinstance(node.func, ast.Attribute) or not isinstance(node.func.value, ast.Call):
            return None
        for value in context.module.values.of(node.func.value.func):
            if isinstance(value, Func) and isinstance(value.node, ast.FunctionDef):
                for decorator in value.node.decorator_list:
                    if isinstance(decorator, ast.Call):
                        given = next(
                            (k.value for k in decorator.keywords if k.arg == "known_block_size"), None
                        )
                        return self._sizes(context, given)
        return None

    def _sizes(self, context: Context, node: ast.expr | None) -> tuple[int, int, int] | None:
        if not isinstance(node, (ast.Tuple, ast.List)) or len(node.elts) != 3:
            return None
        found = [context.module.values.constant(element) for element in node.elts]
        if any(value is None or not isinstance(value.value, int) for value in found):
            return None
        x, y, z = (value.value for value in found if value is not None)
        return (x, y, z)
