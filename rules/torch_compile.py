"""KL103."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from kernel_lint import TYPE_CHECKING
from kernel_lint.rule import Context, Finding, Invalid, cases
from kernel_lint.rules._paths import ForbiddenPaths
from kernel_lint.structural import matches

if TYPE_CHECKING:
    from typing import ClassVar

_COMPILER = "hands the work to PyTorch's compiler"
_SCRIPT = "hands the work to TorchScript"
_HINTS = ("torch.compile(", "torch.jit.")


class TorchCompile(ForbiddenPaths):
    """
    ## What it does
    Finds `torch.compile`, TorchScript (`torch.jit`) and their inner parts (`torch._dynamo`, `torch._inductor`), under
    any alias, and `Module.compile()`.

    ## Why is this bad?
    The task is to write the kernel. Code that another compiler writes at run time is not a FlyDSL kernel, and it
    falls back to eager PyTorch without a word when it cannot compile.

    ## What is allowed
    `flyc.compile`, `flyc.jit`, `re.compile`, `torch.compiler.is_compiling()`, a function of your own with
    `compile` in its name.

    ## How to fix it
    Launch the kernel directly from `Model.forward`; let FlyDSL compile it.

    ## Example
    ```python
    post = torch.compile(lambda t: t.relu())
    ```

    ## References
    - Contract clause P4: no `torch.compile`, no `torch.jit`.
    """

    code = "KL103"
    name = "torch-compile"
    clauses = ("P4",)
    FORBIDDEN: ClassVar[Mapping[str, str]] = {
        "torch.compile": _COMPILER,
        "torch._dynamo": _COMPILER,
        "torch._inductor": _COMPILER,
        "torch._functorch": _COMPILER,
        "torch.compiler": _COMPILER,
        "torch.fx": _COMPILER,
        "torch.export": _COMPILER,
        "torch._export": _COMPILER,
        "torch.onnx": _COMPILER,
        "functorch.compile": _COMPILER,
        "torch.jit": _SCRIPT,
        "torch._C._jit_script_compile": _SCRIPT,
        "torch.nn.Module().compile": _COMPILER,
        "torch.nn.Module.compile": _COMPILER,
        "torch.nn.Sequential().compile": _COMPILER,
    }
    ALLOWED = frozenset(
        {"torch.compiler.is_compiling", "torch.compiler.is_dynamo_compiling", "torch.compiler.is_exporting",
         "torch.jit.is_scripting", "torch.jit.is_tracing"}
    )  # fmt: skip
    HELP = "launch the kernel directly from Model.forward"
    VALID = cases(
        lambda: (
            "import re\nP = re.compile('x')\n",
            "import flydsl.compiler as flyc\ndef f(k):\n    return flyc.compile(k)\n",
            "def compile(n):\n    return n\n\ncompile(3)\n",
            "import torch\nif torch.compiler.is_compiling():\n    raise RuntimeError('x')\n",
            "TEXT = 'torch.compile(f)'\n",
            "class T:\n    def compile(self):\n        return 1\n\nT().compile()\n",
        )
    )
    INVALID = cases(
        lambda: (
            Invalid("import torch\nf = torch.compile(lambda t: t)\n", lines=(2,)),
            Invalid(
                "import torch\n@torch.compile(mode='max-autotune')\ndef f(t):\n    return t\n", lines=(2,)
            ),
            Invalid("import torch as th\nf = th.compile(lambda t: t)\n", lines=(2,)),
            Invalid("import torch\nf = getattr(torch, 'com' + 'pile')(lambda t: t)\n", lines=(2,)),
            Invalid("import torch\n@torch.jit.script\ndef f(t):\n    return t\n", lines=(2,)),
            Invalid("import torch._dynamo as dyn\nf = dyn.optimize('inductor')(id)\n", lines=(1, 2)),
            Invalid("from torch import compile as c\nf = c(id)\n", lines=(1,)),
            Invalid("import sys, torch\nf = sys.modules['torch'].compile\n", lines=(2,)),
            Invalid("import torch\nf = torch.__dict__['compile']\n", lines=(2,)),
            Invalid("import torch, operator\nf = operator.attrgetter('compile')(torch)\n", lines=(2,)),
            Invalid(
                "import torch.nn as nn\nclass Model(nn.Module):\n    def f(self):\n        self.compile()\n",
                lines=(4,),
            ),
            Invalid(
                "import torch, functools\nf = functools.partial(getattr, torch)('compile')\n", lines=(2,)
            ),
        )
    )

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield the forbidden paths, and what only the structural rule sees."""
        lines = set()
        for finding in super().check(context):
            assert isinstance(finding.where, ast.AST)
            lines.add(context.module.span(finding.where).line)
            yield finding
        torch_is_torch = not context.module.scopes.module.lookup("torch") or any(
            binding.target == "torch" for binding in context.module.scopes.module.bindings["torch"]
        )
        if torch_is_torch and any(hint in context.module.text for hint in _HINTS):
            for span in matches(context.module, "torch-compile"):
                if span.line not in lines:
                    yield Finding(span, f"`torch.compile` {_COMPILER}", self.HELP)
