"""KL412."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernel_lint.rule import Context, Finding, Invalid, Rule, cases
from kernel_lint.rules._flydsl import applies
from kernel_lint.rules._samples import kernel
from kernel_lint.source.domain import Qual
from kernel_lint.source.scopes import walk


class FlydslHostRead(Rule):
    """
    ## What it does
    Finds a launcher that decides by the contents of a tensor: `if X[0] > 0:` in a `@flyc.jit` function.

    ## Why is this bad?
    The launcher's host code is compiled and sees a tensor as an address, a shape and strides; its elements lie on the
    device. The read fails while tracing, or becomes a host access to device memory.

    ## What is allowed
    Shapes and strides, `fx.Constexpr` parameters, scalars passed as `fx.Int32`.

    ## How to fix it
    Decide in the kernel, or pass the number as a scalar parameter.

    ## Example
    ```python
    @flyc.jit
    def launch(X: fx.Tensor):
        if X[0] > 0:
            ...
    ```

    ## References
    - FlyDSL, docs/kernel_authoring_guide.md: a `@flyc.jit` function computes launch parameters from shapes and scalars.
    """

    code = "KL412"
    name = "flydsl-host-read"
    clauses = ("P1",)
    VALID = cases(
        lambda: (
            kernel(host="if const_expr(True):\n    m = X.shape[0]"),
            kernel(host="k = X.shape[0]\nif n > 0:\n    k = 1"),
            kernel("if X[0] > 0:\n    i = 0"),
        )
    )
    INVALID = cases(
        lambda: (
            Invalid(kernel(host="if X[0] > 0:\n    n = 1")),
            Invalid(kernel(host="while Y[n] > 0:\n    n = n - 1")),
        )
    )

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield conditions in launchers that read an element of a tensor parameter."""
        if not applies(context):
            return
        scopes = context.module.scopes
        launchers = context.module.flow.launchers(context.framework)
        branches: list[ast.If | ast.While] = [*scopes.of_type(ast.If), *scopes.of_type(ast.While)]
        for node in branches:
            function = scopes.scope[node].function
            if not isinstance(function, ast.FunctionDef) or function not in launchers:
                continue
            names = self._tensors(context, function)
            for inner in walk(node.test):
                if (
                    isinstance(inner, ast.Subscript)
                    and isinstance(inner.value, ast.Name)
                    and inner.value.id in names
                ):
                    message = f"the launcher reads an element of the tensor `{inner.value.id}`"
                    yield Finding(inner, message, "decide in the kernel, or pass the number as a scalar")

    def _tensors(self, context: Context, function: ast.FunctionDef) -> set[str]:
        tensor = Qual("flydsl.expr.Tensor")
        return {
            a.arg
            for a in (*function.args.posonlyargs, *function.args.args)
            if a.annotation is not None and tensor in context.module.values.of(a.annotation)
        }
