"""KL408."""

from __future__ import annotations

from collections.abc import Iterator

from kernel_lint.rule import Context, Finding, Invalid, Rule, cases
from kernel_lint.rules._flydsl import applies, is_runtime
from kernel_lint.rules._samples import kernel
from kernel_lint.source.domain import Qual

_SETTLED = ("flydsl.expr.const_expr", "flydsl.expr.range_constexpr")


class FlydslRuntimeConstexpr(Rule):
    """
    ## What it does
    Finds `const_expr` and `range_constexpr` of something that only a lane knows: the thread, the block, the lane.

    ## Why is this bad?
    Both ask for a Python value at trace time. A thread index is none: the condition is not decided for each lane but
    fails, or is taken as true for all of them.

    ## What is allowed
    Shapes, tile sizes, dtypes, block sizes: what Python knows while tracing.

    ## How to fix it
    Drop `const_expr` and write a plain `if` (FlyDSL makes a branch of it), or `range` for a run-time bound.

    ## Example
    ```python
    if const_expr(fx.thread_idx.x == 0):
        ...
    ```

    ## References
    - FlyDSL, docs/kernel_authoring_guide.md, section 5.2 (`const_expr`), and its guide to debugging kernels: even with
      `known_block_size`, thread and lane are run-time values.
    """

    code = "KL408"
    name = "flydsl-runtime-constexpr"
    clauses = ("P1",)
    VALID = cases(
        lambda: (
            kernel("if const_expr(4 > 2):\n    X[0]"),
            kernel("if tid == 0:\n    X[0]"),
            kernel("for k in range_constexpr(4):\n    X[k + tid]"),
        )
    )
    INVALID = cases(
        lambda: (
            Invalid(kernel("if const_expr(tid == 0):\n    X[0]")),
            Invalid(kernel("lane = tid % 64\nif const_expr(lane < 4):\n    X[0]")),
            Invalid(kernel("for k in range_constexpr(tid):\n    X[k]")),
        )
    )

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield trace-time constructs on run-time values."""
        if not applies(context):
            return
        for node in context.module.survey.calls_of(_SETTLED):
            names = [n for n in _SETTLED if Qual(n) in context.module.values.of(node.func)]
            if names and any(is_runtime(context, argument) for argument in node.args):
                short = names[0].rpartition(".")[2]
                yield Finding(
                    node, f"`{short}` of a value that only a lane knows", "use a plain if, or range"
                )
