"""PyTorch operations that do a kernel's work, found on the host path from ``forward``."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from kernel_lint import TYPE_CHECKING
from kernel_lint.records import dataclass
from kernel_lint.source import members
from kernel_lint.source.domain import (
    Attr,
    Container,
    Func,
    Getter,
    Instance,
    Namespace,
    Param,
    Partial,
    Qual,
    Super,
    Unknown,
)
from kernel_lint.source.launches import Launches
from kernel_lint.source.scopes import FunctionNode, last_name, walk
from kernel_lint.source.torch_names import (
    GLUE,
    SHARED_METHODS,
    TENSOR_DUNDERS,
    TENSOR_ONLY_METHODS,
    is_compute,
    is_submodule,
    returns_tensor,
)

if TYPE_CHECKING:
    from typing import Any

_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.MatMult: "@", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
    ast.USub: "-", ast.UAdd: "+", ast.Invert: "~", ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=",
    ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip
# Functions and unknown things, of which a call says nothing here.
_NOT_CALLED = frozenset({Func, Param, Unknown})
_ANNOTATED = frozenset({ast.arg, ast.AnnAssign})
_METHODS = TENSOR_ONLY_METHODS | SHARED_METHODS
_BUILTINS = frozenset(
    f"builtins.{name}" for name in "sum abs pow max min divmod round sorted any all".split()
) | {"itertools.accumulate", "math.prod", "math.fsum", "math.sumprod"}
# Glue that adds up when it is told to.
_SCATTERING = frozenset("scatter scatter_ index_put index_put_ put put_".split())
_MODULE_CALLS = frozenset(
    {"torch.nn.Module.__call__", "torch.nn.Module._call_impl", "torch.nn.Module._wrapped_call_impl"}
)


@dataclass(frozen=True, slots=True)
class Place:
    """An operation: the node to mark and what to call it (```torch.softmax```, ```@```)."""

    node: ast.expr | ast.stmt
    what: str


def compute_places(
    launches: Launches,
    glue: tuple[str, ...] = (),
    compute: tuple[str, ...] = (),
    within: ast.AST | None = None,
) -> Iterator[Place]:
    """Yield the operations in host code on the path; only those inside ``within`` when given."""
    finder = _Finder(launches, frozenset(glue), frozenset(compute))
    yield from finder.places(within)


class _Finder:
    def __init__(self, launches: Launches, glue: frozenset[str], compute: frozenset[str]) -> None:
        self.launches = launches
        self.values = launches.values
        self.tensors = launches.tensors
        self.scopes = launches.values.scopes
        self.glue = glue
        self.compute = compute
        self._known: dict[str, bool] = {}

    def places(self, within: ast.AST | None) -> Iterator[Place]:
        host = self.launches.host
        inside = None if within is None else set(walk(within))
        finders: dict[type[ast.AST], Callable[[Any], Iterator[Place]]] = {
            ast.BinOp: self._binary,
            ast.AugAssign: self._augmented,
            ast.UnaryOp: self._unary,
            ast.Compare: self._compare,
            ast.Call: self._call,
            ast.Attribute: self._reference,
            ast.Subscript: self._reference,
        }
        scope_of = self.scopes.scope
        scopes = {scope for scope in self.scopes.inner.values() if scope.function in host}
        for kind, find in finders.items():
            for node in self.scopes.of_type(kind):
                if scope_of[node] in scopes and (inside is None or node in inside):
                    if not self._in_annotation(node):
                        yield from find(node)
        for node in self._compute_names(host):
            if (inside is None or node in inside) and not self._in_annotation(node):
                yield from self._reference(node)

    def _compute_names(self, host: set[FunctionNode]) -> Iterator[ast.Name]:
        """The names in host code that may stand for an operation."""
        known, read = self.values.memory, self.values.name
        for scope in self.scopes.inner.values():
            if scope.function in host:
                for name, nodes in scope.names.items():
                    for value in known.get(nodes[0]) or read(name, scope):
                        if value.__class__ is Qual and self._is_compute(value.name):
                            yield from nodes
                            break

    def _in_annotation(self, node: ast.AST) -> bool:
        parent = self.scopes.parent.get(node)
        return parent.__class__ in _ANNOTATED and getattr(parent, "annotation", None) is node

    def _is_compute(self, path: str) -> bool:
        known = self._known.get(path)
        if known is None:
            known = self._known[path] = is_compute(path, glue=self.glue, compute=self.compute)
        return known

    # -- operators ------------------------------------------------------------------

    def _binary(self, node: ast.BinOp) -> Iterator[Place]:
        if self.tensors.may_be_tensor(node.left) or self.tensors.may_be_tensor(node.right):
            yield Place(node, f"`{_OPERATORS[type(node.op)]}` on a tensor")
        elif isinstance(node.op, ast.MatMult):
            yield Place(node, "`@`")

    def _augmented(self, node: ast.AugAssign) -> Iterator[Place]:
        if (
            isinstance(node.op, ast.MatMult)
            or self.tensors.may_be_tensor(node.target)
            or self.tensors.may_be_tensor(node.value)
        ):
            yield Place(node, f"`{_OPERATORS[type(node.op)]}=` on a tensor")

    def _unary(self, node: ast.UnaryOp) -> Iterator[Place]:
        if not isinstance(node.op, ast.Not) and self.tensors.may_be_tensor(node.operand):
            yield Place(node, f"`{_OPERATORS[type(node.op)]}` on a tensor")

    def _compare(self, node: ast.Compare) -> Iterator[Place]:
        for op, right in zip(node.ops, node.comparators, strict=True):
            sign = _OPERATORS.get(type(op))
            none = isinstance(right, ast.Constant) and right.value is None
            if (
                sign
                and not none
                and (self.tensors.may_be_tensor(node.left) or self.tensors.may_be_tensor(right))
            ):
                yield Place(node, f"`{sign}` on a tensor")
                return

    # -- calls and references ---------------------------------------------------------

    def _call(self, node: ast.Call) -> Iterator[Place]:
        func = node.func
        if _adds_up(node) and (
            any(map(self.tensors.may_be_tensor, node.args))
            or (isinstance(func, ast.Attribute) and self.tensors.may_be_tensor(func.value))
        ):
            yield Place(node, f"adding up in `.{last_name(func)}()`")
            return
        for value in self.values.of(func):
            if isinstance(value, Qual):
                yield from self._external(node, value.name)
            elif isinstance(value, Attr):
                yield from self._method_value(node, value)
            elif value.__class__ in _NOT_CALLED:
                continue
            elif isinstance(value, Getter):
                yield from self._getter(node, value)
            elif (
                isinstance(value, Partial)
                and isinstance(value.function, Qual)
                and self._is_compute(value.function.name)
            ):
                yield Place(node, f"`{value.function.name}`")
            elif isinstance(value, Instance):
                yield from self._layer(node, value)
        if isinstance(func, ast.Attribute):
            yield from self._method(node, func)

    def _external(self, node: ast.Call, path: str) -> Iterator[Place]:
        if path in _BUILTINS:
            if any(self._tensor_or_holds(argument) for argument in node.args):
                yield Place(node, f"`{path.removeprefix('builtins.')}` of tensors")
        elif path.startswith("operator."):
            if self._is_compute(path) and (
                "matmul" in path or any(self.tensors.may_be_tensor(a) for a in node.args)
            ):
                yield Place(node, f"`{path}`")
        elif not isinstance(node.func, ast.Attribute) and returns_tensor(path.rpartition(".")[0]):
            name = path.rpartition(".")[2]
            if name not in GLUE and name not in self.glue:
                yield Place(node, f"`.{name}()`")
        elif path in _MODULE_CALLS or is_submodule(path):
            # Which module it is does not show: some layer that the model holds.
            held = self.values.of(node.args[0]) if path in _MODULE_CALLS and node.args else ()
            if any(isinstance(v, Qual) and self._is_compute(v.name + "()") for v in held) or (
                is_submodule(path) and self.launches.flow.implied.holds_layers
            ):
                yield Place(node, "a layer of `torch.nn`")
        elif self._is_compute(path) or self._is_compute(path + "()"):
            yield Place(node, f"`{path.replace('()', '')}`")

    def _tensor_or_holds(self, node: ast.expr) -> bool:
        if self.tensors.may_be_tensor(node):
            return True
        if isinstance(node, (ast.GeneratorExp, ast.ListComp)):
            return self.tensors.may_be_tensor(node.elt)
        holders = [v.node for v in self.values.of(node) if isinstance(v, Container)]
        return any(
            self.tensors.may_be_tensor(e)
            for h in holders
            if isinstance(h, (ast.List, ast.Tuple, ast.Set))
            for e in h.elts
        )

    def _getter(self, node: ast.Call, value: Getter) -> Iterator[Place]:
        # The key of an itemgetter may be a number.
        name = value.name.rpartition(".")[2] if value.kind == "method" else ""
        if name and self._is_method(name):
            if name in TENSOR_ONLY_METHODS or any(self.tensors.may_be_tensor(a) for a in node.args):
                yield Place(node, f"`.{name}()`")

    def _method_value(self, node: ast.Call, value: Attr) -> Iterator[Place]:
        """A method fetched by getattr: ``getattr(y, "softmax")(-1)``."""
        if node.func.__class__ is ast.Attribute:
            return
        if isinstance(value.base, (Param, Attr)):
            if self._is_method(value.name) and value.name in TENSOR_ONLY_METHODS:
                yield Place(node, f"`.{value.name}()`")
        if (
            isinstance(node.func, ast.Call)
            and len(node.func.args) >= 2
            and self.tensors.may_be_tensor(node.func.args[0])
        ):
            if self._is_method(value.name):
                yield Place(node, f"`.{value.name}()`")

    def _layer(self, node: ast.Call, value: Instance) -> Iterator[Place]:
        """A class of the file that takes its forward from a layer: ``class Act(nn.ReLU): ...``."""
        for method in members.class_attribute(self.values, value.cls, "forward", value):
            if isinstance(method, Qual) and self._is_compute(method.name):
                layer = method.name.partition("(")[0]
                yield Place(node, f"`{value.cls.name}`, a `{layer}`,")

    def _is_method(self, name: str) -> bool:
        if name in self.compute:
            return True
        return name not in self.glue and name in _METHODS

    def _method(self, node: ast.Call, func: ast.Attribute) -> Iterator[Place]:
        name = func.attr
        receivers = self.values.of(func.value)
        if any(isinstance(v, Instance) for v in receivers) and not self.tensors.may_be_tensor(func.value):
            return
        if name.startswith("__") and name in TENSOR_DUNDERS and self.tensors.may_be_tensor(func.value):
            yield Place(node, f"`.{name}()`")
        elif self.tensors.may_be_tensor(func.value):
            known_glue = name in GLUE or name in self.glue
            if name in self.compute or not (known_glue or name.startswith("_")):
                yield Place(node, f"`.{name}()`")
        elif self._is_method(name) and (name in TENSOR_ONLY_METHODS or name in self.compute):
            if not all(self._is_known_other(v) for v in receivers):
                yield Place(node, f"`.{name}()`")

    @staticmethod
    def _is_known_other(value: object) -> bool:
        if isinstance(value, Qual):
            return True
        return isinstance(value, (Container, Instance, Namespace, Super)) or type(value).__name__ in (
            "Const",
            "Func",
            "Class",
        )

    def _reference(self, node: ast.expr) -> Iterator[Place]:
        """A compute function that is handed on without being called here."""
        if not isinstance(getattr(node, "ctx", None), ast.Load):
            return
        parent: Any = self.scopes.parent.get(node)
        above = parent.__class__
        if above is ast.Call and parent.func is node:
            return
        if (above is ast.Attribute or above is ast.Subscript) and parent.value is node:
            return
        if isinstance(node, ast.Attribute) and self._is_method(node.attr) and isinstance(parent, ast.Call):
            # y.relu_ handed on to be called later.
            if node in parent.args and self.tensors.may_be_tensor(node.value):
                yield Place(node, f"`.{node.attr}`")
                return
        for value in self.values.of(node):
            if isinstance(value, Qual) and self._is_compute(value.name) and not value.name.endswith(")"):
                if self._is_handed_on(node, parent) and self._meets_tensors(value.name, parent):
                    yield Place(node, f"`{value.name}`")

    def _meets_tensors(self, path: str, parent: ast.AST | None) -> bool:
        """An ``operator`` function works on numbers too: look at what it is handed on with."""
        if not path.startswith("operator.") or not isinstance(parent, ast.Call):
            return not path.startswith("operator.")
        return any(self._tensor_or_holds(argument) for argument in parent.args)

    def _is_handed_on(self, node: ast.expr, parent: ast.AST | None) -> bool:
        """Not the target side of an alias that a later call will show anyway."""
        return isinstance(
            parent, (ast.Call, ast.keyword, ast.Return, ast.List, ast.Tuple, ast.Dict, ast.Starred, ast.IfExp)
        )


def _adds_up(node: ast.Call) -> bool:
    """``index_put_(i, v, accumulate=True)``, ``scatter_(0, i, v, reduce="add")``."""
    name = last_name(node.func)
    if name not in _SCATTERING:
        return False
    told = [k.value for k in node.keywords if k.arg in ("accumulate", "reduce")]
    if "put" in name:
        told += node.args[2:3]
    return any(not isinstance(v, ast.Constant) or v.value not in (None, False) for v in told)
