"""KL206."""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator

from kernel_lint.diagnostics import Applicability, Edit, Fix, Severity, Span
from kernel_lint.patterns import lazy
from kernel_lint.records import dataclass
from kernel_lint.rule import Context, Finding, Invalid, Rule, Valid, cases
from kernel_lint.rules._edits import is_free_of_effects, removal
from kernel_lint.rules._modules import ALLOWED
from kernel_lint.rules._samples import candidate
from kernel_lint.source.domain import Class, Qual
from kernel_lint.source.scopes import walk

# Names that no analysis follows when the module reads its own namespace.
_OPEN = (
    "builtins.globals", "builtins.locals", "builtins.vars", "builtins.exec", "builtins.eval", "builtins.__import__",
    "sys.modules", "builtins.dir", "__dict__",
)  # fmt: skip
_PURE_DECORATORS = ("functools.", "contextlib.", "dataclasses.", "builtins.staticmethod", "builtins.classmethod",
                    "builtins.property", "torch.no_grad", "torch.inference_mode", "typing.", "abc.")  # fmt: skip
_PURE_CALLS = ("typing.", "collections.namedtuple", "enum.", "builtins.frozenset", "builtins.tuple", "builtins.dict",
               "builtins.list", "builtins.set", "builtins.range", "builtins.len", "builtins.int", "builtins.float",
               "math.", "torch.device", "builtins.object")  # fmt: skip
_FAR = 8
_WORD = lazy(r"[A-Za-z_]\w*")


@dataclass(slots=True)
class _Part:
    """A statement of the module: what it binds, whether it must stay whatever uses it."""

    statement: ast.stmt
    binds: tuple[str, ...]
    stays: bool


