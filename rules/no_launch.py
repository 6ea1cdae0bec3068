"""KL202."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernel_lint.rule import Context, Finding, Invalid, Rule, Valid, cases
from kernel_lint.rules._idle_kernels import idle
from kernel_lint.rules._overwrites import written_over
from kernel_lint.rules._places import header
from kernel_lint.rules._samples import candidate
from kernel_lint.source.launches import Launches
from kernel_lint.source.scopes import FunctionNode, walk
from kernel_lint.source.tensors import Root

_LAUNCH = "_double(x, y, x.numel(), stream=torch.cuda.current_stream())"


class NoLaunch(Rule):
    """
    ## What it does
    Follows `Model.forward` to see that every path that returns a result launches a kernel, and that what is returned is
    what a launch wrote. Finds a kernel that is defined and never launched, launched only under some condition or in a
    loop over nothing (`range(n - n)`), launched on a scratch buffer, or whose result is dropped.

    ## Why is this bad?
    A result that no kernel wrote was computed some other way, or not at all. The evaluator counts launches and looks at
    the output; uninitialised memory that happens to hold the right values passes once and fails later.

    ## What is allowed
    Launches through helpers, tables, attributes, loops, `autograd.Function`, callbacks; early returns for empty inputs;
    paths that raise; `if n > 0:` around the launch.

    ## How to fix it
    Launch on every path, and return the tensor that the kernel stores to (or a view of it). Where an input cannot be
    handled, raise `ValueError`.

    ## Example
    ```python
    def forward(self, x):
        y = torch.empty_like(x)
        if x.is_contiguous():
            _scale(x, y, x.numel())
        return y
    ```

    ## References
    - Contract clause P1: the main compute path is FlyDSL kernels launched from `Model.forward`.
    """

    code = "KL202"
    name = "no-launch"
    clauses = ("P1",)
    VALID = cases(
        lambda: (
            candidate(),
            candidate(before="if x.numel() == 0:\n    return y"),
            candidate(before="if not x.is_cuda:\n    raise ValueError('device')"),
            candidate().replace("        " + _LAUNCH, "        if x.numel() > 0:\n            " + _LAUNCH),
            candidate().replace(
                "        " + _LAUNCH,
                "        for i in range(x.shape[0]):\n            _double(x[i], y[i], 1)",
            ),
            candidate(top="def _run(x, y):\n    " + _LAUNCH + "\n\n").replace(
                "        " + _LAUNCH, "        _run(x, y)"
            ),
            candidate(
                top="def _run(x):\n    y = torch.empty_like(x)\n    " + _LAUNCH + "\n    return y\n\n"
            ).replace("        return y\n\n", ""),
            candidate(top="_TABLE = {torch.float32: _double}\n\n").replace(
                "        _double(", "        _TABLE[x.dtype]("
            ),
            candidate(init="self.fn = _double\n").replace("        _double(x", "        self.fn(x"),
            candidate().replace(
                "        " + _LAUNCH,
                "        for i in range(x.dim() - x.ndim + 1):\n            _double(x[i], y[i], 1)",
            ),
            candidate().replace(
                "        " + _LAUNCH,
                "        n = x.shape[0]\n        for i in range(n - self.next(n)):\n            _double(x[i], y[i], 1)",
            ),
            candidate().replace("return y", "return y.view(x.shape)"),
            candidate().replace("return y", "return {'y': y, 'n': x.numel()}"),
            candidate().replace(
                "        " + _LAUNCH,
                "        try:\n            " + _LAUNCH + "\n        finally:\n            pass",
            ),
            candidate().replace(
                "        " + _LAUNCH,
                "        if x.dtype == torch.float32:\n            "
                + _LAUNCH
                + "\n        else:\n            "
                + _LAUNCH,
            ),
            Valid(
                "import torch\nimport torch.nn as nn\nfrom ops import build\n\nclass Model(nn.Module):\n"
                "    def forward(self, x):\n        y = torch.empty_like(x)\n        build(x.dtype)(x, y)\n        return y\n",
                filename="kernel.py",
            ),
            Valid("import torch\n\ndef helper(x):\n    return torch.empty_like(x)\n", filename="ops.py"),
            candidate(
                top="def _build(n):\n    @flyc.jit\n    def launch(X: fx.Tensor, Y: fx.Tensor):\n        _double_kernel(X, Y, n).launch(grid=(1, 1, 1))\n    return launch\n\n"
            ).replace(_LAUNCH, "_build(x.numel())(x, y)"),
        )
    )
    INVALID = cases(
        lambda: (
            Invalid(candidate().replace("        " + _LAUNCH + "\n", "")),
            *(
                Invalid(candidate().replace("        " + _LAUNCH, f"        {head}\n            {_LAUNCH}"))
                for head in (
                    "for _ in range(x.dim() - x.dim()):",
                    "for _ in range(x.shape[0] ^ x.shape[0]):",
                    "for _ in range(x.numel(), x.numel()):",
                    "for _ in range(0 * x.numel()):",
                    "n = x.numel() - x.numel()\n        for _ in range(n):",
                    "if x.numel() - x.numel():",
                    "while x.stride(0) - x.stride(0):",
                )
            ),
            Invalid(candidate().replace(_LAUNCH, f"[{_LAUNCH} for _ in range(x.dim() - x.dim())]")),
            Invalid(candidate().replace("return y", "return x.clone()")),
            Invalid(candidate().replace("return y", "return x")),
            Invalid(candidate().replace("return y", "return torch.empty_like(y)")),
            Invalid(candidate().replace(_LAUNCH, "t = torch.zeros(1)\n        _double(t, t, 1)")),
            Invalid(
                candidate().replace("        " + _LAUNCH, "        if x.numel() < 0:\n            " + _LAUNCH)
            ),
            Invalid(
                candidate().replace(
                    "        " + _LAUNCH, "        use = 0\n        if use:\n            " + _LAUNCH
                )
            ),
            Invalid(
                candidate().replace(
                    "        " + _LAUNCH, "        if x.is_contiguous():\n            " + _LAUNCH
                )
            ),
            Invalid(candidate(before="if self.dim > 4:\n    return y")),
            Invalid(
                candidate().replace("        " + _LAUNCH, "        for _ in ():\n            " + _LAUNCH)
            ),
            Invalid(candidate().replace("        " + _LAUNCH, "        launch = lambda: " + _LAUNCH)),
            Invalid(
                candidate().replace("        " + _LAUNCH, "        while False:\n            " + _LAUNCH)
            ),
            Invalid(
                "import torch\nimport torch.nn as nn\n\nclass Model(nn.Module):\n    def forward(self, x):\n        return x * 2\n"
            ),
        )
    )

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield entries without a launch, paths without one, and results that no launch wrote."""
        if not context.candidate or context.module.flow.model is None:
            return
        launches = context.module.launches(context.framework)
        if not context.module.flow.entries:
            message = "`Model` has no `forward` of its own: no kernel is launched"
            yield Finding(header(context.module, context.module.flow.model), message, "define forward")
        yield from idle(context, launches)
        for entry in context.module.flow.entries:
            if isinstance(entry, ast.Lambda) or (entry.name != "forward" and _delegates(entry)):
                continue
            yield from self._entry(context, launches, entry)

    def _entry(self, context: Context, launches: Launches, entry: FunctionNode) -> Iterator[Finding]:
        if not launches.calls:
            yield self._none(context, entry)
            return
        bare = context.module.launch_paths(context.framework).bare_returns(entry)
        for place in bare:
            if place is entry:
                message = "`forward` can end without having launched a kernel"
            else:
                message = "this return is reached without a kernel launch on some path"
            yield Finding(
                header(context.module, place),
                message,
                "launch on every path, or raise for what cannot be handled",
            )
        if not bare:
            yield from self._results(context, launches, entry)
            yield from written_over(context, launches, entry)

    def _none(self, context: Context, entry: FunctionNode) -> Finding:
        kernels = context.module.flow.kernels(context.framework)
        title = context.framework.title
        if kernels:
            names = ", ".join(f"`{kernel.name}`" for kernel in kernels[:3])
            message = f"no kernel is launched from `forward`: {names} is defined and never reached"
        else:
            message = f"no {title} kernel is launched from `forward`: the file defines none"
        return Finding(
            header(context.module, entry), message, f"launch a {title} kernel that writes the output"
        )

    def _results(self, context: Context, launches: Launches, entry: FunctionNode) -> Iterator[Finding]:
        written = launches.written_roots
        if any(root.kind == "unknown" for root in written):
            return
        tensors = context.module.tensors
        for expression in context.module.values.sites.returns(entry):
            roots = tensors.roots(expression)
            if not roots or any(root.kind in ("unknown", "global", "default") for root in roots):
                continue
            kept = [root.name for root in roots if root.kind == "attribute"]
            if kept and not all(_is_made_before(context, launches, name) for name in kept):
                continue
            if not roots & written and not self._empty_return(context, launches, expression):
                yield Finding(expression, f"what is returned is not what a launch wrote: {_describe(roots)}",
                              "return the tensor that the kernel stores to")  # fmt: skip

    def _empty_return(self, context: Context, launches: Launches, expression: ast.expr) -> bool:
        """An early return for an input with nothing in it needs no launch."""
        return any(
            isinstance(above, ast.If) and launches.conditions.asks_for_empty(above.test)
            for above in context.module.scopes.ancestors(expression)
        )


def _delegates(entry: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """``__call__`` that hands over to ``super()`` or ``forward`` adds no path of its own."""
    return any(isinstance(n, ast.Attribute) and n.attr in ("__call__", "forward") for n in walk(entry))


def _is_made_before(context: Context, launches: Launches, name: str) -> bool:
    """Tell whether an attribute is only stored before the model is called: no input had come yet."""
    scopes = context.module.scopes
    stores = [*scopes.attribute_stores.get(name, ())]
    return (
        bool(stores)
        and not context.module.values.sites.named_stores(name)
        and not any(launches.flow.function_of(target) in launches.host for target, _ in stores)
        and not scopes.item_stores.get(name)
    )


def _describe(roots: frozenset[Root]) -> str:
    root = min(roots, key=lambda root: (root.kind, root.name))
    return {
        "alloc": f"it comes from `{root.name}`",
        "param": f"it is the input `{root.name}`",
        "attribute": f"`{root.name}` was there before the call",
        "compute": "PyTorch computed it",
    }.get(root.kind, "it comes from elsewhere")
