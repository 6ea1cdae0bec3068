"""KL403."""

from __future__ import annotations

from collections.abc import Iterator

from kernel_lint.diagnostics import Severity
from kernel_lint.rule import Context, Finding, Invalid, Rule, cases
from kernel_lint.rules._flydsl import applies, traced
from kernel_lint.rules._samples import kernel


class FlydslTracePrint(Rule):
    """
    ## What it does
    Finds Python's `print` in code that FlyDSL traces.

    ## Why is this bad?
    It runs once, while the kernel is traced, and shows a symbolic value. It says nothing about what a lane computes, and
    not once more when the compiled kernel runs.

    ## What is allowed
    Nothing of the kind in the file that is handed in; KL102 forbids all output there.

    ## How to fix it
    While developing, use `fx.printf("{}", value)`, or `kernel-lint emulate --trace LINE`. Remove it before the end.

    ## Example
    ```python
    @flyc.kernel
    def k(X: fx.Tensor):
        print(fx.thread_idx.x)
    ```

    ## References
    - FlyDSL, docs/kernel_authoring_guide.md: `fx.printf` prints from the device.
    """

    code = "KL403"
    name = "flydsl-trace-print"
    severity = Severity.WARNING
    clauses = ("X2",)
    VALID = cases(
        lambda: (kernel(), kernel("fx.printf('{}', tid)"), kernel(top="def report(n):\n    print(n)\n"))
    )
    INVALID = cases(lambda: (Invalid(kernel("print(tid)")), Invalid(kernel(host="print(n)"))))

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield each call of print in traced code."""
        if not applies(context):
            return
        for node in context.module.survey.calls_of(("builtins.print",)):
            if context.module.flow.function_of(node) in traced(context):
                yield Finding(
                    node, "`print` runs while tracing, not on the device", "use fx.printf while developing"
                )
