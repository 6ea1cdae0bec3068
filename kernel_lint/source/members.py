"""Attributes of abstract values."""

from __future__ import annotations

import ast
from functools import lru_cache

from kernel_lint import TYPE_CHECKING
from kernel_lint.source.domain import (
    NOTHING,
    UNKNOWN,
    Attr,
    Class,
    Container,
    Func,
    Instance,
    Namespace,
    Param,
    Partial,
    Qual,
    Super,
    Unknown,
    Value,
    outside,
    union,
)
from kernel_lint.source.domain import Values as ValueSet
from kernel_lint.source.names import join
from kernel_lint.source.scopes import BindingKind, FunctionNode, ScopeKind, ScopeTable, last_name
from kernel_lint.source.torch_names import returns_tensor

if TYPE_CHECKING:
    from kernel_lint.source.values import Values

MAX_CHAIN = 6
# Only says how the function of the same name that follows may be called.
_OVERLOAD = Qual("typing.overload")
_CLASS_SCOPE, _AUGMENTED = ScopeKind.CLASS, BindingKind.AUGMENTED
_MAPPING_CALLS = frozenset({"dict", "SimpleNamespace", "OrderedDict", "MappingProxyType"})


def receiver(scopes: ScopeTable, function: FunctionNode, name: str) -> Value | None:
    """Return what ``self`` or ``cls`` is when ``name`` is that parameter of a method."""
    if isinstance(function, ast.Lambda):
        return None
    scope = scopes.scope[function]
    if scope.kind is not _CLASS_SCOPE or not isinstance(scope.node, ast.ClassDef):
        return None
    positional = [*function.args.posonlyargs, *function.args.args]
    if not positional or positional[0].arg != name:
        return None
    decorators = {last_name(d) for d in function.decorator_list}
    if "staticmethod" in decorators:
        return None
    if "classmethod" in decorators or function.name in ("__new__", "__init_subclass__", "__class_getitem__"):
        return Class(scope.node)
    return Instance(scope.node)


def extend(base: Value, name: str) -> ValueSet:
    """Return the term ``base.name`` of a value about which nothing more is known."""
    length, inner = 0, base
    while inner.__class__ is Attr:
        length += 1
        inner = inner.base
    if length >= MAX_CHAIN or inner.__class__ is Unknown:
        return UNKNOWN
    return frozenset((Attr(base, name),))


@lru_cache(maxsize=16384)
def outside_attribute(path: str, name: str) -> ValueSet:
    """Return attribute ``name`` of what a dotted path reaches; the same set for the same attribute."""
    if name == "__dict__":
        return frozenset({Namespace(Qual(path))})
    if name == "__class__" and returns_tensor(path):
        return outside("torch.Tensor")
    return outside(join(path, name))


def attribute(values: Values, value: Value, name: str) -> ValueSet:
    """Return what ``value.name`` may be."""
    kind = value.__class__
    if (kind is Attr or kind is Param) and name != "__dict__":
        return extend(value, name)
    if kind is Qual:
        return outside_attribute(value.name, name)  # type: ignore[union-attr]
    if isinstance(value, Class):
        return class_attribute(values, value.node, name, None)
    if isinstance(value, Instance):
        return instance_attribute(values, value, name)
    if isinstance(value, Namespace) and value.base is None and value.scope is not None:
        if name == "__dict__":
            return frozenset({value})
        return values.name(name, value.scope)
    if isinstance(value, Super):
        return _super_attribute(values, value.cls, name)
    if isinstance(value, Func):
        return _function_attribute(values, value, name)
    if isinstance(value, Partial) and name == "value":
        # Of a member of an enumeration.
        return frozenset({value})
    if isinstance(value, Partial) and name == "func":
        return frozenset({value.function})
    if isinstance(value, Container) and isinstance(value.node, ast.Call):
        found = [values.of(k.value) for k in value.node.keywords if k.arg == name]
        if not found and Qual("collections.namedtuple()") in values.of(value.node.func):
            found = [values.of(argument) for argument in value.node.args]
        if found:
            return union(found)
    if name == "__dict__":
        return frozenset({Namespace(value)})
    return extend(value, name)


def _function_attribute(values: Values, value: Func, name: str) -> ValueSet:
    if name in ("__call__", "__wrapped__", "__func__", "fn", "value"):
        return frozenset({value})
    if name == "__globals__":
        return frozenset({Namespace(None, values.scopes.module)})
    if name == "__self__" and value.owner is not None:
        return frozenset({value.owner})
    return extend(value, name)


