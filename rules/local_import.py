"""KL104."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator

from kernel_lint.diagnostics import Severity
from kernel_lint.rule import Context, Finding, Invalid, Rule, Valid, cases
from kernel_lint.rules._modules import ALLOWED, CLAIMED
from kernel_lint.rules._paths import outermost, shown
from kernel_lint.source.domain import Qual, constants

_LOADERS = {
    "importlib.util": "builds a module from a file",
    "importlib.machinery": "builds a module from a file",
    "importlib.abc": "hooks into the import system",
    "importlib.reload": "loads a module again",
    "runpy": "runs another file",
    "imp": "loads a module from a file",
    "zipimport": "loads a module from an archive",
    "sys.path": "edits or reads where modules are found",
    "sys.meta_path": "hooks into the import system",
    "sys.path_hooks": "hooks into the import system",
    "sys.path_importer_cache": "hooks into the import system",
    "site.addsitedir": "edits where modules are found",
    "pkgutil": "searches for modules or data files",
    "modulefinder": "searches for modules",
    "code": "runs text as code",
    "codeop": "runs text as code",
    "types.ModuleType": "makes up a module",
}
_IMPORTERS = ("importlib.import_module", "builtins.__import__")


class LocalImport(Rule):
    """
    ## What it does
    Finds imports of anything but the standard library, PyTorch, NumPy and the kernel language: relative imports,
    modules beside the file, unknown packages, edits of `sys.path`, and modules loaded from files by `importlib`,
    `runpy` or `zipimport`.

    ## Why is this bad?
    The evaluator copies one file into an empty directory. An import of a helper that lay beside it fails there, and
    the candidate scores nothing.

    ## What is allowed
    The standard library, `torch`, `numpy`, `flydsl` (or the chosen language), `importlib.metadata`, and what
    `allowed-imports` names in the configuration. In a development file that defines no model, modules that lie in the
    same workspace are fine: they are reported as information only, because packaging will inline them.

    ## How to fix it
    Run `kernel-lint package` on the workspace's entry: it inlines what is imported.

    ## Example
    ```python
    from .ops import load_row
    ```

    ## References
    - Contract clauses F3 (one self-contained module) and F8.
    """

    code = "KL104"
    name = "local-import"
    clauses = ("F3", "F8")
    VALID = cases(
        lambda: (
            "import functools, math\nfrom typing import Optional\n",
            "from flydsl.expr import arith, gpu\n",
            "from __future__ import annotations\n",
            "from importlib.metadata import version\nV = version('torch')\n",
            "import torch.nn.functional as F\nimport numpy as np\n",
            "import importlib\nm = importlib.import_module('torch')\n",
            Valid("import einops_like\n", options={"allowed_imports": ("einops_like",)}),
        )
    )
    INVALID = cases(
        lambda: (
            Invalid("from .kernels import helper\n", lines=(1,)),
            Invalid("from . import helper\n", lines=(1,)),
            Invalid("import my_gemm_kernels\n", lines=(1,)),
            Invalid("def f():\n    import scale_helper\n    return scale_helper\n", lines=(2,)),
            Invalid("import importlib\nh = importlib.import_module('helper_lib')\n", lines=(2,)),
            Invalid(
                "import importlib.util\ns = importlib.util.spec_from_file_location('h', 'h.py')\n",
                lines=(1, 2),
            ),
            Invalid("from importlib.machinery import SourceFileLoader\n", lines=(1,)),
            Invalid("import zipimport\n", lines=(1,)),
            Invalid("import sys\nsys.path.insert(0, '.')\n", lines=(2,)),
            Invalid("h = __import__('help' + 'er')\n", lines=(1,)),
            Invalid("import importlib\ndef f(n):\n    return importlib.import_module(n)\n", lines=(3,)),
            Invalid("import runpy\nrunpy.run_path('x.py')\n", lines=(1, 2)),
            Invalid("try:\n    import helper\nexcept ImportError:\n    helper = None\n", lines=(2,)),
            Invalid("import os\nos.sys.path.append('..')\n", lines=(2,)),
        )
    )

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield imports that a file alone in a directory cannot make."""
        yield from self._statements(context)
        references = context.module.references
        for reference in outermost(context, references.below(_LOADERS)):
            root = next(
                root for root in _LOADERS if reference.path == root or reference.path.startswith(root)
            )
            yield Finding(reference.node, f"`{shown(reference.path)}` {_LOADERS[root]}", _ALONE)
        for call in context.module.survey.calls_of(_IMPORTERS):
            yield from self._dynamic(context, call)

    def _statements(self, context: Context) -> Iterator[Finding]:
        for node in context.module.scopes.of_type(ast.ImportFrom):
            if not node.level:
                yield from self._named(context, node, node.module or "")
            elif self._in_workspace(context, node.level, node.module or ""):
                yield self._local(context, node, "." * node.level + (node.module or ""))
            else:
                yield Finding(node, "a relative import needs files beside this one", _PACKAGE)
        for statement in context.module.scopes.of_type(ast.Import):
            for alias in statement.names:
                yield from self._named(context, alias, alias.name)

    def _named(self, context: Context, where: ast.AST, name: str) -> Iterator[Finding]:
        if is_allowed(context, name):
            return
        if self._in_workspace(context, 0, name):
            yield self._local(context, where, name)
        else:
            yield Finding(
                where, f"`{name}` is neither standard library, PyTorch nor {context.framework.title}", _ALONE
            )

    def _local(self, context: Context, where: ast.AST, name: str) -> Finding:
        if context.final:
            return Finding(
                where,
                f"`{name}` is a file of the workspace: it is not there when this one runs alone",
                _PACKAGE,
            )
        message = f"`{name}` is a file of the workspace: packaging will inline it"
        return Finding(where, message, _PACKAGE, severity=Severity.INFO)

    def _in_workspace(self, context: Context, level: int, name: str) -> bool:
        """Tell whether a module lies beside a development file (or where its package begins)."""
        module = context.module
        path = os.path.abspath(module.path)
        if context.final or module.neighbour(path) != "file":
            return False
        folder = os.path.dirname(path)
        roots = [os.path.normpath(os.path.join(folder, *[".."] * (level - 1)))] if level else [folder]
        while not level and len(roots) < 5 and os.path.dirname(roots[-1]) != roots[-1]:
            roots.append(os.path.dirname(roots[-1]))
        parts = name.split(".") if name else []
        for root in roots:
            target = os.path.join(root, *parts)
            if module.neighbour(f"{target}.py") == "file":
                return True
            if (parts or level) and module.neighbour(target) == "directory":
                return True
        return False

    def _dynamic(self, context: Context, call: ast.Call) -> Iterator[Finding]:
        given = context.module.values.of(call.args[0]) if call.args else frozenset()
        names = [name for name in constants(given) if isinstance(name, str)]
        if not names:
            if Qual("__name__") not in given:
                yield Finding(call, "a module is imported whose name is only known at run time", _ALONE)
            return
        for name in sorted(set(names)):
            if not is_allowed(context, name):
                yield Finding(
                    call, f"`{name}` is imported by name: it is not there when the file runs alone", _ALONE
                )


def is_allowed(context: Context, name: str) -> bool:
    """Tell whether a candidate may import a module (or another rule speaks about it)."""
    root = name.partition(".")[0]
    if not root or root in context.framework.imports or root in ALLOWED or root in CLAIMED:
        return bool(root)
    if root in context.settings.allowed_imports or name in context.settings.allowed_imports:
        return True
    return root in sys.stdlib_module_names or root in ("__future__", "__main__")


_PACKAGE = "run `kernel-lint package` on the workspace's entry to inline it"
_ALONE = "keep to one file; what it needs must be in it, in PyTorch or in the kernel language"
