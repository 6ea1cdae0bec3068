"""KL305."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from kernel_lint import TYPE_CHECKING
from kernel_lint.diagnostics import Severity
from kernel_lint.rule import Context, Finding, Invalid, cases
from kernel_lint.rules._reads import attribute_reads, is_own
from kernel_lint.rules._samples import candidate
from kernel_lint.rules._shallow import ShallowPaths
from kernel_lint.rules._stores import Store, stores
from kernel_lint.source.domain import (
    Attr,
    Class,
    Container,
    Func,
    Instance,
    Param,
    Partial,
    Qual,
    Value,
    in_order,
)
from kernel_lint.source.scopes import FunctionNode, ScopeKind, last_name

if TYPE_CHECKING:
    from typing import ClassVar

_MADE = "makes tensors that are not plain tensors"
_HOOKS = frozenset({"__torch_function__", "__torch_dispatch__"})
_MAKERS = frozenset({"as_subclass", "_make_subclass", "_make_wrapper_subclass"})
# What lets an object stand in for a tensor and do its work when it is looked at.
_PROXY = frozenset(
    """__getattr__ __getattribute__ __array__ __array_interface__ __cuda_array_interface__ __dlpack__ __getitem__ __missing__
    __iter__ __eq__ __sub__ __rsub__ __float__ __torch_function__ __torch_dispatch__ __class__ __call__""".split()
)
_TENSORS = frozenset(
    """torch.Tensor torch._C.TensorBase torch._C._TensorBase torch.nn.Parameter torch.nn.Buffer torch.nn.parameter.Buffer
    torch.nn.parameter.UninitializedParameter torch.nn.parameter.UninitializedBuffer torch.nn.parameter.UninitializedTensorMixin
    torch.FloatTensor torch.HalfTensor torch.BFloat16Tensor torch.DoubleTensor torch.IntTensor torch.LongTensor
    torch.cuda.FloatTensor torch.cuda.HalfTensor torch.cuda.BFloat16Tensor torch.UntypedStorage torch.TypedStorage
    torch.masked.MaskedTensor torch.fx.Proxy numpy.ndarray""".split()
)
_FACTORIES = (
    "torch.cuda.",
    "torch.nn.",
    "torch.autograd.",
    "torch.utils.",
    "torch.backends.",
    "torch.ops.",
    "torch.library.",
)
_NO_TENSORS = frozenset(
    "device dtype Generator Size finfo iinfo no_grad inference_mode enable_grad get_device_module".split()
)
# Setting these is part of what a tensor is for.
_FINE = frozenset({"requires_grad", "data", "grad", "names", "retains_grad"})
# What an evaluator calls on an output; other names may hold notes.
_METHODS = frozenset(
    """cpu cuda to float half double bfloat16 numpy item tolist detach clone contiguous isnan isinf isfinite allclose equal eq
    ne sub add mul abs sum mean max min norm view reshape shape dtype device size stride numel dim is_contiguous data_ptr
    __eq__ __sub__ __float__ __array__ __len__ __getitem__ __iter__ __repr__ __bool__""".split()
)
_CLASS_MAKERS = frozenset({"builtins.type", "types.new_class", "builtins.type.__new__"})


class LazyTensor(ShallowPaths):
    """
    ## What it does
    Finds outputs that only look like tensors: subclasses of `torch.Tensor`, `__torch_function__`, `__torch_dispatch__`,
    proxies returned from `forward`, methods put onto a tensor (`y.cpu = ...`), and functions or generators returned in place
    of a result.

    ## Why is this bad?
    Such an object does its work when the evaluator compares it, after the clock has stopped.

    ## What is allowed
    `isinstance(x, torch.Tensor)`, `torch.autograd.Function`, named tuples and dataclasses of tensors, a `forward` that
    returns a dict of tensors, `requires_grad`.

    ## How to fix it
    Return the tensor that the kernel wrote.

    ## Example
    ```python
    class _Lazy(torch.Tensor):
        pass
    ```

    ## References
    - Contract clause P1, and the evaluator's protocol: the same structure as the reference, a tensor for a tensor.
    - PyTorch, Extending: subclassing `torch.Tensor`.
    """

    code = "KL305"
    name = "lazy-tensor"
    clauses = ("P1",)
    FORBIDDEN: ClassVar[Mapping[str, str]] = {
        "torch.overrides": _MADE,
        "torch.utils._python_dispatch": _MADE,
        "torch._subclasses": _MADE,
        "torch._lazy": _MADE,
        "torch.lazy": _MADE,
        "torch.fx.Proxy": _MADE,
        "torch.masked": _MADE,
        "torch._C._disabled_torch_function_impl": _MADE,
        "torch._C.DisableTorchFunction": _MADE,
        "torch._C.DisableTorchFunctionSubclass": _MADE,
        "torch.nn.parameter.UninitializedParameter": _MADE,
        "torch.nn.parameter.UninitializedBuffer": _MADE,
        "torch.autograd.graph.saved_tensors_hooks": _MADE,
    }
    ALLOWED = frozenset({"torch.overrides.has_torch_function", "torch.overrides.is_tensor_like"})
    HELP = "return the tensor that the kernel wrote"
    VALID = cases(
        lambda: (
            candidate(before="if not isinstance(x, torch.Tensor):\n    raise TypeError('tensor expected')"),
            "from typing import NamedTuple\nclass TensorSpec(NamedTuple):\n    rows: int\n",
            "import torch\nclass F(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        ctx.n = 1\n        return x\n",
            candidate(after="y.requires_grad = False"),
            candidate(
                top="class _Lazy:\n    def __getattr__(self, name):\n        return name\n\n",
                init="self.names = _Lazy()",
            ),
            candidate(after="f = lambda t: t\nf(y)"),
            "import torch\nT = torch.Tensor\ndef f(x: T) -> T:\n    return x\n",
            candidate(
                top="import dataclasses\n@dataclasses.dataclass\nclass Out:\n    y: object\n\n"
            ).replace("return y", "return Out(y=y)"),
            "class Cache(dict):\n    def __missing__(self, key):\n        return key\n\nC = Cache()\n",
        )
    )
    INVALID = cases(lambda: (
        Invalid("import torch\nclass L(torch.Tensor):\n    pass\n", lines=(2,)),
        Invalid("import torch\nB = torch.Tensor\nclass L(B):\n    pass\n", lines=(3,)),
        Invalid("import torch\nclass L(torch.nn.Parameter):\n    pass\n", lines=(2,)),
        Invalid("import torch\nL = type('L', (torch.Tensor,), {})\n", lines=(2,)),
        Invalid("def f(x):\n    class L(type(x)):\n        pass\n    return L\n", lines=(2,)),
        Invalid("class P:\n    @classmethod\n    def __torch_function__(cls, f, t, a=(), k=None):\n        return f(*a)\n", lines=(3,)),
        Invalid("class P:\n    __torch_dispatch__ = classmethod(id)\n", lines=(2,)),
        Invalid("class P:\n    pass\n\nsetattr(P, '__torch_' + 'function__', id)\n", lines=(4,)),
        Invalid("def f(y, L):\n    return y.as_subclass(L)\n", lines=(2,)),
        Invalid("def f(y, L):\n    return getattr(y, 'as_sub' + 'class')(L)\n", lines=(2,)),
        Invalid(candidate(after="y.cpu = lambda: y")),
        Invalid(candidate(imports="import types", after="y.float = types.MethodType(lambda s: s, y)")),
        Invalid(candidate(after="setattr(y, 'cpu', lambda: y)")),
        Invalid(candidate(after="y.__dict__['cpu'] = lambda: y")),
        Invalid(candidate(after="y.__class__ = type('L', (), {})")),
        Invalid(candidate(top="class D:\n    def __init__(self, f):\n        self.f = f\n    def __getattr__(self, n):\n        return getattr(self.f(), n)\n\n")
                .replace("return y", "return D(lambda: y)")),
        Invalid(candidate().replace("return y", "return lambda: y")),
        Invalid(candidate().replace("return y", "return {'y': lambda: y}")),
        Invalid(candidate(imports="from functools import partial").replace("return y", "return partial(_double, x, y)")),
        Invalid(candidate().replace("return y", "yield y")),
        Invalid(candidate(top="class Out:\n    @property\n    def y(self):\n        return _double\n\n").replace("return y", "return Out()")),
        Invalid("from torch.utils._python_dispatch import TorchDispatchMode\n", lines=(1,)),
        Invalid("import torch.overrides as o\n", lines=(1,)),
    ))  # fmt: skip

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield subclasses and hooks, then stores onto tensors, then what forward returns."""
        yield from super().check(context)
        yield from self._classes(context)
        for node, name, target in attribute_reads(context, _MAKERS):
            if not is_own(context, target):
                yield Finding(node, f"`{name}` {_MADE}", self.HELP)
        yield from self._stores(context)
        yield from self._returned(context)

    def _classes(self, context: Context) -> Iterator[Finding]:
        scopes, values = context.module.scopes, context.module.values
        for cls in scopes.of_type(ast.ClassDef):
            if any(_is_tensor_class(value) for base in cls.bases for value in values.of(base)):
                yield Finding(cls, f"`{cls.name}` is a subclass of a tensor", self.HELP)
            for name in _HOOKS & scopes.inner[cls].bindings.keys():
                yield Finding(
                    scopes.inner[cls].bindings[name][0].node,
                    f"`{name}` takes over what PyTorch does",
                    self.HELP,
                )
        for call in context.module.survey.calls_of(_CLASS_MAKERS):
            if len(call.args) >= 2:
                parents = call.args[2] if len(call.args) > 3 else call.args[1]
                if any(_is_tensor_class(value) for value in values.follow(values.of(parents), ("*",))):
                    yield Finding(call, "a subclass of a tensor is made", self.HELP)

    def _stores(self, context: Context) -> Iterator[Finding]:
        inputs = set(context.module.flow.entries)
        for store in stores(context):
            if store.name in _HOOKS:
                yield Finding(store.node, f"`{store.name}` takes over what PyTorch does", self.HELP)
            elif store.item or store.name in _FINE:
                continue
            elif store.name == "__class__":
                yield Finding(store.node, "an object is given another class", self.HELP)
            elif any(_is_tensor(value, inputs) for value in store.target):
                yield from self._onto_tensor(context, store)

    def _onto_tensor(self, context: Context, store: Store) -> Iterator[Finding]:
        found = context.module.values.of(store.value) if store.value is not None else frozenset()
        runs = any(isinstance(value, (Func, Partial, Class, Instance)) for value in found)
        runs = runs or any(isinstance(v, Qual) and "()" not in v.name for v in found)
        runs = runs or store.value is None or store.name in _METHODS
        severity = None if runs else Severity.INFO
        yield Finding(
            store.node, f"`{store.name or '...'}` of a tensor is replaced", self.HELP, severity=severity
        )

    def _returned(self, context: Context) -> Iterator[Finding]:
        flow, values, scopes = context.module.flow, context.module.values, context.module.scopes
        for entry in flow.entries:
            owner = scopes.scope[entry]
            if (
                owner.kind is not ScopeKind.CLASS
                or isinstance(entry, ast.Lambda)
                or entry.name not in ("forward", "__call__")
            ):
                continue
            for node in values.sites.returns(entry):
                why = _stands_in(context, values.of(node), 0)
                statement = scopes.statement(node)
                if _yields(context, node):
                    why = "a generator does the work only when someone iterates over it"
                if why is not None and statement is not None:
                    yield Finding(node, why, self.HELP)


