"""KL102."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from kernel_lint import TYPE_CHECKING
from kernel_lint.diagnostics import Fix, Severity
from kernel_lint.rule import Context, Finding, Invalid, cases
from kernel_lint.rules._edits import is_free_of_effects, removal
from kernel_lint.rules._modules import OUTPUT
from kernel_lint.rules._paths import ForbiddenPaths, shown
from kernel_lint.source.references import Reference

if TYPE_CHECKING:
    from typing import ClassVar

    from kernel_lint.frameworks import Framework

_WHY = "writes debug output"
_STOPS = "stops in a debugger"
_STREAM = "reaches the standard streams"
_PRINTERS = frozenset(
    {"builtins.print", "pprint.pprint", "pprint.pp", "builtins.breakpoint", "pdb.set_trace"}
)


class DebugOutput(ForbiddenPaths):
    """
    ## What it does
    Finds everything that prints, logs or stops in a debugger: `print`, `pprint`, `logging`, `sys.stdout`,
    `os.write`, `warnings.warn`, `breakpoint`, `pdb`, and printing from a kernel. A reference counts, not only a call:
    `map(print, xs)`.

    ## Why is this bad?
    Output costs time in the measured path, a print in a kernel serialises it, a debugger hangs the evaluator,
    and the contract forbids debug prints.

    ## What is allowed
    Exceptions with a message, a method or variable of your own that happens to be called `write` or `print`.

    ## How to fix it
    Remove the statement. Where a condition must be reported, raise an exception.

    ## Example
    ```python
    def forward(self, x):
        print("shape", x.shape)
    ```

    ## Fix safety
    Removing a statement that only prints is safe when its arguments call nothing; otherwise the fix is unsafe.

    ## References
    - Contract clause X2: no debug prints.
    - FlyDSL: `fx.printf` is the printing operation of a kernel.
    """

    code = "KL102"
    name = "debug-output"
    clauses = ("X2",)
    FORBIDDEN: ClassVar[Mapping[str, str]] = {
        "builtins.print": _WHY,
        "builtins.breakpoint": _STOPS,
        "builtins.help": _WHY,
        "builtins.input": "waits for input",
        "sys.stdout": _STREAM,
        "sys.stderr": _STREAM,
        "sys.__stdout__": _STREAM,
        "sys.__stderr__": _STREAM,
        "sys.displayhook": _STREAM,
        "sys.breakpointhook": _STOPS,
        "os.write": _WHY,
        "os.writev": _WHY,
        "os.fdopen": _WHY,
        "bdb": _STOPS,
        "code.interact": _STOPS,
        "faulthandler": _WHY,
        "syslog": _WHY,
        "reprlib": _WHY,
        "traceback.print_exc": _WHY,
        "traceback.print_exception": _WHY,
        "traceback.print_stack": _WHY,
        "traceback.print_tb": _WHY,
        "warnings.warn": "prints a warning",
        "warnings.warn_explicit": "prints a warning",
        "warnings.showwarning": "prints a warning",
        "torch._logging": _WHY,
        "torch.utils.tensorboard": _WHY,
        **dict.fromkeys(sorted(OUTPUT), _WHY),
    }
    HELP = "remove it; where something is wrong, raise an exception instead"
    VALID = cases(
        lambda: (
            "TEXT = 'print(x)'\n",
            "class W:\n    def write(self, s):\n        self.s = s\n\nW().write('a')\n",
            "def f(x, print=None):\n    return x if print is None else print\n",
            "def f(x):\n    if x < 0:\n        raise ValueError(f'negative: {x}')\n",
            "import os\nsep = os.sep\n",
            "import warnings\nwarnings.simplefilter('ignore')\n",
        )
    )
    INVALID = cases(
        lambda: (
            Invalid("x = 1\nprint(x)\n", lines=(2,), fixed="x = 1\n"),
            Invalid("def f(x):\n    print(x)\n", lines=(2,), fixed="def f(x):\n    pass\n"),
            Invalid("import sys\nsys.stdout.write('a')\n", lines=(2,)),
            Invalid("import logging\nlogging.info('x')\n", lines=(1, 2)),
            Invalid("from pprint import pprint\npprint(1)\n", lines=(1,)),
            Invalid("import pdb\npdb.set_trace()\n", lines=(1, 2)),
            Invalid("breakpoint()\n", lines=(1,), fixed=""),
            Invalid("list(map(print, [1]))\n", lines=(1,)),
            Invalid("p = print\np(1)\n", lines=(1,)),
            Invalid("import builtins\ngetattr(builtins, 'pr' + 'int')(1)\n", lines=(2,)),
            Invalid("import os\nos.write(1, b'x')\n", lines=(2,)),
            Invalid("import flydsl.expr as fx\ndef k(i):\n    fx.printf('{}', i)\n", lines=(3,)),
            Invalid("exec('print(1)')\n", lines=(1,)),
            Invalid("__builtins__.print(1)\n", lines=(1,)),
            Invalid("globals()['print'](1)\n", lines=(1,)),
            Invalid("__import__('sys').stderr.write('x')\n", lines=(1,)),
            Invalid("import warnings\nwarnings.warn('slow')\n", lines=(2,)),
        )
    )

    @classmethod
    def table(cls, framework: Framework) -> Mapping[str, str]:
        """Add the printing operations of the kernel language."""
        return {
            **cls.FORBIDDEN,
            **dict.fromkeys(framework.printers, "prints from a kernel, which serialises it"),
        }

    def finding(self, context: Context, reference: Reference, why: str) -> Finding | None:
        """Offer to remove the statement where the whole statement is the output."""
        severity = Severity.WARNING if why == "prints a warning" else None
        message = f"`{shown(reference.path)}` {why}"
        return Finding(reference.node, message, self.HELP, self._fix(context, reference), severity)

    def _fix(self, context: Context, reference: Reference) -> Fix | None:
        scopes = context.module.scopes
        call = scopes.parent.get(reference.node)
        if not isinstance(call, ast.Call) or call.func is not reference.node:
            return None
        statement = scopes.parent.get(call)
        direct = reference.path in _PRINTERS or reference.path in context.framework.printers
        if not direct or not isinstance(statement, ast.Expr):
            return None
        arguments = [*call.args, *(k.value for k in call.keywords)]
        return removal(context.module, statement, "the output", safe=all(map(is_free_of_effects, arguments)))
