"""KL409."""

from __future__ import annotations

from collections.abc import Iterator

from kernel_lint.rule import Context, Finding, Invalid, Rule, cases
from kernel_lint.rules._flydsl import applies, traced
from kernel_lint.rules._samples import kernel


class FlydslRangeInit(Rule):
    """
    ## What it does
    Finds `range(..., init=...)` whose bounds are all Python constants.

    ## Why is this bad?
    With constant bounds FlyDSL unrolls the loop while tracing and ignores `init`: the values that should be carried
    from one iteration to the next stay what they were.

    ## What is allowed
    A bound of a FlyDSL type: `range(fx.Int64(0), fx.Int64(8), fx.Int64(1), init=[...])`.

    ## How to fix it
    Make the bounds `fx.Int64(...)`, or use `range_constexpr` and carry the values in Python variables.

    ## Example
    ```python
    for k, (acc,) in range(0, 8, 1, init=[acc]):
        ...
    ```

    ## References
    - FlyDSL, docs/kernel_tuning_guide.md, pitfalls of the run-time loop: constant bounds make the rewriter unroll the loop
      and silently ignore `init=`.
    """

    code = "KL409"
    name = "flydsl-range-init"
    clauses = ("P1",)
    VALID = cases(
        lambda: (
            kernel("for k, s in range(fx.Int64(0), fx.Int64(8), fx.Int64(1), init=[i]):\n    X[k]"),
            kernel("for k in range(0, 8):\n    X[k]"),
            kernel("for k, s in range(0, n, 1, init=[i]):\n    X[k]"),
        )
    )
    INVALID = cases(lambda: (Invalid(kernel("for k, s in range(0, 8, 1, init=[i]):\n    X[k]")),))

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield carried loops that will be unrolled."""
        if not applies(context):
            return
        values = context.module.values
        for node in context.module.survey.calls_of(("builtins.range",)):
            if not any(k.arg == "init" for k in node.keywords):
                continue
            if context.module.flow.function_of(node) not in traced(context):
                continue
            if node.args and all(values.constant(argument) is not None for argument in node.args):
                yield Finding(
                    node,
                    "`init` is ignored: constant bounds unroll the loop",
                    "make the bounds fx.Int64(...)",
                )
