"""KL201."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernel_lint.diagnostics import Span
from kernel_lint.rule import Context, Finding, Invalid, Rule, Valid, cases
from kernel_lint.rules._places import header
from kernel_lint.rules._samples import candidate
from kernel_lint.source import members
from kernel_lint.source.domain import Class, Const, Container, Func, Instance, Qual
from kernel_lint.source.scopes import FunctionNode, walk
from kernel_lint.task import Signature, TaskFiles, signature_of

_MODULE_BASES = ("torch.nn.Module", "torch.nn.")
_EVALUATOR = ("_make_inputs", "get_inputs", "get_init_inputs")


class ModelContract(Rule):
    """
    ## What it does
    Checks that the file defines `class Model(nn.Module)` at module level with a `forward` that names its inputs and
    returns tensors, and that it leaves the evaluator's own functions alone. With `--reference`, the parameters of
    `__init__` and `forward` are compared with the reference's and with the keys that `_make_inputs` returns.

    ## Why is this bad?
    The evaluator does `Model(**init_kwargs)(**inputs)`. A missing class, another method name or another parameter name
    fails before any kernel runs; a list where the reference gives a tensor fails the comparison.

    ## What is allowed
    Any spelling of `torch.nn.Module`, a base class of your own that derives from it, further classes, a dict or tuple of
    tensors where the reference gives one. A development file without a model is not a candidate.

    ## How to fix it
    Define `class Model(nn.Module)` with the reference's parameters, in its order and with its names.

    ## Example
    ```python
    class Model(nn.Module):
        def run(self, x):
            ...
    ```

    ## Use instead
    ```python
    class Model(nn.Module):
        def forward(self, x):
            ...
    ```

    ## References
    - Contract clauses F5, F6, F7, X9.
    """

    code = "KL201"
    name = "model-contract"
    clauses = ("F5", "F6", "F7", "X9")
    VALID = cases(
        lambda: (
            candidate(),
            candidate().replace("nn.Module", "torch.nn.Module"),
            candidate().replace("return y", "return {'y': y}"),
            candidate(before="y = y if out is None else out").replace(
                "forward(self, x)", "forward(self, x, *, out=None)"
            ),
            candidate(top="class ModelConfig:\n    dim = 4\n\n"),
            candidate(top="class Base(nn.Module):\n    pass\n\n").replace("Model(nn.Module)", "Model(Base)"),
            Valid("import torch\n\ndef tile(n):\n    return n // 16\n", filename="ops.py"),
        )
    )
    INVALID = cases(
        lambda: (
            Invalid("x = 1\n", lines=(1,)),
            Invalid(candidate() + "\ndel Model\n"),
            Invalid("", lines=(1,)),
            Invalid(candidate().replace("class Model", "class Net")),
            Invalid(candidate().replace("def forward", "def run")),
            Invalid(candidate() + "\n\nModel = None\n"),
            Invalid(candidate().replace("import torch.nn as nn\n", "")),
            Invalid(candidate().replace("Model(nn.Module)", "Model")),
            Invalid(candidate().replace("return y", "return [y]")),
            Invalid(candidate().replace("        return y\n", "")),
            Invalid(
                candidate().replace("forward(self, x)", "forward(self, *args)").replace("(x", "(args[0]")
            ),
            Invalid(candidate().replace("forward(self, x)", "forward(self, **kw)").replace("(x", "(kw['x']")),
            Invalid(candidate().replace("        super().__init__()\n", "")),
            Invalid(candidate() + "\n\ndef _make_inputs(n):\n    return {'x': torch.randn(n)}\n"),
            Invalid(
                "import torch.nn as nn\n\ndef make():\n    class Model(nn.Module):\n        def forward(self, x):\n            return x\n    return Model\n"
            ),
        )
    )

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield what the evaluator would stumble over."""
        if not context.candidate:
            return
        yield from self._evaluator_names(context)
        scope = context.module.scopes.module
        values = context.module.values.name("Model", scope) if "Model" in scope.bindings else frozenset()
        model = context.module.flow.model
        if model is None:
            yield self._missing(context)
            return
        others = [b for b in scope.bindings["Model"] if b.node is not model]
        if len(values) > 1 or others:
            where = max((b.node for b in others), key=lambda node: getattr(node, "lineno", 0), default=model)
            yield Finding(
                where,
                "`Model` is bound more than once: which one counts depends on the order",
                "define Model once",
            )
        for name in scope.names.get("Model", ()):
            if isinstance(name.ctx, ast.Del):
                yield Finding(name, "`Model` is deleted: the evaluator cannot build it", "keep it")
        yield from self._bases(context, model)
        yield from self._init(context, model)
        yield from self._forward(context, model)

    def _evaluator_names(self, context: Context) -> Iterator[Finding]:
        for name in _EVALUATOR:
            for binding in context.module.scopes.module.bindings.get(name, ()):
                message = f"`{name}` belongs to the evaluator: the candidate must not define it"
                yield Finding(
                    header(context.module, binding.node), message, "remove it; the evaluator makes the inputs"
                )

    def _missing(self, context: Context) -> Finding:
        nodes = context.module.scopes.nodes.get(ast.ClassDef, [])
        inner = [n for n in nodes if isinstance(n, ast.ClassDef) and n.name == "Model"]
        if inner:
            return Finding(
                header(context.module, inner[0]),
                "`Model` is not defined at module level",
                "move the class to module level",
            )
        modules = [n for n in nodes if isinstance(n, ast.ClassDef) and self._is_module(context, n)]
        where: ast.AST | Span = header(context.module, modules[-1]) if modules else Span(1, 1, 1, 1)
        hint = (
            f"rename `{modules[-1].name}` to Model"
            if modules
            else "define class Model(nn.Module) at module level"
        )
        return Finding(where, "the file defines no class `Model`: the evaluator cannot build it", hint)

    def _is_module(self, context: Context, cls: ast.ClassDef, depth: int = 0) -> bool:
        for base in members.bases(context.module.values, cls):
            if isinstance(base, Qual) and base.name.startswith(_MODULE_BASES):
                return True
            if isinstance(base, Class) and depth < 12 and self._is_module(context, base.node, depth + 1):
                return True
        return False

    def _bases(self, context: Context, model: ast.ClassDef) -> Iterator[Finding]:
        if not self._is_module(context, model):
            known = ", ".join(ast.unparse(base) for base in model.bases) or "nothing"
            message = f"`Model` derives from {known}, which is not torch.nn.Module as far as the file tells"
            yield Finding(
                header(context.module, model),
                message,
                "write class Model(nn.Module) and import torch.nn as nn",
            )

    def _init(self, context: Context, model: ast.ClassDef) -> Iterator[Finding]:
        init = _own_method(model, "__init__")
        if init is None:
            return
        if not _calls_super(init):
            yield Finding(header(context.module, init), "`__init__` never calls super().__init__(): parameters cannot be assigned",
                          "call super().__init__() first")  # fmt: skip
        task = context.task
        if task is not None and task.init is not None:
            yield from self._compare(context, init, signature_of(init), task.init, "the reference's __init__")

    def _forward(self, context: Context, model: ast.ClassDef) -> Iterator[Finding]:
        found = members.instance_attribute(context.module.values, Instance(model), "forward")
        functions = [v.node for v in found if isinstance(v, Func)]
        if not functions:
            yield Finding(header(context.module, model), "`Model` has no `forward`: calling it raises NotImplementedError",
                          "name the method that computes the output forward")  # fmt: skip
            return
        for function in functions:
            if isinstance(function, ast.Lambda):
                continue
            signature = signature_of(function)
            if signature.positional_variadic or signature.keyword_variadic:
                swallowed = "*args" if signature.positional_variadic else "**kwargs"
                yield Finding(header(context.module, function), f"`forward` takes {swallowed}: its parameters must be the input names",
                              "name each input as a parameter")  # fmt: skip
            elif context.task is not None:
                yield from self._inputs(context, function, signature, context.task)
            yield from self._returns(context, function)

    def _inputs(
        self, context: Context, function: FunctionNode, given: Signature, task: TaskFiles
    ) -> Iterator[Finding]:
        if task.input_keys is not None:
            wanted = Signature(task.input_keys, frozenset(task.input_keys), False, False)
            yield from self._compare(context, function, given, wanted, "the keys of _make_inputs")
        elif task.forward is not None:
            yield from self._compare(context, function, given, task.forward, "the reference's forward")

    def _compare(
        self, context: Context, where: FunctionNode, given: Signature, wanted: Signature, what: str
    ) -> Iterator[Finding]:
        if wanted.keyword_variadic:
            return
        lacking = [] if given.keyword_variadic else [name for name in wanted.names if name not in given.names]
        excess = sorted(given.required - set(wanted.names))
        if lacking or excess:
            parts = ([f"lacks {', '.join(lacking)}"] if lacking else []) + (
                [f"requires {', '.join(excess)}"] if excess else []
            )
            order = ", ".join(wanted.names)
            yield Finding(header(context.module, where), f"the signature differs from {what}: it {' and '.join(parts)}",
                          f"take exactly ({order})")  # fmt: skip

    def _returns(
        self, context: Context, function: ast.FunctionDef | ast.AsyncFunctionDef
    ) -> Iterator[Finding]:
        returned = context.module.values.sites.returns(function)
        if not returned:
            yield Finding(header(context.module, function), "`forward` returns nothing", "return the output")
        for expression in returned:
            found = context.module.values.of(expression)
            for value in found:
                if value == Const(None) and len(found) > 1 and _may_be_left_out(function):
                    # ``return out`` where out is an optional buffer to write to.
                    continue
                if isinstance(value, Container) and isinstance(
                    value.node, (ast.List, ast.ListComp, ast.Set, ast.GeneratorExp)
                ):
                    yield Finding(expression, "`forward` returns a list: the evaluator compares tensors, tuples and dicts",
                                  "return the structure that the reference returns")  # fmt: skip
                elif isinstance(value, Const) and not isinstance(value.value, tuple):
                    yield Finding(
                        expression,
                        f"`forward` returns {value.value!r}, which is no tensor",
                        "return the output",
                    )


def _own_method(model: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    found = [n for n in model.body if isinstance(n, ast.FunctionDef) and n.name == name]
    return found[-1] if found else None


def _may_be_left_out(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Tell whether a parameter is None when the caller gives nothing."""
    defaults = [*function.args.defaults, *function.args.kw_defaults]
    return any(isinstance(default, ast.Constant) and default.value is None for default in defaults)


def _calls_super(init: ast.FunctionDef) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == "__init__" for node in walk(init))
