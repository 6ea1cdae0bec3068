"""KL302."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernel_lint.diagnostics import Severity
from kernel_lint.rule import Context, Finding, Invalid, Rule, cases
from kernel_lint.rules._samples import candidate
from kernel_lint.source.domain import Class, Func, Instance, Namespace, Qual
from kernel_lint.source.kinds import Kind
from kernel_lint.source.launches import Launches
from kernel_lint.source.scopes import BindingKind, FunctionNode, ScopeKind, last_name, walk

_LAUNCH = "_double(x, y, x.numel(), stream=torch.cuda.current_stream())"
_MEMO = frozenset(
    {"functools.lru_cache", "functools.cache", "functools.cached_property", "functools.lru_cache()"}
)
_RUN = "    y = torch.empty_like(x)\n    " + _LAUNCH + "\n    return y\n\n"


class OutputCache(Rule):
    """
    ## What it does
    Finds results that are kept and handed out again: in a dict keyed by pointer, shape or content, in an attribute, in a
    mutable default, by `functools.cache`, or by replaying a captured graph for a known pointer.

    ## Why is this bad?
    The evaluator changes the contents behind the same pointers, and rotates pointers. A kept result is then wrong, and
    where it is right by luck its time is a lie.

    ## What is allowed
    Caches of compiled launchers, plans, tile tables and device properties; a scratch buffer that is kept and written
    anew; weights and constants prepared once.

    ## How to fix it
    Cache what does not depend on the input's values (the launcher), compute the output in every call.

    ## Example
    ```python
    key = x.data_ptr()
    if key in self._cache:
        return self._cache[key]
    ```

    ## References
    - Contract clause P1. Public reports: gpu-mode/reference-kernels#142 and #167.
    """

    code = "KL302"
    name = "output-cache"
    clauses = ("P1",)
    VALID = cases(
        lambda: (
            candidate(),
            candidate(
                top="_BUILT = {}\n\ndef _get(n):\n    if n not in _BUILT:\n        _BUILT[n] = _double\n    return _BUILT[n]\n\n"
            ).replace("        _double(x", "        _get(1)(x"),
            candidate(
                init="self._ws = None\n",
                before="if self._ws is None:\n    self._ws = torch.empty(4)\n_double(x, self._ws, 4)",
            ),
            candidate(
                imports="import functools\n",
                top="@functools.lru_cache(maxsize=None)\ndef _get(n):\n    return _double\n\n",
            ).replace("        _double(x", "        _get(x.numel())(x"),
            candidate(
                init="self._wt = None\nself.w = nn.Parameter(torch.ones(dim))\n",
                before="if self._wt is None:\n    self._wt = self.w.t().contiguous()\n_double(self._wt, y, 4)",
            ),
            candidate(
                imports="import functools\n",
                top="@functools.cache\ndef _table(device):\n    return torch.tensor([0.5, 1.0], device=device)\n\n",
                before="_double(_table(x.device), y, 2)",
            ),
            candidate(
                top="_ARCH = None\n\ndef _arch():\n    global _ARCH\n    if _ARCH is None:\n        _ARCH = torch.cuda.get_device_properties(0).name\n    return _ARCH\n\n",
                before="a = _arch()",
            ),
        )
    )
    INVALID = cases(
        lambda: (
            Invalid(
                candidate(
                    top="_C = {}\n\n", before="k = x.data_ptr()\nif k in _C:\n    return _C[k]\n_C[k] = y"
                )
            ),
            Invalid(
                candidate(
                    top="_C = {}\n\n",
                    before="hit = _C.get(x.shape)\nif hit is not None:\n    return hit",
                    after="_C[x.shape] = y",
                )
            ),
            Invalid(
                candidate(
                    init="self._x = self._y = None\n",
                    before="if self._x is x:\n    return self._y",
                    after="self._x, self._y = x, y",
                )
            ),
            Invalid(
                candidate(
                    imports="import functools\n", top="@functools.lru_cache(maxsize=8)\ndef _run(x):\n" + _RUN
                ).replace("        " + _LAUNCH + "\n        return y", "        return _run(x)")
            ),
            Invalid(
                candidate(
                    imports="from functools import cache\n", top="@cache\ndef _run(x):\n" + _RUN
                ).replace("        " + _LAUNCH + "\n        return y", "        return _run(x)")
            ),
            Invalid(
                candidate(
                    before="k = x.data_ptr()\nif k in _m:\n    return _m[k]", after="_m[k] = y"
                ).replace("forward(self, x)", "forward(self, x, _m={})")
            ),
            Invalid(
                candidate(init="self.y0 = None\n").replace(
                    "        " + _LAUNCH + "\n        return y",
                    "        if self.y0 is None:\n            self.y0 = y\n            "
                    + _LAUNCH
                    + "\n        return self.y0",
                )
            ),
            Invalid(
                candidate(
                    top="_LAST = None\n\n",
                    before="global _LAST\nif _LAST is not None:\n    return _LAST",
                    after="_LAST = y",
                )
            ),
            Invalid(
                candidate(
                    before="try:\n    return self._c[x.data_ptr()]\nexcept KeyError:\n    pass",
                    init="self._c = {}\n",
                    after="self._c[x.data_ptr()] = y",
                )
            ),
            Invalid(
                candidate(
                    before="if hasattr(Model.forward, 'out'):\n    return Model.forward.out",
                    after="Model.forward.out = y",
                )
            ),
            Invalid(
                candidate(
                    before="if getattr(self, '_o', None) is not None:\n    return self._o",
                    after="setattr(self, '_o', y)",
                )
            ),
        )
    )

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield memoised functions on the path and returns of what an earlier call stored."""
        if not context.candidate or context.module.flow.model is None:
            return
        launches = context.module.launches(context.framework)
        yield from self._memoised(context, launches)
        seen: set[ast.AST] = set()
        reached = self._reached(context, launches)
        for node in context.module.scopes.of_type(ast.Return):
            function = launches.flow.function_of(node)
            if node.value is None or function not in launches.host or node in seen:
                continue
            seen.add(node)
            name = self._kept(context, launches, node.value)
            if name is not None and (reached is None or function in launches.flow.entries or name in reached):
                yield self._finding(context, launches, node, name)

    def _reached(self, context: Context, launches: Launches) -> set[str] | None:
        """Return the names of what is kept that the model may return; None when that cannot be told.

        A helper may return a kept workspace, or a weight in another layout, for a kernel to read.
        """
        names: set[str] = set()
        for entry in launches.flow.entries:
            returned = (
                [entry.body] if isinstance(entry, ast.Lambda) else context.module.values.sites.returns(entry)
            )
            for expression in returned:
                roots = context.module.tensors.roots(expression)
                if not roots or any(root.kind == "unknown" for root in roots):
                    return None
                names.update(root.name for root in roots)
        return names

    def _finding(self, context: Context, launches: Launches, node: ast.Return, name: str) -> Finding:
        fresh = not self._in_condition(context, node) and self._always_written(context, launches, name)
        if fresh:
            message = (
                f"`{name}` keeps the output buffer between calls: the next call overwrites this one's result"
            )
            return Finding(node, message, "allocate the output in every call", severity=Severity.INFO)
        message = f"a result kept in `{name}` by an earlier call is returned"
        return Finding(
            node, message, "compute the output in every call; keep compiled launchers, never results"
        )

    # -- memo decorators ------------------------------------------------------------

    def _memoised(self, context: Context, launches: Launches) -> Iterator[Finding]:
        values = context.module.values
        for function in sorted(launches.host, key=lambda f: f.lineno):
            if isinstance(function, ast.Lambda):
                continue
            for decorator in function.decorator_list:
                target = decorator.func if isinstance(decorator, ast.Call) else decorator
                if any(
                    isinstance(v, Qual) and v.name in _MEMO for v in values.of(target)
                ) and self._yields_tensor(context, launches, function):
                    message = f"`{function.name}` is memoised and gives a tensor: a later call gets an earlier result"
                    yield Finding(
                        decorator, message, "memoise the launcher by shape and dtype, never the result"
                    )

        for call in context.module.survey.calls_of(_MEMO):
            for argument in call.args:
                wrapped = [v.node for v in values.of(argument) if isinstance(v, Func)]
                if any(f in launches.host and self._yields_tensor(context, launches, f) for f in wrapped):
                    yield Finding(
                        call,
                        "a function that gives a tensor is memoised: a later call gets an earlier result",
                        "memoise the launcher by shape and dtype, never the result",
                    )

    def _yields_tensor(self, context: Context, launches: Launches, function: FunctionNode) -> bool:
        tensors, sites = context.module.tensors, context.module.values.sites
        taken = [a for p in function.args.args for a in sites.argument_nodes(function, p.arg)]
        if any(tensors.may_be_tensor(a) for a in taken):
            return True
        if not any(tensors.may_be_tensor(r) for r in sites.returns(function)):
            return False
        # A function of the module that gets no tensor and launches nothing makes a constant (a table for a device).
        at_module_level = context.module.scopes.scope[function].kind is ScopeKind.MODULE
        return not at_module_level or any(
            map(context.module.launch_paths(context.framework).may_launch_in, _body(function))
        )

    # -- kept results -----------------------------------------------------------------

    def _kept(self, context: Context, launches: Launches, value: ast.expr) -> str | None:
        """Return the name of the lasting place that a returned value may come from, or None."""
        tensors = context.module.tensors
        for root in sorted(tensors.roots(value), key=lambda r: (r.kind, r.name)):
            if root.kind in ("attribute", "global", "default") and self._stored_on_path(
                context, launches, root.name
            ):
                if root.kind != "attribute" or not _lasts_one_call(context, launches, root.name):
                    return root.name
        for inner in walk(value) if context.module.scopes.attribute_stores else ():
            if isinstance(inner, ast.Attribute) and self._stored_attribute(context, launches, inner):
                return inner.attr
        return None

    def _stored_on_path(self, context: Context, launches: Launches, name: str) -> bool:
        """Tell whether host code on the path stores a tensor under ``name``."""
        return any(self._is_result(context, value) for value in self._stores(context, launches, name))

    def _stores(self, context: Context, launches: Launches, name: str) -> Iterator[ast.expr]:
        scopes = context.module.scopes
        stores: list[tuple[ast.AST, ast.expr | None]] = [
            (target, binding.value) for target, binding in scopes.attribute_stores.get(name, ())
        ]
        stores += [(t, b.value) for t, b in scopes.item_stores.get(name, ())]
        for binding in scopes.module.bindings.get(name, ()):
            if binding.kind is BindingKind.ASSIGN and binding.value is not None:
                stores.append((binding.node, binding.value))
        if name == "__dict__":
            # c = self.__dict__; c["out"] = y
            for items in scopes.item_stores.values():
                for item, binding in items:
                    if any(isinstance(v, Namespace) for v in context.module.values.of(item.value)):
                        stores.append((item, binding.value))
        for target, value in stores:
            if value is not None and launches.flow.function_of(target) in launches.host:
                yield value
        for call in context.module.values.sites.calls_named("setattr"):
            if len(call.args) == 3 and launches.flow.function_of(call) in launches.host:
                key = context.module.values.constant(call.args[1])
                if key is not None and key.value == name:
                    yield call.args[2]
        for value in context.module.values.sites.inserted(name):
            if launches.flow.function_of(value) in launches.host:
                yield value

    def _stored_attribute(self, context: Context, launches: Launches, node: ast.Attribute) -> bool:
        """An attribute of a function or class (``Model.forward.out``) that the path stores to."""
        for target, binding in context.module.scopes.attribute_stores.get(node.attr, ()):
            same = ast.unparse(target.value) == ast.unparse(node.value)
            if same and binding.value is not None and launches.flow.function_of(target) in launches.host:
                return self._is_result(context, binding.value)
        return False

    def _is_result(self, context: Context, value: ast.expr) -> bool:
        tensors = context.module.tensors
        if isinstance(value, (ast.Tuple, ast.List)):
            return any(self._is_result(context, element) for element in value.elts)
        if isinstance(value, ast.Dict):
            return any(self._is_result(context, element) for element in value.values)
        return Kind.TENSOR in tensors.kinds(value)

    # -- a buffer that is written anew -----------------------------------------------

    def _always_written(self, context: Context, launches: Launches, name: str) -> bool:
        """Tell whether a launch outside any condition writes what is kept under ``name``."""
        for launch in launches.calls:
            if any(self._names(argument, name) for argument in launches.written_arguments(launch)):
                if not self._in_condition(context, launch.call):
                    return True
        return False

    def _names(self, argument: ast.expr, name: str) -> bool:
        return any(
            last_name(inner) == name
            for inner in walk(argument)
            if isinstance(inner, (ast.Name, ast.Attribute))
        )

    def _in_condition(self, context: Context, node: ast.AST) -> bool:
        for above in context.module.scopes.ancestors(node):
            if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                return False
            if isinstance(above, (ast.If, ast.IfExp, ast.Try, ast.match_case)):
                return True
        return False


def _body(function: FunctionNode) -> list[ast.AST]:
    return [function.body] if isinstance(function, ast.Lambda) else [*function.body]


def _lasts_one_call(context: Context, launches: Launches, name: str) -> bool:
    """Tell whether only objects that ``forward`` makes and keeps nowhere have an attribute."""
    scopes, values = context.module.scopes, context.module.values
    owners = {
        v.cls
        for target, _ in scopes.attribute_stores.get(name, ())
        for v in values.of(target.value)
        if isinstance(v, Instance)
    }
    made = {Instance(cls) for cls in owners}
    kept = [b.value for stores in scopes.attribute_stores.values() for _, b in stores if b.value is not None]
    kept += [b.value for items in scopes.item_stores.values() for _, b in items if b.value is not None]
    if not owners or launches.flow.model in owners or any(not made.isdisjoint(values.of(v)) for v in kept):
        return False
    calls = [
        c for cls in owners for c in values.sites.calls_named(cls.name) if Class(cls) in values.of(c.func)
    ]
    places = (ast.Assign, ast.Attribute, ast.Expr)
    return bool(calls) and all(
        launches.flow.function_of(call) in launches.host and isinstance(scopes.parent.get(call), places)
        for call in calls
    )
