"""KL001."""

from __future__ import annotations

from collections.abc import Iterator

from kernel_lint.rule import Context, Finding, Invalid, Rule, cases


class SyntaxErrorRule(Rule):
    """
    ## What it does
    Reports a file that is not Python, with the usual cause where one can be told.

    ## Why is this bad?
    The evaluator imports the file first; a file that does not parse scores nothing, whatever the
    kernel in it is worth. No other rule can look at it either.

    ## What is allowed
    A byte order mark, any line ends, any encoding that the file declares.

    ## How to fix it
    Look at the place that is named. Markdown fences around the code, a sentence before it,
    quotation marks from a word processor and a text cut off at its end are what goes wrong most.

    ## Example
    ```python
    x = (1, 2
    ```

    ## References
    - Contract clause F2: valid Python source only.
    """

    code = "KL001"
    name = "syntax-error"
    clauses = ("F2",)
    VALID = cases(
        lambda: (
            "x = 1\n",
            "\ufeffx = 1\n",
            "x = 1\r\ny = 2\r\n",
            "",
            "# only a comment",
            "def f():\n\treturn 1\n",
        )
    )
    INVALID = cases(
        lambda: (
            Invalid("x = (1, 2\n", lines=(1,)),
            Invalid("```python\nx = 1\n```\n", lines=(1,)),
            Invalid("x = “one”\n", lines=(1,)),
            Invalid("<<<<<<< HEAD\nx = 1\n=======\nx = 2\n>>>>>>> other\n", lines=(1,)),
            Invalid("if True:\n    x = 1\n\ty = 2\n", lines=(3,)),
            Invalid("x = 1\0\n", lines=(1,)),
            Invalid("Here is the optimized kernel for you\n", lines=(1,)),
            Invalid("x = " + "(" * 5000 + ")" * 5000 + "\n", lines=(1,)),
        )
    )

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield the module's one syntax problem, if it has one."""
        problem = context.module.problem
        if problem is not None:
            help_text = f"usual cause: {problem.cause}" if problem.cause else "mend the syntax at this place"
            yield Finding(problem.span, f"not valid Python: {problem.message}", help_text)
