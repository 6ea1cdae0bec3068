"""What calls give: functions of the module, and the functions outside that the analysis knows."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import lru_cache

from kernel_lint import TYPE_CHECKING
from kernel_lint.source import by_name, items, members
from kernel_lint.source.domain import (
    NOTHING,
    UNKNOWN,
    Attr,
    Class,
    Const,
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
    Value,
    constants,
    outside,
    union,
)
from kernel_lint.source.domain import Values as ValueSet
from kernel_lint.source.foldable import operands_may_fold
from kernel_lint.source.names import canonical
from kernel_lint.source.pure import PURE
from kernel_lint.source.scopes import ScopeKind
from kernel_lint.source.torch_names import returns_tensor

if TYPE_CHECKING:
    from kernel_lint.source.values import Values

# -- calls ---------------------------------------------------------------------------


def call(values: Values, node: ast.Call) -> ValueSet:
    """Return what a call may give."""
    functions = values.of(node.func)
    if len(functions) == 1:
        (function,) = functions
        return _call_value(values, function, node)
    return union([_call_value(values, value, node) for value in functions])


def plain(value: Value) -> ValueSet | None:
    """Return what a call of a value gives, or None where it depends on something else."""
    kind = value.__class__
    if kind is Qual:
        return _plain_call(value.name)  # type: ignore[union-attr]
    if kind is Attr and value.base.__class__ in _PLAIN_OWNERS:  # type: ignore[union-attr]
        return members.extend(value, "()")
    return None


def _call_value(values: Values, value: Value, node: ast.Call) -> ValueSet:
    kind = value.__class__
    if kind is Qual:
        return _call_qual(values, value.name, node)  # type: ignore[union-attr]
    if kind is Attr:
        return _call_method(values, value, node)  # type: ignore[arg-type]
    if isinstance(value, Func):
        return values.returned(value)
    if isinstance(value, Class):
        return frozenset({Instance(value.node)})
    if isinstance(value, Instance):
        return _call_instance(values, value)
    if isinstance(value, Partial):
        return _call_value(
            values, value.function, value.call if isinstance(value.function, Qual) and not node.args else node
        )
    if isinstance(value, Getter):
        return _call_getter(values, value, node)
    return UNKNOWN if isinstance(value, Unknown) else members.extend(value, "()")


def _call_instance(values: Values, value: Instance) -> ValueSet:
    for name in ("__call__", "forward"):
        found = [f for f in members.class_attribute(values, value.cls, name, value) if isinstance(f, Func)]
        if found:
            return union([values.returned(f) for f in found])
    return members.extend(value, "()")


def _call_getter(values: Values, getter: Getter, node: ast.Call) -> ValueSet:
    if not node.args:
        return UNKNOWN
    target = values.of(node.args[0])
    if getter.kind == "item":
        return union([items.item(values, value, frozenset({Const(getter.name)})) for value in target])
    for part in getter.name.split("."):
        target = values.attribute(target, part)
    if getter.kind == "method":
        return union([_call_value(values, value, node) for value in target])
    return target


def _call_method(values: Values, value: Attr, node: ast.Call) -> ValueSet:
    base, name = value.base, value.name
    if base.__class__ in _PLAIN_OWNERS:
        return members.extend(value, "()")
    if isinstance(base, Const):
        if base.value is None and len(values.of(node.func)) == 1:
            # What a function without a return statement gives has no methods.
            return UNKNOWN
        found = values.fold(node)
        return frozenset({found}) if found is not None else UNKNOWN
    if name in ("get", "pop", "__getitem__", "setdefault") and node.args:
        if isinstance(base, (Namespace, Container)):
            keys = values.of(node.args[0])
            parts = [items.item(values, base, keys)]
            parts.extend(values.of(default) for default in node.args[1:])
            if isinstance(node.func, ast.Attribute):
                parts.append(items.stored_items(values, node.func.value))
            return union(parts)
    if isinstance(base, Container) and name in ("values", "items", "keys"):
        return frozenset({value if name != "keys" else base})
    if isinstance(base, Container) and name in ("copy", "popleft", "pop", "__iter__"):
        return items.elements(values, base.node) if name in ("pop", "popleft") else frozenset({base})
    return members.extend(value, "()")


def _call_qual(values: Values, path: str, node: ast.Call) -> ValueSet:
    plain = _plain_call(path)
    if plain is not None:
        return plain
    special = _SPECIAL.get(path)
    if special is not None:
        return special(values, node)
    if path == "builtins.map" or (path in PURE and operands_may_fold(values, node.args)):
        found = values.fold(node)
        if found is not None:
            return frozenset({found})
    if path.endswith((".__getattribute__", ".__getattr__")):
        return by_name.getattribute(values, path, node)
    if path.startswith("sys.modules.") and path.rpartition(".")[2] in (
        "get",
        "pop",
        "__getitem__",
        "setdefault",
    ):
        return items.item(values, Qual("sys.modules"), values.of(node.args[0])) if node.args else UNKNOWN
    if path.endswith("().__call__"):
        return frozenset({Qual(path[: -len(".__call__")] + "()")})
    if path in _IDENTITY_FACTORIES and node.args:
        return values.of(node.args[0])
    return outside(canonical(path + "()"))


@lru_cache(maxsize=4096)
def _plain_call(path: str) -> ValueSet | None:
    """Return what a call of an ordinary function gives; None where more is known of it."""
    known = path in _SPECIAL or path in PURE or path == "builtins.map" or path in _IDENTITY_FACTORIES
    last = path.rpartition(".")[2]
    if known or last in ("__getattribute__", "__getattr__", "__call__") or path.startswith("sys.modules."):
        return None
    return outside(canonical(path + "()"))


def _partial(values: Values, node: ast.Call) -> ValueSet:
    if not node.args:
        return UNKNOWN
    special = [v for v in values.of(node.args[0]) if isinstance(v, Qual) and v.name == "builtins.getattr"]
    if special and len(node.args) == 2:
        return union([members.attribute(values, v, "__getattribute__") for v in values.of(node.args[1])])
    return frozenset(Partial(value, node) for value in values.of(node.args[0]))


def _getter(kind: str) -> Callable[[Values, ast.Call], ValueSet]:
    def make(values: Values, node: ast.Call) -> ValueSet:
        if not node.args:
            return UNKNOWN
        texts = [t for t in constants(values.of(node.args[0])) if isinstance(t, str) or kind == "item"]
        return frozenset(Getter(kind, t) for t in texts) or UNKNOWN

    return make


def _argument(index: int) -> Callable[[Values, ast.Call], ValueSet]:
    def pick(values: Values, node: ast.Call) -> ValueSet:
        return values.of(node.args[index]) if len(node.args) > index else UNKNOWN

    return pick


def _lru_cache(values: Values, node: ast.Call) -> ValueSet:
    """``lru_cache(f)`` is f; ``lru_cache(maxsize)`` is a decorator."""
    given = values.of(node.args[0]) if node.args else NOTHING
    functions = frozenset(value for value in given if not isinstance(value, (Const, Unknown)))
    return functions or frozenset({Qual("functools.lru_cache()")})


def _element(values: Values, node: ast.Call) -> ValueSet:
    return values.follow(values.of(node.args[0]), ("*",)) if node.args else UNKNOWN


def _collection(values: Values, node: ast.Call) -> ValueSet:
    """``list(x)`` holds what x holds; a pure one is a constant already."""
    found = values.fold(node) if operands_may_fold(values, node.args) else None
    if found is not None:
        return frozenset({found})
    if not node.args:
        return frozenset({Container(node)})
    inner = values.of(node.args[0])
    kept = any(isinstance(v, (Container, Attr)) or _is_loaded(v) for v in inner)
    return inner if kept else UNKNOWN


def _is_loaded(value: Value) -> bool:
    """Whether a value is a collection of the loaded modules: ``list`` of it holds them too."""
    return isinstance(value, Qual) and value.name.startswith("sys.modules.")


def _mapping(values: Values, node: ast.Call) -> ValueSet:
    if node.keywords or not node.args:
        return frozenset({Container(node)})
    return values.of(node.args[0])


def _self_container(values: Values, node: ast.Call) -> ValueSet:
    return frozenset({Container(node)})


def _super(values: Values, node: ast.Call) -> ValueSet:
    """``super()`` in a method; ``super(type(x), x)`` of something outside the module reaches x itself."""
    if len(node.args) == 2:
        objects = values.of(node.args[1])
        found = [
            v if isinstance(v, Qual) else Super(v.cls) for v in objects if isinstance(v, (Qual, Instance))
        ]
        if found:
            return frozenset(found)
    scope = values.scopes.scope[node]
    while scope.kind is not ScopeKind.CLASS:
        if scope.parent is None:
            return UNKNOWN
        scope = scope.parent
    assert isinstance(scope.node, ast.ClassDef)
    return frozenset({Super(scope.node)})


def _type(values: Values, node: ast.Call) -> ValueSet:
    if len(node.args) != 1:
        return frozenset({Qual("builtins.type()")})
    parts: list[ValueSet] = []
    for value in values.of(node.args[0]):
        if isinstance(value, Instance):
            parts.append(frozenset({Class(value.cls)}))
        elif isinstance(value, Qual) and returns_tensor(value.name):
            parts.append(frozenset({Qual("torch.Tensor")}))
        elif isinstance(value, Qual) and value.name.endswith("()"):
            parts.append(frozenset({Qual(value.name[:-2])}))
        else:
            parts.append(members.extend(value, "__class__"))
    return union(parts) if parts else UNKNOWN


def _method_type(values: Values, node: ast.Call) -> ValueSet:
    return values.of(node.args[0]) if node.args else UNKNOWN


def _reduce(values: Values, node: ast.Call) -> ValueSet:
    if not node.args:
        return UNKNOWN
    if len(node.args) >= 2:
        functions = values.of(node.args[0])
        if Qual("builtins.getattr") in functions:
            return _reduced_getattr(values, node)
        return union(
            [_call_value(values, f, node) for f in functions if not isinstance(f, Qual)] or [UNKNOWN]
        )
    return UNKNOWN


def _reduced_getattr(values: Values, node: ast.Call) -> ValueSet:
    """``functools.reduce(getattr, ["nn", "functional"], torch)``."""
    names = values.fold(node.args[1])
    if names is None or len(node.args) < 3:
        return UNKNOWN
    target = values.of(node.args[2])
    for name in names.value:
        if not isinstance(name, str):
            return UNKNOWN
        target = values.attribute(target, name)
    return target


def _modules(values: Values, node: ast.Call) -> ValueSet:
    """``nn.ModuleList([...])`` and ``nn.ModuleDict({...})`` hold what they are given."""
    given = values.of(node.args[0]) if node.args else NOTHING
    held = frozenset(value for value in given if isinstance(value, Container))
    return held or (given and outside(canonical(_path(values, node) + "()"))) or frozenset({Container(node)})


def _sequential(values: Values, node: ast.Call) -> ValueSet:
    """``nn.Sequential`` of modules of the file is as good as any of them; else it is a layer."""
    parts = [
        values.follow(values.of(part.value), ("*",)) | items.stored_items(values, part.value)
        if isinstance(part, ast.Starred)
        else values.of(part)
        for part in node.args
    ]
    layers = union(parts) if parts else NOTHING
    own = frozenset(value for value in layers if isinstance(value, Instance))
    return own if own and own == layers else own | outside("torch.nn.Sequential()")


def _path(values: Values, node: ast.Call) -> str:
    return next(value.name for value in values.of(node.func) if isinstance(value, Qual))


def _field(values: Values, node: ast.Call) -> ValueSet:
    """``dataclasses.field(default=...)`` stands for its default."""
    parts = [values.of(k.value) for k in node.keywords if k.arg == "default"]
    for keyword in node.keywords:
        if keyword.arg == "default_factory":
            parts += [_call_value(values, value, node) for value in values.of(keyword.value)]
    return union(parts) if parts else outside("dataclasses.field()")


# Of a method of such a thing nothing is known.
_PLAIN_OWNERS = frozenset({Attr, Param})
_IDENTITY_FACTORIES = frozenset(
    {
        "functools.lru_cache()",
        "functools.cache",
        "functools.wraps()",
        "torch.no_grad()",
        "torch.inference_mode()",
        "torch.enable_grad()",
        "torch.set_grad_enabled()",
        "contextlib.contextmanager",
        "staticmethod",
        "atexit.register",
    }
)
_SPECIAL: dict[str, Callable[[Values, ast.Call], ValueSet]] = {
    "builtins.getattr": by_name.attribute_by_name,
    "inspect.getattr_static": by_name.attribute_by_name,
    "builtins.object.__getattribute__": by_name.attribute_by_name,
    "builtins.type.__getattribute__": by_name.attribute_by_name,
    "importlib.import_module": by_name.import_module,
    "builtins.__import__": by_name.dunder_import,
    "pydoc.locate": by_name.locate,
    "pkgutil.resolve_name": by_name.locate,
    "logging.config._resolve": by_name.locate,
    "builtins.vars": by_name.namespace,
    "builtins.globals": by_name.namespace,
    "builtins.locals": by_name.namespace,
    "functools.partial": _partial,
    "functools.partialmethod": _partial,
    "operator.attrgetter": _getter("attr"),
    "operator.methodcaller": _getter("method"),
    "operator.itemgetter": _getter("item"),
    "functools.lru_cache": _lru_cache,
    "functools.cache": _argument(0),
    "functools.reduce": _reduce,
    "copy.copy": _argument(0),
    "copy.deepcopy": _argument(0),
    "typing.cast": _argument(1),
    "builtins.staticmethod": _argument(0),
    "builtins.classmethod": _argument(0),
    "builtins.property": _argument(0),
    "builtins.iter": _argument(0),
    "builtins.next": _element,
    "builtins.reversed": _argument(0),
    "builtins.list": _collection,
    "builtins.tuple": _collection,
    "builtins.set": _collection,
    "builtins.frozenset": _collection,
    "builtins.sorted": _collection,
    "builtins.filter": _argument(1),
    "builtins.dict": _mapping,
    "collections.OrderedDict": _mapping,
    "types.MappingProxyType": _mapping,
    "collections.ChainMap": _mapping,
    "collections.deque": _collection,
    "collections.namedtuple()": _self_container,
    "dataclasses.field": _field,
    "torch.nn.ModuleList": _modules,
    "torch.nn.ModuleDict": _modules,
    "torch.nn.Sequential": _sequential,
    "types.SimpleNamespace": _self_container,
    "argparse.Namespace": _self_container,
    "builtins.enumerate": _self_container,
    "builtins.zip": _self_container,
    "builtins.super": _super,
    "builtins.type": _type,
    "types.MethodType": _method_type,
    "builtins.eval": by_name.evaluate,
}