def _is_tensor_class(value: Value) -> bool:
    if isinstance(value, Attr):
        return value.name == "__class__"
    return isinstance(value, Qual) and (value.name in _TENSORS or value.name.endswith(".__class__"))


def _is_tensor(value: Value, inputs: set[FunctionNode]) -> bool:
    """Whether a value is surely a tensor: an input of forward, or what a function of torch made."""
    if isinstance(value, Param):
        return value.function in inputs
    if not isinstance(value, Qual) or "()" not in value.name or value.name.startswith(_FACTORIES):
        return False
    first = value.name.removeprefix("torch.").partition("(")[0]
    if not value.name.startswith("torch.") or "." in first:
        return False
    # An attribute of a tensor that is no tensor itself: y.device, y.shape.
    return first not in _NO_TENSORS and not value.name.endswith((".device", ".shape", ".dtype", ".storage()"))


def _yields(context: Context, node: ast.expr) -> bool:
    return isinstance(context.module.scopes.parent.get(node), (ast.Yield, ast.YieldFrom))


def _stands_in(context: Context, found: frozenset[Value], depth: int) -> str | None:
    """Say why a returned value is no result yet, or return None."""
    for value in in_order(found):
        if isinstance(value, (Func, Partial)):
            return "a function is returned in place of a result"
        if isinstance(value, Instance):
            names = (_PROXY & _class_names(context, value.cls, 0)) | _properties(value.cls)
            if names:
                return f"`{value.cls.name}` stands in for a tensor: it has `{sorted(names)[0]}`"
        if isinstance(value, Qual) and value.name in (
            "weakref.proxy()",
            "builtins.map()",
            "builtins.filter()",
            "builtins.iter()",
        ):
            return "an object is returned that does the work only when it is used"
        if isinstance(value, Container) and depth < 3:
            why = _in_container(context, value.node, depth)
            if why is not None:
                return why
    return None


