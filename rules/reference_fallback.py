"""KL301."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator

from kernel_lint.rule import Context, Finding, Invalid, Rule, cases
from kernel_lint.rules._paths import shown
from kernel_lint.rules._samples import candidate
from kernel_lint.source.compute import compute_places
from kernel_lint.source.domain import Class, Const, Func, Instance, Qual, constants
from kernel_lint.source.launch_paths import walk_evaluated
from kernel_lint.source.launches import Launches
from kernel_lint.source.names import under
from kernel_lint.source.scopes import walk

_LAUNCH = "_double(x, y, x.numel(), stream=torch.cuda.current_stream())"
_EVALUATOR_MODULES = ("reference", "input", "ref", "reference_model", "golden", "baseline", "eager")
_SCANS = frozenset({"values", "items", "copy", "keys", "__iter__"})


class ReferenceFallback(Rule):
    """
    ## What it does
    Finds a second way to the result: an `except` that computes instead of the kernel or swallows its failure, a branch
    that returns what PyTorch computed, and the reference model imported, subclassed or looked up in `sys.modules`.

    ## Why is this bad?
    A fallback makes a broken kernel look right: the evaluator would time PyTorch. The contract forbids calling or
    wrapping the reference in any form.

    ## What is allowed
    `except` for a cache miss, an optional import or a device property; handlers that re-raise; `finally`; branches that
    launch another kernel of the same file.

    ## How to fix it
    Raise for inputs that the kernel cannot handle, or write the kernel that handles them.

    ## Example
    ```python
    try:
        _scale(x, y, x.numel())
    except Exception:
        y = x * 2
    ```

    ## References
    - Contract clause P3: the reference is not called, instantiated, wrapped or used as a fallback.
    """

    code = "KL301"
    name = "reference-fallback"
    clauses = ("P3",)
    VALID = cases(
        lambda: (
            candidate(),
            candidate(
                top="def _arch():\n    try:\n        return torch.cuda.get_device_properties(0).gcnArchName\n    except (AttributeError, RuntimeError):\n        return 'gfx950'\n\n",
                before="a = _arch()",
            ),
            candidate().replace(
                "        " + _LAUNCH,
                "        try:\n            " + _LAUNCH + "\n        finally:\n            self.n = 1",
            ),
            candidate().replace(
                "        " + _LAUNCH,
                "        try:\n            "
                + _LAUNCH
                + "\n        except RuntimeError as error:\n            raise ValueError('x') from error",
            ),
            candidate(top="_reference_rows = 128\n\n"),
            candidate(
                top="_B = {}\ndef _get(n):\n    try:\n        return _B[n]\n    except KeyError:\n        _B[n] = _double\n        return _B[n]\n\n"
            ).replace(_LAUNCH, "_get(1)(x, y)"),
            candidate().replace(
                "        " + _LAUNCH,
                "        if x.dtype == torch.float32:\n            "
                + _LAUNCH
                + "\n        else:\n            "
                + _LAUNCH,
            ),
            candidate(top="try:\n    import numpy\nexcept ImportError:\n    numpy = None\n\n"),
            candidate(before="if x.numel() == 0:\n    return y"),
        )
    )
    INVALID = cases(
        lambda: (
            Invalid(
                candidate().replace(
                    "        " + _LAUNCH,
                    "        try:\n            "
                    + _LAUNCH
                    + "\n        except Exception:\n            y = torch.mul(x, 2.0)",
                )
            ),
            Invalid(
                candidate().replace(
                    "        " + _LAUNCH,
                    "        try:\n            " + _LAUNCH + "\n        except Exception:\n            pass",
                )
            ),
            Invalid(
                candidate().replace(
                    "        " + _LAUNCH,
                    "        try:\n            "
                    + _LAUNCH
                    + "\n        except Exception:\n            return x.clone()",
                )
            ),
            Invalid(
                candidate(imports="import contextlib\n").replace(
                    "        " + _LAUNCH,
                    "        with contextlib.suppress(Exception):\n            " + _LAUNCH,
                )
            ),
            Invalid(candidate(imports="import reference\n", init="self.ref = reference.Model(dim)\n")),
            Invalid(candidate(imports="from reference import Model as Ref\n")),
            Invalid(
                candidate(
                    imports="import importlib\n", init="self.r = importlib.import_module('refer' + 'ence')\n"
                )
            ),
            Invalid(candidate(before="if self.dim > 1:\n    return torch.softmax(x, dim=-1)")),
            Invalid(
                candidate(
                    top="class _E(nn.Module):\n    def forward(self, x):\n        return torch.softmax(x, dim=-1)\n\n",
                    init="self.e = _E()\n",
                    before="if not x.is_contiguous():\n    return self.e(x)",
                )
            ),
            Invalid(candidate(before="y = x.softmax(-1) if self.dim > 1 else y")),
            Invalid(candidate(imports="import sys\n", init="self.r = sys.modules['reference'].Model(dim)\n")),
            Invalid(candidate(imports="import sys\n", init="self.r = [m for m in sys.modules.values()]\n")),
            Invalid(candidate(before="match x.dim():\n    case 1:\n        return x.exp()")),
        )
    )

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield uses of the reference, then second ways to the result."""
        yield from self._reference(context)
        if not context.candidate or context.module.flow.model is None:
            return
        launches = context.module.launches(context.framework)
        yield from self._handlers(context, launches)
        yield from self._suppressed(context, launches)
        yield from self._branches(context, launches)

    def _reference(self, context: Context) -> Iterator[Finding]:
        names = set(_EVALUATOR_MODULES)
        if context.settings.reference:
            names.add(os.path.splitext(os.path.basename(context.settings.reference))[0])
        for reference in context.module.references.rooted({*names, "sys"}):
            path = reference.path.lstrip(".")
            if path.partition(".")[0].partition("(")[0] in names and self._is_import(context, reference.node):
                yield Finding(reference.node, f"`{shown(path)}` is the evaluator's own module", _NO_REFERENCE)
            elif under(path, "sys.modules") and self._scans(context, reference.node):
                yield Finding(reference.node, "`sys.modules` is searched for other modules", _NO_REFERENCE)

    def _is_import(self, context: Context, node: ast.AST) -> bool:
        if isinstance(node, (ast.alias, ast.Call)):
            return True
        base = node.value if isinstance(node, (ast.Subscript, ast.Attribute)) else None
        return base is not None and any(v == Qual("sys.modules") for v in context.module.values.of(base))

    def _scans(self, context: Context, node: ast.AST) -> bool:
        if isinstance(node, ast.Attribute) and node.attr in _SCANS:
            return True
        parent = context.module.scopes.parent.get(node)
        if isinstance(parent, (ast.For, ast.comprehension)) and parent.iter is node:
            return True
        if isinstance(parent, ast.Subscript) and parent.value is node:
            keys = context.module.values.of(parent.slice)
            return not constants(keys) and Qual("__name__") not in keys
        return False

    # -- handlers -------------------------------------------------------------------

    def _handlers(self, context: Context, launches: Launches) -> Iterator[Finding]:
        for node in context.module.scopes.of_type(ast.Try):
            if not self._on_host(launches, node):
                continue
            guarded = any(self._may_launch(context, statement) for statement in node.body)
            for handler in node.handlers:
                finding = self._handler(context, launches, handler, guarded)
                if finding is not None:
                    yield finding

    def _handler(
        self, context: Context, launches: Launches, handler: ast.ExceptHandler, guarded: bool
    ) -> Finding | None:
        if _always_raises(handler.body) or any(self._may_launch(context, s) for s in handler.body):
            return None
        if self._computes(context, launches, handler):
            return Finding(_first_line(handler), "the `except` computes the result another way", _RAISE)
        if guarded:
            return Finding(
                _first_line(handler),
                "the `except` swallows a failed launch: the output stays unwritten",
                _RAISE,
            )
        return None

    def _suppressed(self, context: Context, launches: Launches) -> Iterator[Finding]:
        for node in context.module.scopes.of_type(ast.With):
            for item in node.items:
                suppresses = Qual("contextlib.suppress()") in context.module.values.of(item.context_expr)
                if (
                    suppresses
                    and self._on_host(launches, node)
                    and any(self._may_launch(context, s) for s in node.body)
                ):
                    yield Finding(
                        item.context_expr, "a failed launch is swallowed: the output stays unwritten", _RAISE
                    )

    # -- branches ---------------------------------------------------------------------

    def _branches(self, context: Context, launches: Launches) -> Iterator[Finding]:
        """Results that PyTorch computes on a branch, while the file has a kernel for the rest."""
        if not launches.calls:
            return
        for node in context.module.scopes.of_type(ast.Return):
            if (
                node.value is None
                or not self._on_host(launches, node)
                or not self._is_branch(context, launches, node)
            ):
                continue
            if self._eager(context, launches, node.value) and not self._may_launch(context, node.value):
                yield Finding(
                    node, "this branch returns what PyTorch computed instead of launching a kernel", _RAISE
                )
        for either in context.module.scopes.of_type(ast.IfExp):
            if self._on_host(launches, either):
                for side in (either.body, either.orelse):
                    if self._eager(context, launches, side) and not self._may_launch(context, side):
                        yield Finding(
                            side,
                            "this branch takes what PyTorch computed instead of launching a kernel",
                            _RAISE,
                        )

    def _is_branch(self, context: Context, launches: Launches, node: ast.AST) -> bool:
        """Inside an ``if``, ``match`` or loop, and not the place where a launch went before."""
        child = node
        for above in context.module.scopes.ancestors(node):
            if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
                return False
            if isinstance(above, (ast.If, ast.match_case, ast.While, ast.For)):
                block = above.orelse if isinstance(above, ast.If) and child in above.orelse else above.body
                before = block[: block.index(child)] if child in block else []
                if not any(self._may_launch(context, statement) for statement in before):
                    return True
            child = above
        return False

    def _eager(self, context: Context, launches: Launches, node: ast.expr) -> bool:
        """Tell whether evaluating ``node`` has PyTorch compute, here or in a function of the file."""
        if self._computes(context, launches, node):
            return True
        paths = context.module.launch_paths(context.framework)
        for inner in walk_evaluated(node):
            if isinstance(inner, ast.Call):
                for function in self._called(context, launches, inner):
                    if self._computes(context, launches, function) and not paths.launches(function):
                        return True
                if self._is_layer_or_reference(context, inner):
                    return True
        return False

    def _called(self, context: Context, launches: Launches, call: ast.Call) -> Iterator[ast.FunctionDef]:
        for value in context.module.values.of(call.func):
            if (
                isinstance(value, Func)
                and isinstance(value.node, ast.FunctionDef)
                and value.node in launches.host
            ):
                yield value.node
            elif isinstance(value, (Instance, Class)):
                cls = value.cls if isinstance(value, Instance) else value.node
                for method in context.module.flow.methods(cls, ("forward", "__call__")):
                    if isinstance(method, ast.FunctionDef):
                        yield method

    def _is_layer_or_reference(self, context: Context, call: ast.Call) -> bool:
        names = [v.name for v in context.module.values.of(call.func) if isinstance(v, Qual)]
        return any(name.startswith(tuple(f"{m}." for m in _EVALUATOR_MODULES)) for name in names)

    def _computes(self, context: Context, launches: Launches, node: ast.AST) -> bool:
        places = compute_places(launches, context.settings.glue, context.settings.compute, within=node)
        if any(not isinstance(place.node, ast.Compare) for place in places):
            return True
        if isinstance(node, ast.ExceptHandler):
            # Handing the input (or a copy of it) back is another way to a result, too.
            returned = [s.value for s in walk(node) if isinstance(s, ast.Return) and s.value is not None]
            tensors = context.module.tensors
            return any(
                tensors.may_be_tensor(r) and context.module.values.constant(r) != Const(None)
                for r in returned
            )
        return False

    def _may_launch(self, context: Context, node: ast.AST) -> bool:
        return context.module.launch_paths(context.framework).may_launch_in(node)

    def _on_host(self, launches: Launches, node: ast.AST) -> bool:
        function = launches.flow.function_of(node)
        return function is not None and function in launches.host


def _always_raises(block: list[ast.stmt]) -> bool:
    last = block[-1]
    if isinstance(last, ast.Raise):
        return True
    return (
        isinstance(last, ast.If)
        and bool(last.orelse)
        and _always_raises(last.body)
        and _always_raises(last.orelse)
    )


def _first_line(handler: ast.ExceptHandler) -> ast.AST:
    return handler.type if handler.type is not None else handler.body[0]


_RAISE = "raise for inputs that the kernel cannot handle; a kernel that fails must be seen to fail"
_NO_REFERENCE = "the candidate must stand alone: no import, instance or lookup of the reference"
