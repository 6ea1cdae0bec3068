"""KL110."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator

from kernel_lint.diagnostics import Severity
from kernel_lint.rule import Context, Finding, Invalid, Rule, Valid, cases
from kernel_lint.rules._samples import candidate
from kernel_lint.source.domain import constants
from kernel_lint.source.scopes import BindingKind

_EVALUATOR = frozenset({"_make_inputs", "get_inputs", "get_init_inputs"})
_TABLE_KEYS = frozenset({"init_kwargs", "input_kwargs"})
_EVALUATORS_FILES = frozenset({"input.py", "reference.py"})
_SETTERS = ("builtins.setattr", "builtins.object.__setattr__")


class InputRedefinition(Rule):
    """
    ## What it does
    Finds what belongs to the evaluator: a definition of `_make_inputs`, `get_inputs` or `get_init_inputs`, and copies
    of `shapes.json` (tables with `init_kwargs` and `input_kwargs`).

    ## Why is this bad?
    The evaluator makes its own inputs. A redefinition would replace them where the file is imported into the same
    process, and a copy of the shapes only serves answers that are keyed on them.

    ## What is allowed
    Helpers with names of their own (`make_inputs_contiguous`), a table of tile sizes keyed on shapes, a parameter called
    `input_kwargs`, the evaluator's own `input.py` and `reference.py`.

    ## How to fix it
    Remove it. Test inputs belong into a test file beside the kernel.

    ## Example
    ```python
    def _make_inputs(n):
        return {"x": torch.randn(n)}
    ```

    ## References
    - Contract clauses X8 (no external data of the evaluator) and X9 (no redefinition of `_make_inputs`).
    - KernelBench's reference files define `get_inputs` and `get_init_inputs`.
    """

    code = "KL110"
    name = "input-redefinition"
    clauses = ("X8", "X9")
    VALID = cases(
        lambda: (
            candidate(),
            "def make_inputs_contiguous(x):\n    return x.contiguous()\n",
            "TILES = {(128, 256): (64, 128)}\n",
            "def f(init_kwargs, input_kwargs):\n    return {**init_kwargs, **input_kwargs}\n",
            "TEXT = 'get_inputs'\n",
            "MESSAGE = 'init_kwargs and input_kwargs must agree'\n",
            "def f(module):\n    return module.get_inputs\n",
            "CONFIG = {'input_kwargs': 1}\n",
            Valid("def _make_inputs(n):\n    return {'x': n}\n", filename="input.py"),
        )
    )
    INVALID = cases(
        lambda: (
            Invalid("def _make_inputs(n):\n    return {'x': n}\n", lines=(1,)),
            Invalid("def get_inputs():\n    return []\n", lines=(1,)),
            Invalid("get_init_inputs = lambda: []\n", lines=(1,)),
            Invalid("from helper import make as _make_inputs\n", lines=(1,)),
            Invalid("from input import _make_inputs\n", lines=(1,)),
            Invalid("import input as i\nf = i._make_inputs\n", lines=(2,)),
            Invalid("def f():\n    global get_inputs\n    get_inputs = f\n", lines=(3,)),
            Invalid("globals()['_make_inputs'] = len\n", lines=(1,)),
            Invalid("globals().update(_make_inputs=len)\n", lines=(1,)),
            Invalid("import sys\nsetattr(sys.modules[__name__], '_make' + '_inputs', len)\n", lines=(2,)),
            Invalid("exec('def get_inputs():\\n    return []')\n", lines=(1,)),
            Invalid("class Model:\n    def _make_inputs(self):\n        return {}\n", lines=(2,)),
            Invalid("S = {'1': {'init_kwargs': {'dim': 4}, 'input_kwargs': {'n': 8}}}\n", lines=(1,)),
            Invalid("S = [dict(init_kwargs={}, input_kwargs={'n': 8})]\n", lines=(1,)),
            Invalid('S = \'{"1": {"init_kwargs": {}, "input_kwargs": {}}}\'\n', lines=(1,)),
            Invalid("a, b = 'init_kwargs', 'input_kwargs'\nS = {a: {}, b: {}}\n", lines=(2,)),
        )
    )

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield bindings of the evaluator's names, then copies of its shapes."""
        if os.path.basename(context.module.path) in _EVALUATORS_FILES:
            return
        yield from self._bindings(context)
        yield from self._stores(context)
        yield from self._tables(context)

    def _bindings(self, context: Context) -> Iterator[Finding]:
        # Asking for the values first adds the text of ``exec`` to the scopes.
        scopes = context.module.values.scopes
        for scope in list(scopes.inner.values()):
            for name in _EVALUATOR & scope.bindings.keys():
                for binding in scope.bindings[name]:
                    if binding.kind is not BindingKind.PARAMETER:
                        inside = scope is not scopes.module
                        yield Finding(binding.node, f"`{name}` belongs to the evaluator", _HELP,
                                      severity=Severity.WARNING if inside else None)  # fmt: skip
        for name in _EVALUATOR:
            for reference in context.module.references.below((f"input.{name}", f"reference.{name}")):
                if isinstance(reference.node, ast.expr):
                    yield Finding(reference.node, f"`{name}` belongs to the evaluator", _HELP)

    def _stores(self, context: Context) -> Iterator[Finding]:
        """Names put into the module's namespace by item, by method or by ``setattr``."""
        for store in context.module.scopes.of_type(ast.Subscript):
            if isinstance(store.ctx, ast.Store) and _EVALUATOR & _texts(context, store.slice):
                yield Finding(store, "a function of the evaluator is put in place", _HELP)
        for name in _EVALUATOR & context.module.scopes.attribute_stores.keys():
            for target, _ in context.module.scopes.attribute_stores[name]:
                yield Finding(target, f"`{name}` belongs to the evaluator", _HELP, severity=Severity.WARNING)
        for call in context.module.values.sites.calls_named("update"):
            named = {keyword.arg for keyword in call.keywords} & _EVALUATOR
            for given in call.args:
                if isinstance(given, ast.Dict):
                    named |= {
                        text for key in given.keys if key is not None for text in _texts(context, key)
                    } & _EVALUATOR
            if named and isinstance(call.func, ast.Attribute):
                yield Finding(call, "a function of the evaluator is put in place", _HELP)
        for call in context.module.survey.calls_of(_SETTERS):
            if len(call.args) >= 2 and _EVALUATOR & _texts(context, call.args[1]):
                yield Finding(call, "a function of the evaluator is put in place", _HELP)

    def _tables(self, context: Context) -> Iterator[Finding]:
        nodes = context.module.scopes.nodes
        found: list[ast.expr] = []
        for node in nodes.get(ast.Dict, ()):
            assert isinstance(node, ast.Dict)
            keys = {text for key in node.keys if key is not None for text in _texts(context, key)}
            if keys >= _TABLE_KEYS:
                found.append(node)
        for call in context.module.survey.calls_of(("builtins.dict",)):
            if {keyword.arg for keyword in call.keywords} >= _TABLE_KEYS:
                found.append(call)
        for constant in context.module.scopes.texts:
            if (
                isinstance(constant.value, str)
                and all(key in constant.value for key in _TABLE_KEYS)
                and _is_json(constant.value)
            ):
                found.append(constant)
        seen: set[ast.AST | None] = set()
        for node in found:
            statement = context.module.scopes.statement(node)
            if statement not in seen:
                seen.add(statement)
                yield Finding(
                    node,
                    "a copy of the evaluator's shapes",
                    "remove it; choose tiles from the sizes of the input",
                )


def _texts(context: Context, node: ast.expr) -> frozenset[str]:
    if isinstance(node, ast.Slice):
        return frozenset()
    return frozenset(text for text in constants(context.module.values.of(node)) if isinstance(text, str))


def _is_json(text: str) -> bool:
    import json

    try:
        return isinstance(json.loads(text), (dict, list))
    except ValueError:
        return False


_HELP = "remove it; the evaluator makes its own inputs"
