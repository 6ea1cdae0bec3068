"""KL203."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernel_lint.rule import Context, Finding, Invalid, Rule, Valid, cases
from kernel_lint.rules._samples import candidate
from kernel_lint.source.compute import compute_places


class TorchCompute(Rule):
    """
    ## What it does
    Finds PyTorch operations that do the work of a kernel on the path from `Model.forward`: matrix products, reductions,
    activations, elementwise arithmetic on tensors, calls of `nn` layers; as functions, methods, operators, through tables,
    `operator`, `functools` and any alias.

    ## Why is this bad?
    The contract asks for FlyDSL kernels. PyTorch may allocate, view, index and move; what it computes on the path
    does not count as the candidate's work, and the evaluator observes the operators that run.

    ## What is allowed
    Allocation, reshape and view, indexing, concatenation and copies, dtype and device handling, shapes and integer
    arithmetic, weights held by an `nn` layer that is not called, constants computed in `__init__`. The whole line is the
    table in docs/glue-and-compute.md; `glue = [...]` and `compute = [...]` in the configuration move operations over it.

    ## How to fix it
    Move the operation into a kernel: into the epilogue of the one before it, or a small one of its own.

    ## Example
    ```python
    y = torch.empty_like(x)
    _gemm(x, self.w, y)
    return y.softmax(-1)
    ```

    ## References
    - Contract clauses P1 and P2.
    """

    code = "KL203"
    name = "torch-compute"
    clauses = ("P1", "P2")
    VALID = cases(
        lambda: (
            candidate(),
            candidate(before="b = x.reshape(-1)\nn = b.numel() // 2 + 1\nm, k = x.shape\ns = m * k - n"),
            candidate(
                init="self.fc = nn.Linear(dim, dim)\nself.scale = torch.ones(dim) * 2.0\n",
                before="w = self.fc.weight.t()",
            ),
            candidate(top="def softmax(X, Y, n):\n    _double(X, Y, n)\n\n", before="softmax(x, y, 1)"),
            candidate(top="def _sum(s):\n    return sum(int(v) for v in s)\n\n", before="n = _sum(x.shape)"),
            candidate(before="idx = x.shape[-1] % 8\nz = torch.cat([x, y])\nz = z[:, 1:].contiguous()"),
            candidate(before="k = max(x.shape[0], 1) * x.element_size()"),
            candidate(top="def _unused(t):\n    return torch.relu(t)\n\n"),
            Valid(candidate(after="y = y.round()"), options={"glue": ("round",)}),
        )
    )
    INVALID = cases(
        lambda: (
            Invalid(candidate(after="y = torch.matmul(y, y.t())")),
            Invalid(candidate(after="y @= self.w")),
            Invalid(candidate(after="y = y * 2")),
            Invalid(candidate(after="y = -y")),
            Invalid(candidate(after="y += 1")),
            Invalid(candidate(imports="from torch.nn.functional import relu as r\n", after="y = r(y)")),
            Invalid(
                candidate(init="self.net = nn.Sequential(nn.Linear(dim, dim))\n", after="y = self.net(y)")
            ),
            Invalid(candidate(after="y = y.softmax(-1)")),
            Invalid(candidate(after="y = y.sum(dim=-1, keepdim=True)")),
            Invalid(candidate(imports="import operator\n", after="y = operator.matmul(y, y)")),
            Invalid(
                candidate(imports="import operator\n", after="y = operator.methodcaller('softmax', -1)(y)")
            ),
            Invalid(candidate(after="y = getattr(torch, 'matmul')(y, y)")),
            Invalid(candidate(after="y = getattr(y, 'soft' + 'max')(-1)")),
            Invalid(candidate(after="y = torch.Tensor.__matmul__(y, y)")),
            Invalid(candidate(after="y = torch.Tensor.softmax(y, -1)")),
            Invalid(candidate(top="_OPS = {'a': torch.softmax}\n\n", after="y = _OPS['a'](y, dim=-1)")),
            Invalid(candidate(top="_f = lambda t: torch.relu(t)\n\n", after="y = _f(y)")),
            Invalid(candidate(top="def _fin(t):\n    return t.exp()\n\n", after="y = _fin(y)")),
            Invalid(candidate(after="y = torch.ops.aten.mm(y, y)")),
            Invalid(candidate(after="y = list(map(torch.relu, [y]))[0]")),
            Invalid(
                candidate(
                    imports="import functools\n", after="y = functools.partial(torch.softmax, dim=-1)(y)"
                )
            ),
            Invalid(candidate(after="y = sum([y, y])")),
            Invalid(candidate(after="y = abs(y)")),
            Invalid(candidate(after="y = y if (y > 0).all() else y")),
            Invalid(candidate(after="y = y.narrow(0, 0, 1)"), options={"compute": ("narrow",)}),
        )
    )

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield each operation once, where it is written."""
        if not context.candidate:
            return
        launches = context.module.launches(context.framework)
        seen: set[ast.AST] = set()
        for place in compute_places(launches, context.settings.glue, context.settings.compute):
            if place.node not in seen:
                seen.add(place.node)
                message = f"{place.what} is computed by PyTorch on the path from `forward`"
                yield Finding(
                    place.node,
                    message,
                    "do it in a kernel; PyTorch is for allocation, views and indexing here",
                )
