"""KL402."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernel_lint.rule import Context, Finding, Invalid, Rule, cases
from kernel_lint.rules._flydsl import applies, device_entries, is_runtime, traced
from kernel_lint.rules._samples import kernel
from kernel_lint.source.domain import Qual
from kernel_lint.source.scopes import FunctionNode


class FlydslHelperControlFlow(Rule):
    """
    ## What it does
    Finds `range`, `if` and `while` on run-time values in a helper at module level that a kernel traces into.

    ## Why is this bad?
    FlyDSL rewrites control flow only in functions decorated `@flyc.kernel` or `@flyc.jit` and in what is nested in them. In
    a plain helper Python itself runs the statement while tracing: `range` fails on a value that is not an integer yet, an
    `if` takes one branch for all lanes.

    ## What is allowed
    `range_constexpr`, `const_expr`, and conditions on Python values: these are meant to be settled at trace time. Nested
    functions inside the kernel.

    ## How to fix it
    Move the helper into the kernel, decorate it `@flyc.jit`, use `range_constexpr` for a bound known at trace time, or
    `cond.select(a, b)` instead of the `if`.

    ## Example
    ```python
    def _sum(X, i):
        for k in range(i):  # i = fx.thread_idx.x
            ...
    ```

    ## References
    - FlyDSL issue 190: "Cannot use range() in helper kernel functions", https://github.com/ROCm/FlyDSL/issues/190
    """

    code = "KL402"
    name = "flydsl-helper-control-flow"
    clauses = ("P1",)
    VALID = cases(
        lambda: (
            kernel("_sum(X, 4)", top="def _sum(X, n):\n    for k in range(n):\n        X[k]\n"),
            kernel(
                "_sum(X, tid)", top="def _sum(X, i):\n    for k in range_constexpr(4):\n        X[k + i]\n"
            ),
            kernel("for k in range(tid):\n    X[k]"),
            kernel("def inner(i):\n    if i < 4:\n        X[i]\ninner(tid)"),
            "def f(n):\n    for k in range(n):\n        pass\n",
        )
    )
    INVALID = cases(
        lambda: (
            Invalid(kernel("_sum(X, tid)", top="def _sum(X, i):\n    for k in range(i):\n        X[k]\n")),
            Invalid(kernel("_one(X, i)", top="def _one(X, i):\n    if i == 0:\n        X[0]\n")),
            Invalid(
                kernel(
                    "_one(X)",
                    top="def _one(X):\n    lane = fx.thread_idx.x % 64\n    while lane > 0:\n        lane = lane - 1\n",
                )
            ),
        )
    )

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield control flow on lane values in undecorated module-level helpers."""
        if not applies(context):
            return
        entries = set(device_entries(context))
        helpers = {f for f in traced(context) if self._is_plain(context, f, entries)}
        if not helpers:
            return
        scopes = context.module.scopes
        for loop in scopes.of_type(ast.For):
            if scopes.scope[loop].function in helpers and self._runtime_range(context, loop.iter):
                yield Finding(
                    loop.iter, "`range` of a run-time value in a helper that FlyDSL does not rewrite", _HELP
                )
        branches: list[ast.If | ast.While] = [*scopes.of_type(ast.If), *scopes.of_type(ast.While)]
        for branch in branches:
            if scopes.scope[branch].function in helpers and is_runtime(context, branch.test):
                word = "if" if isinstance(branch, ast.If) else "while"
                yield Finding(
                    branch.test,
                    f"`{word}` on a run-time value in a helper that FlyDSL does not rewrite",
                    _HELP,
                )

    def _is_plain(self, context: Context, function: FunctionNode, entries: set[ast.FunctionDef]) -> bool:
        """A function that no decorated one contains, and that is not decorated itself."""
        if function in entries or isinstance(function, ast.Lambda):
            return False
        return not any(above in entries for above in context.module.scopes.ancestors(function))

    def _runtime_range(self, context: Context, node: ast.expr) -> bool:
        if not isinstance(node, ast.Call) or Qual("builtins.range") not in context.module.values.of(
            node.func
        ):
            return False
        return any(is_runtime(context, argument) for argument in node.args)


_HELP = (
    "move it into the kernel, decorate the helper @flyc.jit, or settle it at trace time with range_constexpr"
)