def decorated(values: Values, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ValueSet:
    """A decorated function is still that function; a local decorator may replace it."""
    plain: ValueSet = frozenset({Func(node)})
    for decorator in node.decorator_list:
        for value in values.of(decorator):
            if isinstance(value, Func):
                plain |= values.returned(value)
            elif value == _OVERLOAD:
                return NOTHING
    return plain


def bases(values: Values, cls: ast.ClassDef) -> ValueSet:
    """Return the base classes of ``cls`` as values."""
    return union([values.of(base) for base in cls.bases]) if cls.bases else NOTHING


def class_attribute(
    values: Values, cls: ast.ClassDef, name: str, owner: Value | None, seen: int = 0
) -> ValueSet:
    """Look ``name`` up in a class and its bases; functions come bound to ``owner``."""
    scope = values.scopes.inner[cls]
    found = scope.bindings.get(name)
    if found is not None:
        return frozenset(_bind(value, owner) for value in values.name(name, scope))
    if name == "__dict__":
        return frozenset({Namespace(owner or Class(cls))})
    if name == "__class__" and owner is not None:
        return frozenset({Class(cls)})
    if name in ("__bases__", "__mro__", "__base__", "__subclasses__"):
        return extend(Class(cls), name)
    if seen > 12:
        return UNKNOWN
    parts: list[ValueSet] = []
    for base in bases(values, cls):
        if isinstance(base, Class):
            parts.append(class_attribute(values, base.node, name, owner, seen + 1))
        elif isinstance(base, Qual):
            if name == "apply" and base.name == "torch.autograd.Function" and "forward" in scope.bindings:
                # Function.apply calls the class's own forward with a context in front.
                forward = values.name("forward", scope)
                return frozenset(Func(f.node, Instance(cls)) for f in forward if isinstance(f, Func))
            suffix = "()" if owner is not None else ""
            parts.append(frozenset({Qual(join(base.name + suffix, name))}))
        else:
            parts.append(UNKNOWN)
    return union(parts) if parts else extend(owner or Class(cls), name)


def _bind(value: Value, owner: Value | None) -> Value:
    if owner is not None and isinstance(value, Func) and value.owner is None:
        return Func(value.node, owner)
    return value


def instance_attribute(values: Values, value: Instance, name: str) -> ValueSet:
    """Look ``name`` up on an object: what its methods store, then its class."""
    stored = stored_attributes(values, value.cls, name)
    inherited = class_attribute(values, value.cls, name, value)
    parts = [stored] if stored else []
    for item in inherited:
        if isinstance(item, Func) and _is_property(item.node):
            parts.append(values.returned(item))
        elif not (stored and isinstance(item, (Attr, Unknown, Qual)) and _is_guess(item)):
            parts.append(frozenset({item}))
    return union(parts) if parts else UNKNOWN


def _is_guess(item: Value) -> bool:
    """A term made up for want of a definition, which a stored value makes superfluous."""
    return isinstance(item, (Attr, Unknown)) or (isinstance(item, Qual) and "()." in item.name)


def _is_property(node: FunctionNode) -> bool:
    if isinstance(node, ast.Lambda):
        return False
    return any(last_name(d) in ("property", "cached_property") for d in node.decorator_list)


def stored_attributes(values: Values, cls: ast.ClassDef, name: str) -> ValueSet:
    """Return every value stored as ``self.name`` (or on another instance) anywhere."""
    parts: list[ValueSet] = []
    family: set[ast.ClassDef] | None = None
    for target, binding in values.scopes.attribute_stores.get(name, ()):
        if binding.value is None or binding.kind is _AUGMENTED:
            continue
        classes = {owner.cls for owner in values.of(target.value) if owner.__class__ is Instance}
        if classes and cls not in classes and family is None:
            family = _family(values, cls)
        if cls in classes or (family is not None and not family.isdisjoint(classes)):
            parts.append(values.follow(values.of(binding.value), binding.path))
    for stored in values.sites.named_stores(name):
        parts.append(values.of(stored))
    if not parts:
        parts.extend(values.sites.constructor_keywords(cls, name))
    return union(parts) if parts else NOTHING


def _family(values: Values, cls: ast.ClassDef) -> set[ast.ClassDef]:
    family = {cls}
    pending = [cls]
    while pending:
        for base in bases(values, pending.pop()):
            if isinstance(base, Class) and base.node not in family:
                family.add(base.node)
                pending.append(base.node)
    for node in values.scopes.of_type(ast.ClassDef):
        if node not in family and any(isinstance(b, Class) and b.node is cls for b in bases(values, node)):
            family.add(node)
    return family


def stored_on(values: Values, node: ast.Attribute) -> ValueSet:
    """Return values stored under this attribute of something that is neither Qual nor Instance.

    ``f.cache = {}`` on a function, ``cfg.op = torch.matmul`` on an unknown object.
    """
    stores = values.scopes.attribute_stores.get(node.attr, ())
    owners = values.of(node.value)
    loose = [owner for owner in owners if isinstance(owner, (Func, Class, Param, Attr, Container))]
    if not loose:
        return NOTHING
    parts = [
        values.follow(values.of(binding.value), binding.path)
        for target, binding in stores
        if binding.value is not None and values.of(target.value) & frozenset(loose)
    ]
    return union(parts) if parts else NOTHING


def _super_attribute(values: Values, cls: ast.ClassDef, name: str) -> ValueSet:
    parts: list[ValueSet] = []
    for base in bases(values, cls):
        if isinstance(base, Class):
            parts.append(class_attribute(values, base.node, name, Instance(cls)))
        elif isinstance(base, Qual):
            parts.append(frozenset({Qual(join(base.name + "()", name))}))
    return union(parts) if parts else frozenset({Qual(f"builtins.object().{name}")})