class DeadCode(Rule):
    """
    ## What it does
    Finds helpers, kernels, classes, constants and imports that `Model` does not reach, and statements that can never
    run.

    ## Why is this bad?
    The contract wants the kernel and nothing else. What is left over from earlier versions confuses the next reader, and
    an unused kernel beside a used one is often a mistake. It costs nothing at run time, hence information only.

    ## What is allowed
    Everything that `Model` reaches: through calls, tables, decorators, defaults, annotations; names in `__all__`; names that a
    text in the file mentions; any file that reads its own namespace (`globals()`).

    ## How to fix it
    Remove it (`--fix`), or package the workspace again: `kernel-lint package` leaves it out.

    ## Example
    ```python
    def _old_tile(n):  # nobody calls this
        return n // 16
    ```

    ## Fix safety
    Safe for functions, for classes and constants whose definition calls nothing, and for imports of the standard library,
    PyTorch, NumPy and the kernel language. Anything else may have effects when it runs: the fix is unsafe.

    ## References
    - Contract clause F8: every helper it needs is in the file, and nothing else.
    """

    code = "KL206"
    name = "dead-code"
    severity = Severity.INFO
    clauses = ("F8",)
    VALID = cases(
        lambda: (
            candidate(),
            candidate(top="def _tile(n):\n    return n // 16\n\n", init="self.t = _tile(dim)"),
            candidate(top="_TABLE = {}\n_TABLE[4] = _double\n\n", before="_TABLE.get(4)"),
            candidate(
                top="from typing import Optional\n\ndef _f(x: 'Optional[int]') -> int:\n    return 1\n\n",
                init="_f(1)",
            ),
            candidate(top="def _a():\n    return 1\n\nx = globals()['_a']\n\n"),
            candidate(top="__all__ = ['helper']\n\ndef helper():\n    return 1\n\n"),
            candidate(
                top="HOOKS = []\n\ndef register(f):\n    HOOKS.append(f)\n    return f\n\n@register\ndef hook():\n    return 1\n\n"
            ),
            Valid("import math\n\ndef tile(n):\n    return n\n", filename="ops.py"),
            candidate(top="__version__ = '1'\n\n"),
            candidate(top="class Base(nn.Module):\n    pass\n\n").replace("Model(nn.Module)", "Model(Base)"),
            candidate(top="_N = 0\n\n", before="global _N\n_N = 1\nn = _N"),
        )
    )
    INVALID = cases(lambda: (
        Invalid(candidate(top="def _old(n):\n    return n\n\n\n"), fixed=candidate(top="\n\n")),
        Invalid(candidate(imports="import math"), lines=(6,), fixed=candidate()),
        Invalid(candidate(imports="from typing import Any, Optional", before="n: Any = 1"), lines=(6,),
                fixed=candidate(imports="from typing import Any", before="n: Any = 1")),
        Invalid(candidate(top="_TILE = 256\n"), fixed=candidate()),
        Invalid(candidate(top="@flyc.kernel\ndef _other(X: fx.Tensor):\n    X[0] = 1.0\n\n"), fixed=candidate(top="\n")),
        Invalid(candidate(top="def _a():\n    return _b()\n\ndef _b():\n    return _a()\n\n"), fixed=candidate(top="\n\n")),
        Invalid(candidate(top="class _Old:\n    n = 1\n\n"), fixed=candidate(top="\n")),
        Invalid(candidate(after="return y")),
        Invalid(candidate(top="import aiter_like\n")),
        Invalid(candidate(top="_R = torch.randn(4)\n")),
    ))  # fmt: skip

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield what the model does not reach; nothing where the module reads its own namespace."""
        if context.module.flow.model is None or not context.candidate:
            return
        yield from _unreachable(context)
        if context.module.references.below(_OPEN):
            return
        parts = _parts(context)
        graph = _Graph(context, parts)
        living = graph.living([index for index, part in enumerate(parts) if part.stays])
        dead = {name for part in parts for name in part.binds} - living
        if not dead:
            return
        # What runs something when it is defined stays under a safe fix, and with it what it reads.
        held = graph.living(
            [
                i
                for i, part in enumerate(parts)
                if part.binds and not set(part.binds) <= living and not _is_pure(context, part.statement)
            ]
        )
        for part in parts:
            names = [name for name in part.binds if name in dead]
            if isinstance(part.statement, (ast.Import, ast.ImportFrom)):
                yield from _imports(context, part.statement, dead, held)
            elif names and len(names) == len(part.binds) and not part.stays:
                what = " and ".join(f"`{name}`" for name in names)
                safe = _is_pure(context, part.statement) and not held & set(names)
                fix = removal(context.module, part.statement, what, safe=safe)
                yield Finding(
                    _header(context, part.statement), f"{what} is not reached from `Model`", _HELP, fix
                )


class _Graph:
    """Which statement binds and which reads which name of the module."""

    def __init__(self, context: Context, parts: list[_Part]) -> None:
        self._parts = parts
        self._uses = _uses(context, parts)
        self._binders: defaultdict[str, list[int]] = defaultdict(list)
        for index, part in enumerate(parts):
            for name in part.binds:
                self._binders[name].append(index)

    def living(self, roots: list[int]) -> set[str]:
        """Return the names that the roots bind or read, directly or through others."""
        found = {name for index in roots if self._parts[index].stays for name in self._parts[index].binds}
        seen: set[int] = set()
        pending = list(roots)
        while pending:
            index = pending.pop()
            if index in seen:
                continue
            seen.add(index)
            for name in self._uses[index] - found:
                found.add(name)
                pending.extend(self._binders.get(name, ()))
        return found


def _parts(context: Context) -> list[_Part]:
    parts = []
    for statement in context.module.tree.body:
        binds: tuple[str, ...] = ()
        stays = False
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            binds = (statement.name,)
            stays = statement.name == "Model"
            for decorator in statement.decorator_list:
                stays = stays or not _is_pure_decorator(context, decorator)
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            binds = tuple(
                alias.asname or alias.name.partition(".")[0] for alias in statement.names if alias.name != "*"
            )
            stays = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            names = [
                n for target in targets for n in (target.elts if isinstance(target, ast.Tuple) else [target])
            ]
            if all(isinstance(name, ast.Name) for name in names):
                binds = tuple(name.id for name in names if isinstance(name, ast.Name))
            stays = not binds or any(name.startswith("__") or name == "Model" for name in binds)
        else:
            stays = not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        parts.append(_Part(statement, binds, stays))
    return parts


def _uses(context: Context, parts: list[_Part]) -> list[set[str]]:
    """The names of the module that each statement reads, or that a text in it mentions."""
    scopes = context.module.scopes
    bound, place = scopes.module.bindings, _places(context, parts)
    uses: list[set[str]] = [set() for _ in parts]
    for scope in scopes.inner.values():
        # The code of a function stands where the function does.
        held = place(scope.function) if scope.function is not None else None
        for name in scope.names.keys() & bound.keys():
            found = scope.lookup(name)
            if found is None or found[0] is not scopes.module:
                continue
            for node in scope.names[name]:
                if node.ctx.__class__ is ast.Store and not isinstance(scopes.parent.get(node), ast.AugAssign):
                    continue
                if held is not None:
                    uses[held].add(name)
                    break
                uses[place(node)].add(name)
    texts = [
        constant
        for constant in scopes.texts
        if isinstance(constant.value, str)
        and len(constant.value) < 400
        and not isinstance(scopes.parent.get(constant), ast.Expr)
    ]
    whole = "\n".join([str(constant.value) for constant in texts])
    named = {name for name in bound if name in whole}
    for constant in texts if named else ():
        uses[place(constant)].update(named.intersection(_WORD.findall(str(constant.value))))
    return uses


def _places(context: Context, parts: list[_Part]) -> Callable[[ast.AST], int]:
    """Return a function that tells the position of the statement that a node stands in."""
    parent = context.module.scopes.parent
    known: dict[ast.AST | None, int] = {part.statement: index for index, part in enumerate(parts)}
    known[None] = -1

    def place(node: ast.AST) -> int:
        here: ast.AST | None = node
        steps = 0
        while here not in known:
            here = parent.get(here)  # type: ignore[arg-type]
            steps += 1
        index = known[here]
        if steps > _FAR:
            # Others in the same long expression need not go all the way again.
            while node not in known:
                known[node] = index
                node = parent[node]  # type: ignore[assignment]
        return index

    return place


def _is_pure_decorator(context: Context, decorator: ast.expr) -> bool:
    """Whether a decorator is known to keep no record of what it decorates."""
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    paths = [value.name if isinstance(value, Qual) else "" for value in context.module.values.of(function)]
    known = context.framework
    for path in paths:
        own = path in known.kernels or path in known.launchers or path in known.compilers
        if not own and not path.startswith(_PURE_DECORATORS):
            return False
    return bool(paths)


def _is_pure(context: Context, statement: ast.stmt) -> bool:
    """Whether defining something has no effect but to define it."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        defaults = [*statement.args.defaults, *(d for d in statement.args.kw_defaults if d is not None)]
        return all(_is_pure_value(context, default) for default in defaults)
    if isinstance(statement, ast.ClassDef):
        # A base class of the file may keep a record of its subclasses.
        bases = [
            v.node for base in statement.bases for v in context.module.values.of(base) if isinstance(v, Class)
        ]
        if any("__init_subclass__" in context.module.scopes.inner[base].bindings for base in bases):
            return False
        return not statement.keywords and all(_is_pure_value(context, b) for b in statement.bases) and all(
            isinstance(item, (ast.Pass, ast.FunctionDef, ast.AsyncFunctionDef, ast.Expr, ast.Assign, ast.AnnAssign)) and _is_pure(context, item)
            for item in statement.body
        )  # fmt: skip
    if isinstance(statement, (ast.Assign, ast.AnnAssign)):
        return statement.value is None or _is_pure_value(context, statement.value)
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return True
    return isinstance(statement, ast.Pass) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )


