"""KL407."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernel_lint.diagnostics import Severity
from kernel_lint.rule import Context, Finding, Invalid, Rule, cases
from kernel_lint.source.domain import Qual

_DECORATORS = (
    "flydsl.expr.struct",
    "flydsl.expr.union",
    "flydsl.expr.typing.struct",
    "flydsl.expr.typing.union",
)


class FlydslStructAnnotations(Rule):
    """
    ## What it does
    Finds `from __future__ import annotations` in a file that declares an `@fx.struct` or `@fx.union`.

    ## Why is this bad?
    The decorator reads the fields' types from the annotations. With the future import they are strings, and the struct
    cannot be built.

    ## What is allowed
    The import in files without structs; string annotations anywhere else.

    ## How to fix it
    Remove the import. `Optional[int]` instead of `int | None` keeps annotations working on old Pythons.

    ## Example
    ```python
    from __future__ import annotations

    @fx.struct
    class Shared:
        partial: fx.Array[fx.Float32, 4, 16]
    ```

    ## References
    - FlyDSL, docs/language/composite_types.md: fields are declared by annotations.
    """

    code = "KL407"
    name = "flydsl-struct-annotations"
    severity = Severity.ERROR
    clauses = ("F4",)
    VALID = cases(
        lambda: (
            "from __future__ import annotations\nimport flydsl.expr as fx\nx = 1\n",
            "import flydsl.expr as fx\n@fx.struct\nclass S:\n    a: fx.Int32\n",
        )
    )
    INVALID = cases(
        lambda: (
            Invalid(
                "from __future__ import annotations\nimport flydsl.expr as fx\n@fx.struct\nclass S:\n    a: fx.Int32\n",
                lines=(1,),
            ),
        )
    )

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield the future import where a struct needs real annotations."""
        if context.framework.name != "flydsl":
            return
        for node in context.module.scopes.of_type(ast.ImportFrom):
            if node.module == "__future__" and any(a.name == "annotations" for a in node.names):
                struct = self._struct(context)
                if struct:
                    message = (
                        f"annotations become strings here: `@fx.struct` cannot read the fields of `{struct}`"
                    )
                    yield Finding(node, message, "remove the import")

    def _struct(self, context: Context) -> str | None:
        for cls in context.module.scopes.of_type(ast.ClassDef):
            for decorator in cls.decorator_list:
                target = decorator.func if isinstance(decorator, ast.Call) else decorator
                if any(Qual(name) in context.module.values.of(target) for name in _DECORATORS):
                    return cls.name
        return None
