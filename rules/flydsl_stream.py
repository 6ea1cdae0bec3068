"""KL406."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernel_lint.diagnostics import Severity
from kernel_lint.rule import Context, Finding, Invalid, Rule, cases
from kernel_lint.rules._flydsl import applies
from kernel_lint.rules._samples import candidate
from kernel_lint.source.domain import Func


class FlydslStream(Rule):
    """
    ## What it does
    Finds launches from `Model.forward` that leave the launcher's stream parameter at its default.

    ## Why is this bad?
    The default is the device's default stream. When the evaluator runs on another stream (graph capture does), the kernel
    and PyTorch's own work are no longer in order: results are read before they are written.

    ## What is allowed
    `stream=torch.cuda.current_stream()`, directly or through a helper; a launcher without a stream parameter.

    ## How to fix it
    Pass `stream=torch.cuda.current_stream()`.

    ## Example
    ```python
    _scale(x, y, x.numel())
    ```

    ## References
    - FlyDSL, docs/kernel_authoring_guide.md: launchers take `stream: fx.Stream = fx.Stream(None)`.
    """

    code = "KL406"
    name = "flydsl-stream"
    severity = Severity.INFO
    clauses = ("P1",)
    VALID = cases(
        lambda: (
            candidate(),
            candidate().replace("stream=torch.cuda.current_stream()", "torch.cuda.current_stream()"),
        )
    )
    INVALID = cases(
        lambda: (Invalid(candidate().replace(", stream=torch.cuda.current_stream()", ""), lines=(27,)),)
    )

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield host launches that pass no stream to a launcher that takes one."""
        if not context.candidate or not applies(context) or context.module.flow.model is None:
            return
        for launch in context.module.launches(context.framework).calls:
            for value in context.module.values.of(launch.call.func):
                if isinstance(value, Func) and self._lacks_stream(value.node, launch.call):
                    message = "the launch leaves the stream at the device's default"
                    yield Finding(launch.call.func, message, "pass stream=torch.cuda.current_stream()")

    def _lacks_stream(
        self, function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, call: ast.Call
    ) -> bool:
        names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
        keywords = {k.arg for k in call.keywords}
        if "stream" not in [*names, *(a.arg for a in function.args.kwonlyargs)]:
            return False
        starred = None in keywords or any(isinstance(a, ast.Starred) for a in call.args)
        position = names.index("stream") if "stream" in names else len(call.args)
        return not starred and "stream" not in keywords and len(call.args) <= position
