"""KL308."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernel_lint.rule import Context, Finding, Invalid, Rule, cases
from kernel_lint.rules._samples import candidate
from kernel_lint.source.launches import Launches
from kernel_lint.source.tensors import Root

_LAUNCH = "_double(x, y, x.numel(), stream=torch.cuda.current_stream())"
_FILLED = frozenset(
    """full full_like ones ones_like zeros zeros_like tensor as_tensor asarray scalar_tensor from_numpy frombuffer arange
    linspace eye new_full new_ones new_zeros new_tensor""".split()
)
_RANDOM = frozenset(
    "rand randn randint randperm rand_like randn_like randint_like normal bernoulli poisson multinomial".split()
)


class HardcodedOutput(Rule):
    """
    ## What it does
    Finds results that no computation made: constants, zeros or random numbers returned for some sizes, and tables of
    answers keyed on shapes.

    ## Why is this bad?
    Such an answer fits one input at most. The evaluator draws fresh inputs under secret seeds.

    ## What is allowed
    Constants that a kernel reads (a coefficient table), a buffer that is zeroed before a kernel accumulates into it, tile
    sizes chosen by shape, an empty or zero result for an input with nothing in it.

    ## How to fix it
    Launch the kernel for every input; raise for inputs that it cannot handle.

    ## Example
    ```python
    if tuple(x.shape) == (128, 256):
        return torch.full((128, 256), 0.371)
    ```

    ## References
    - Contract clauses X10 and P1.
    """

    code = "KL308"
    name = "hardcoded-output"
    clauses = ("X10", "P1")
    VALID = cases(
        lambda: (
            candidate(),
            candidate(
                top="_TILES = {(128, 256): (64, 128)}\n\n",
                before="tm, tn = _TILES.get(tuple(x.shape), (64, 64))",
            ),
            candidate().replace("torch.empty_like", "torch.zeros_like"),
            candidate(before="if x.numel() == 0:\n    return torch.zeros_like(x)"),
            candidate(top="_ERF = (0.25, -0.28)\n\n", before="c = torch.tensor(_ERF)\n_double(c, y, 2)"),
            candidate(before="if x.shape[0] == 0 or x.shape[1] == 0:\n    return x.new_zeros(x.shape)"),
        )
    )
    INVALID = cases(
        lambda: (
            Invalid(
                candidate(before="if tuple(x.shape) == (128, 256):\n    return torch.full((128, 256), 0.37)")
            ),
            Invalid(
                candidate(
                    top="_OUT = {(2, 2): [[0.1, 0.5], [0.7, 0.9]]}\n\n",
                    before="o = _OUT.get(tuple(x.shape))\nif o is not None:\n    return torch.tensor(o)",
                )
            ),
            Invalid(
                candidate(
                    before="match tuple(x.shape):\n    case (8, 4096):\n        return torch.ones_like(x)"
                )
            ),
            Invalid(candidate().replace("return y", "return torch.randn(x.shape)")),
            Invalid(candidate(before="if x.numel() > 4:\n    z = torch.zeros_like(x)\n    return z")),
            Invalid(candidate(before="if x.shape[0] == 128:\n    return x.new_full(x.shape, 0.5)")),
            Invalid(candidate(before="if x.shape[0] == 1:\n    y.fill_(0.5)\n    return y")),
            Invalid(candidate().replace("return y", "return torch.zeros_like(y)")),
            Invalid(candidate(before="if x.shape == (3, 3):\n    return {'y': torch.eye(3)}")),
            Invalid(
                candidate(
                    top="def _known(x):\n    return torch.ones(4)\n\n",
                    before="if x.shape[0] == 4:\n    return _known(x)",
                )
            ),
        )
    )

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield returns of filled or random tensors that no launch writes."""
        if not context.candidate or context.module.flow.model is None:
            return
        launches = context.module.launches(context.framework)
        written = launches.written_roots
        for node in context.module.scopes.of_type(ast.Return):
            if node.value is None or launches.flow.function_of(node) not in launches.flow.entries:
                continue
            if self._for_empty(context, launches, node):
                continue
            roots = context.module.tensors.roots(node.value)
            for root in sorted(roots, key=lambda r: (r.kind, r.name)):
                if self._is_made_up(root) and root not in written:
                    yield Finding(
                        node, f"the result is made up: `{root.name}` fills it and no kernel writes it", _HELP
                    )
                    break
            else:
                if self._filled_in_place(context, launches, node, roots):
                    yield Finding(
                        node, "the result is filled with a constant instead of being computed", _HELP
                    )

    def _is_made_up(self, root: Root) -> bool:
        return (root.kind == "alloc" and root.name in _FILLED) or (
            root.kind == "compute" and root.name in _RANDOM
        )

    def _for_empty(self, context: Context, launches: Launches, node: ast.AST) -> bool:
        return any(
            isinstance(above, ast.If) and launches.conditions.asks_for_empty(above.test)
            for above in context.module.scopes.ancestors(node)
        )

    def _filled_in_place(
        self, context: Context, launches: Launches, node: ast.Return, roots: frozenset[Root]
    ) -> bool:
        """``y.fill_(0.5); return y`` in one block, with no launch between."""
        parent = context.module.scopes.parent.get(node)
        block = next(
            (
                b
                for b in (getattr(parent, "body", []), getattr(parent, "orelse", []))
                if isinstance(b, list) and node in b
            ),
            [],
        )
        for statement in reversed(block[: block.index(node)] if node in block else []):
            call = statement.value if isinstance(statement, ast.Expr) else None
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                return False
            if (
                call.func.attr in ("fill_", "zero_", "normal_", "uniform_")
                and context.module.tensors.roots(call.func.value) & roots
            ):
                return True
        return False


_HELP = "launch the kernel for every input; raise for inputs that it cannot handle"