def _in_container(context: Context, node: ast.expr, depth: int) -> str | None:
    if isinstance(node, ast.GeneratorExp):
        return "a generator does the work only when someone iterates over it"
    parts: list[ast.expr] = []
    if isinstance(node, ast.Dict):
        parts = node.values
    elif isinstance(node, (ast.List, ast.Tuple)):
        parts = node.elts
    elif isinstance(node, ast.Call):
        parts = [keyword.value for keyword in node.keywords]
    elif isinstance(node, (ast.ListComp, ast.SetComp)):
        parts = [node.elt]
    elif isinstance(node, ast.DictComp):
        parts = [node.value]
    for part in parts:
        why = _stands_in(context, context.module.values.of(part), depth + 1)
        if why is not None:
            return why
    return None


def _properties(cls: ast.ClassDef) -> set[str]:
    """The attributes of a class that run code when they are read."""
    return {
        item.name
        for item in cls.body
        if isinstance(item, ast.FunctionDef)
        and any(last_name(d) in ("property", "cached_property") for d in item.decorator_list)
    }


def _class_names(context: Context, cls: ast.ClassDef, depth: int) -> set[str]:
    """The names that a class of the file and its bases in the file define."""
    names = set(context.module.scopes.inner[cls].bindings)
    if any(
        isinstance(d, (ast.Name, ast.Attribute, ast.Call)) and "dataclass" in ast.dump(d)
        for d in cls.decorator_list
    ):
        names -= {"__eq__"}
    for base in cls.bases:
        for value in context.module.values.of(base):
            if isinstance(value, Class) and depth < 6:
                names |= _class_names(context, value.node, depth + 1)
    return names