def _is_pure_value(context: Context, node: ast.expr) -> bool:
    if is_free_of_effects(node):
        return True
    for call in walk(node):
        if isinstance(call, (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)):
            return False
        if isinstance(call, ast.Call):
            paths = [v.name if isinstance(v, Qual) else "" for v in context.module.values.of(call.func)]
            roots = tuple(f"{package}." for package in context.framework.imports)
            if not paths or not all(path.startswith(_PURE_CALLS) or path.startswith(roots) for path in paths):
                return False
    return True


def _imports(
    context: Context, statement: ast.Import | ast.ImportFrom, dead: set[str], held: set[str]
) -> Iterator[Finding]:
    unused = [a for a in statement.names if a.name != "*" and (a.asname or a.name.partition(".")[0]) in dead]
    for alias in unused:
        name = alias.asname or alias.name
        yield Finding(
            alias,
            f"`{name}` is imported and not used by `Model`",
            _HELP,
            _import_fix(context, statement, unused, held) if alias is unused[0] else None,
        )


def _import_fix(
    context: Context, statement: ast.Import | ast.ImportFrom, unused: list[ast.alias], held: set[str]
) -> Fix | None:
    """Remove all unused names of a statement; the finding of the first of them carries the fix."""
    package = (statement.module or "") if isinstance(statement, ast.ImportFrom) else unused[0].name
    root = package.partition(".")[0]
    safe = root in sys.stdlib_module_names or root in ALLOWED or root in context.framework.imports
    safe = safe and not held & {a.asname or a.name.partition(".")[0] for a in unused}
    if len(unused) == len(statement.names):
        return removal(context.module, statement, "the unused import", safe=safe)
    kept = [a for a in statement.names if a not in unused]
    copy: ast.stmt = (
        ast.Import(kept)
        if isinstance(statement, ast.Import)
        else ast.ImportFrom(statement.module, kept, statement.level)
    )
    span = context.module.span(statement)
    if any(span.line <= line <= span.end_line for line, _, _ in context.module.comments):
        return None
    applicability = Applicability.SAFE if safe else Applicability.UNSAFE
    return Fix("remove the unused import", (Edit(span, ast.unparse(copy)),), applicability)


def _unreachable(context: Context) -> Iterator[Finding]:
    """Statements after one that always leaves the block."""
    parent = context.module.scopes.parent
    for kind in (ast.Return, ast.Raise, ast.Continue, ast.Break):
        for node in context.module.scopes.nodes.get(kind, ()):
            above = parent.get(node)
            for field in ("body", "orelse", "finalbody"):
                block = getattr(above, field, None)
                if isinstance(block, list) and node in block and node is not block[-1]:
                    follower = block[block.index(node) + 1]
                    yield Finding(follower, "this can never run", _HELP)


def _header(context: Context, node: ast.stmt) -> ast.AST | Span:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        line = context.module.lines[node.lineno - 1]
        start = line.find(node.name, node.col_offset)
        if start >= 0:
            return Span(node.lineno, start + 1, node.lineno, start + 1 + len(node.name))
    return node


_HELP = "remove it, or package the workspace again"
