"""KL205."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernel_lint import TYPE_CHECKING
from kernel_lint.diagnostics import Span
from kernel_lint.rule import Context, Finding, Invalid, Rule, cases
from kernel_lint.source.module import SourceModule
from kernel_lint.source.names import BUILTIN_NAMES, MODULE_DUNDERS
from kernel_lint.source.scopes import BindingKind, Scope, ScopeTable

if TYPE_CHECKING:
    from typing import Any

_EXTRA = frozenset({"__class__", "__module__", "__qualname__", "__debug__", "WindowsError"})


class UndefinedName(Rule):
    """
    ## What it does
    Finds names that are used and that nothing binds: a missing import, a helper left behind in another file, a typing
    error.

    ## Why is this bad?
    The name raises `NameError` when that line runs, often only at the one shape that takes the path.

    ## What is allowed
    Builtins, names that a star import may bring, names bound on any path.

    ## How to fix it
    Import or define the name. After packaging, a missing helper means that its file was outside the roots.

    ## Example
    ```python
    class Model(nn.Module):  # torch.nn was never imported
        pass
    ```

    ## References
    - Contract clause F4: the file includes every import that it needs.
    - pyflakes, whose scope analysis decides.
    """

    code = "KL205"
    name = "undefined-name"
    clauses = ("F4",)
    VALID = cases(
        lambda: (
            "import math\nx = math.pi\n",
            "def f():\n    return g()\n\ndef g():\n    return 1\n",
            "x = [i for i in range(3)]\n",
            "try:\n    import numpy\nexcept ImportError:\n    numpy = None\n",
            "class A:\n    x = 1\n    y = x\n",
            "from math import *\nx = pi\n",
            "def f(x):\n    match x:\n        case [a, *b]:\n            return a, b\n",
            "print(__name__, __file__)\n",
            "class A:\n    def f(self):\n        return __class__\n",
            "def f():\n    global N\n    N = 1\n\ndef g():\n    return N\n",
        )
    )
    INVALID = cases(
        lambda: (
            Invalid("x = math.pi\n", lines=(1,)),
            Invalid("def f():\n    return helper(1)\n", lines=(2,)),
            Invalid("class Model(nn.Module):\n    pass\n", lines=(1,)),
            Invalid("def f(x: Tensr) -> int:\n    return 1\n", lines=(1,)),
            Invalid("def f():\n    x = 1\n    del x\n    return x\n", lines=(4,)),
            Invalid("__all__ = ['missing']\n", lines=(1,)),
            Invalid("class A:\n    x = 1\n    def f(self):\n        return x\n", lines=(4,)),
        )
    )

    def check(self, context: Context) -> Iterator[Finding]:
        """Ask pyflakes, but only where a cheap look finds something to ask about."""
        module = context.module
        if not _suspicious(module):
            return
        from pyflakes import checker, messages

        results: Any = checker.Checker(module.tree, filename=module.path)
        kinds = (messages.UndefinedName, messages.UndefinedLocal, messages.UndefinedExport)
        for message in sorted(results.messages, key=lambda m: (m.lineno, m.col)):
            if isinstance(message, kinds):
                column = module.column(message.lineno, message.col)
                name = str(message.message_args[0])
                span = Span(message.lineno, column, message.lineno, column + len(name))
                yield Finding(
                    span,
                    f"`{name}` is used and never defined or imported",
                    "import it, define it, or correct its spelling",
                )


def _suspicious(module: SourceModule) -> bool:
    """Tell whether any name could be undefined; only then is pyflakes worth its time."""
    scopes = module.scopes
    if scopes.nodes.get(ast.Delete) or not _exports_are_bound(scopes.module):
        return True
    if any(reads and not _is_given(name) for name, reads in module.survey.unbound.items()):
        return True
    return any(_is_annotation(scopes, text) for text in scopes.texts)


def _exports_are_bound(module: Scope) -> bool:
    """Tell whether ``__all__`` is not there, or plainly lists names that the module binds."""
    exports = module.bindings.get("__all__", ())
    if not exports:
        return True
    listed = exports[0].value if len(exports) == 1 and exports[0].kind is BindingKind.ASSIGN else None
    if not isinstance(listed, (ast.List, ast.Tuple)) or exports[0].path:
        return False
    return all(isinstance(name, ast.Constant) and name.value in module.bindings for name in listed.elts)


def _is_annotation(scopes: ScopeTable, text: ast.Constant) -> bool:
    return isinstance(scopes.parent.get(text), ast.arg) and isinstance(text.value, str)


def _is_given(name: str) -> bool:
    return name in BUILTIN_NAMES or name in MODULE_DUNDERS or name in _EXTRA
