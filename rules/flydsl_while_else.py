"""KL401."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernel_lint.rule import Context, Finding, Invalid, Rule, cases
from kernel_lint.rules._flydsl import applies, in_traced
from kernel_lint.rules._samples import kernel


class FlydslWhileElse(Rule):
    """
    ## What it does
    Finds `while ... else` in code that FlyDSL traces.

    ## Why is this bad?
    A loop with a run-time condition becomes `scf.while`, which has no `else`: tracing stops with
    `NotImplementedError` at the first call.

    ## What is allowed
    `while` without `else`, and `while const_expr(...)`, which Python runs at trace time.

    ## How to fix it
    Put the code of the `else` behind the loop, under the condition that ended it.

    ## Example
    ```python
    while i < n:
        i = i + 1
    else:
        done = 1
    ```

    ## References
    - FlyDSL, `python/flydsl/compiler/ast_rewriter.py`, `CanonicalizeWhile`: "while...else is not supported in dynamic
      while loops".
    """

    code = "KL401"
    name = "flydsl-while-else"
    clauses = ("P1",)
    VALID = cases(
        lambda: (kernel("while i < n:\n    i = i + 1"), "i = 0\nwhile i < 3:\n    i += 1\nelse:\n    i = 9\n")
    )
    INVALID = cases(lambda: (Invalid(kernel("while i < n:\n    i = i + 1\nelse:\n    i = 0")),))

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield each loop with an else that is not settled at trace time."""
        if not applies(context):
            return
        for node in in_traced(context, ast.While):
            assert isinstance(node, ast.While)
            constant = isinstance(node.test, ast.Call) and getattr(node.test.func, "id", "") == "const_expr"
            if node.orelse and not constant:
                yield Finding(node.test, "`while ... else` cannot be traced", "move the else behind the loop")
