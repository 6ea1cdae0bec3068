"""KL003."""

from __future__ import annotations

from collections.abc import Iterator

from kernel_lint.diagnostics import Severity
from kernel_lint.rule import Context, Finding, Invalid, Rule, Valid, cases


class SuppressionComment(Rule):
    """
    ## What it does
    Reports `# kernel-lint: allow` comments that are malformed or that silence nothing, and every one
    in the file that is handed in.

    ## Why is this bad?
    A suppression that no longer matches anything hides the next real finding on its line. In the file
    that is handed in, suppressions do not count: the evaluator does not read them.

    ## What is allowed
    In development files, `# kernel-lint: allow KL203 the host needs this sum` with codes and a reason,
    on the line itself or alone on the line above.

    ## How to fix it
    Remove the comment, or give it the codes that are really found there and a reason.

    ## Example
    ```python
    x = 1  # kernel-lint: allow KL102 nothing is printed here
    ```

    ## References
    - Contract clause F8: nothing but the kernel and what it needs.
    """

    code = "KL003"
    name = "suppression-comment"
    severity = Severity.WARNING
    clauses = ("F8",)
    VALID = cases(
        lambda: (
            Valid("x = 1\n"),
            Valid("import time  # noqa: F401\n"),
            Valid('TEXT = "# kernel-lint: allow KL102 text"\n', filename="ops.py"),
        )
    )
    INVALID = cases(
        lambda: (
            Invalid("x = 1  # kernel-lint: allow KL003 why\n", lines=(1,)),
            Invalid("x = 1  # kernel-lint: allow KL003 nothing to allow\n", lines=(1,), filename="ops.py"),
            Invalid("x = 1  # kernel-lint: allow\n", lines=(1,), filename="ops.py"),
            Invalid("x = 1  # kernel-lint: disable KL102\n", lines=(1,), filename="ops.py"),
            Invalid("x = 1  # kernel-lint: allow KL003\n", lines=(1,), filename="ops.py"),
        )
    )

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield nothing: the engine, which knows what was silenced, reports under this rule."""
        yield from ()
