"""Attributes, items and elements of abstract values."""

from __future__ import annotations

import ast

from kernel_lint import TYPE_CHECKING
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
from kernel_lint.source.names import join
from kernel_lint.source.scopes import FunctionNode, ScopeKind, ScopeTable, Step, last_name
from kernel_lint.source.torch_names import returns_tensor

if TYPE_CHECKING:
    from kernel_lint.source.values import Values

MAX_CHAIN = 6
_MAPPING_CALLS = frozenset({"dict", "SimpleNamespace", "OrderedDict", "MappingProxyType"})


def receiver(scopes: ScopeTable, function: FunctionNode, name: str) -> Value | None:
    """Return what ``self`` or ``cls`` is when ``name`` is that parameter of a method."""
    if isinstance(function, ast.Lambda):
        return None
    scope = scopes.scope[function]
    if scope.kind is not ScopeKind.CLASS or not isinstance(scope.node, ast.ClassDef):
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


def attribute(values: Values, value: Value, name: str) -> ValueSet:
    """Return what ``value.name`` may be."""
    if isinstance(value, Qual):
        if name == "__dict__":
            return frozenset({Namespace(value)})
        if name == "__class__" and returns_tensor(value.name):
            return outside("torch.Tensor")
        return outside(join(value.name, name))
    if isinstance(value, (Attr, Param)) and name != "__dict__":
        return extend(value, name)
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
    if isinstance(value, Partial) and name == "func":
        return frozenset({value.function})
    if isinstance(value, Container) and isinstance(value.node, ast.Call):
        found = [values.of(k.value) for k in value.node.keywords if k.arg == name]
        if found:
            return union(found)
    if name == "__dict__":
        return frozenset({Namespace(value)})
    return extend(value, name)


def _function_attribute(values: Values, value: Func, name: str) -> ValueSet:
    if name in ("__call__", "__wrapped__", "__func__", "fn"):
        return frozenset({value})
    if name == "__globals__":
        return frozenset({Namespace(None, values.scopes.module)})
    if name == "__self__" and value.owner is not None:
        return frozenset({value.owner})
    return extend(value, name)


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
    stores = values.scopes.attribute_stores.get(name, ())
    family = _family(values, cls) if stores else frozenset()
    for target, binding in stores:
        if binding.value is None or binding.kind.value == "augmented":
            continue
        owners = values.of(target.value)
        if any(isinstance(owner, Instance) and owner.cls in family for owner in owners):
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
    for node in values.scopes.nodes.get(ast.ClassDef, ()):
        assert isinstance(node, ast.ClassDef)
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


# -- items and elements -----------------------------------------------------------


def subscript(values: Values, node: ast.Subscript) -> ValueSet:
    """Return what ``x[k]`` may be."""
    bases_, sliced = values.of(node.value), isinstance(node.slice, ast.Slice)
    if sliced or Const in map(type, bases_):
        found = values.fold(node)
        if found is not None:
            return frozenset({found})
    if sliced:
        parts = [frozenset({base}) if isinstance(base, Container) else extend_item(base) for base in bases_]
    else:
        keys = values.of(node.slice)
        parts = [item(values, base, keys) for base in bases_]
    stored = stored_items(values, node.value)
    if stored or not parts:
        parts.append(stored)
    return union(parts)


def extend_item(base: Value) -> ValueSet:
    """Return the term ``base[]``."""
    if isinstance(base, Qual):
        return outside(base.name + "[]")
    return extend(base, "[]")


def item(values: Values, base: Value, keys: ValueSet) -> ValueSet:
    """Return what ``base[k]`` may be for the given keys."""
    if isinstance(base, (Attr, Param)):
        return extend(base, "[]")
    names = constants(keys)
    if isinstance(base, Namespace):
        texts = [name for name in names if isinstance(name, str)]
        if not texts:
            return UNKNOWN
        return union([_namespace_item(values, base, name) for name in texts])
    if isinstance(base, Qual):
        if base.name == "sys.modules":
            return union(
                [values.sites.module(name) for name in names if isinstance(name, str)] + _own(values, keys)
            )
        if base.name in ("builtins.globals()", "builtins.vars()", "builtins.locals()"):
            return union([values.name(name, values.scopes.module) for name in names if isinstance(name, str)])
        return outside(base.name + "[]")
    if isinstance(base, Container):
        return _container_item(values, base.node, keys)
    return extend(base, "[]")


def _own(values: Values, keys: ValueSet) -> list[ValueSet]:
    """``sys.modules[__name__]`` is this module."""
    if Qual("__name__") in keys:
        return [frozenset({Namespace(None, values.scopes.module)})]
    return [] if constants(keys) else [UNKNOWN]


def _namespace_item(values: Values, base: Namespace, name: str) -> ValueSet:
    if base.base is None:
        assert base.scope is not None
        return values.name(name, base.scope)
    return values.attribute(frozenset({base.base}), name)


def _container_item(values: Values, node: ast.expr, keys: ValueSet) -> ValueSet:
    known = constants(keys)
    exact = len(keys) == 1 and len(known) == 1
    if isinstance(node, ast.Dict):
        if exact:
            for key, value in zip(node.keys, node.values, strict=True):
                if key is not None and values.constant(key) == Const(known[0]):
                    return values.of(value)
        return dict_values(values, node)
    if isinstance(node, (ast.List, ast.Tuple)) and exact and isinstance(known[0], int):
        plain = not any(isinstance(element, ast.Starred) for element in node.elts)
        if plain and -len(node.elts) <= known[0] < len(node.elts):
            return values.of(node.elts[known[0]])
    if isinstance(node, ast.Call):
        named = [values.of(k.value) for k in node.keywords if not exact or k.arg == known[0]]
        return union(named) if named else UNKNOWN
    if isinstance(node, ast.DictComp):
        return values.of(node.value)
    return elements(values, node)


def dict_values(values: Values, node: ast.expr) -> ValueSet:
    """Return what the values of a mapping may be; ``d = {**d}`` adds nothing to itself."""
    return values.guarded(("values", node), values.memory, _dict_values, node)


def _dict_values(values: Values, node: ast.expr) -> ValueSet:
    if isinstance(node, ast.Dict):
        parts: list[ValueSet] = []
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                parts.extend(
                    dict_values(values, v.node) for v in values.of(value) if isinstance(v, Container)
                )
            else:
                parts.append(values.of(value))
        return union(parts) if parts else NOTHING
    if isinstance(node, ast.DictComp):
        return values.of(node.value)
    if isinstance(node, ast.Call):
        return union([values.of(k.value) for k in node.keywords]) if node.keywords else NOTHING
    return elements(values, node)


def elements(values: Values, node: ast.expr) -> ValueSet:
    """Return what iterating over a container may give; ``x = [*x]`` adds nothing to itself."""
    return values.guarded(("elements", node), values.memory, _elements, node)


def _elements(values: Values, node: ast.expr) -> ValueSet:
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        parts = []
        for element in node.elts:
            if isinstance(element, ast.Starred):
                parts.append(values.follow(values.of(element.value), ("*",)))
            else:
                parts.append(values.of(element))
        return union(parts) if parts else NOTHING
    if isinstance(node, ast.Dict):
        return union([values.of(key) for key in node.keys if key is not None]) if node.keys else NOTHING
    if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
        return values.of(node.elt)
    if isinstance(node, ast.DictComp):
        return values.of(node.key)
    if isinstance(node, ast.BinOp):
        sides = values.of(node.left) | values.of(node.right)
        return union([step(values, side, "*") for side in sides])
    if isinstance(node, ast.Call):
        return frozenset({Attr(Container(node), "row")})
    return UNKNOWN


def stored_items(values: Values, base: ast.expr) -> ValueSet:
    """Return what is stored into the container that ``base`` names, by item or by method."""
    name = last_name(base)
    stores = values.scopes.item_stores.get(name, ()) if name else ()
    parts = [values.follow(values.of(b.value), b.path) for _, b in stores if b.value is not None]
    if name:
        parts.extend(values.of(value) for value in values.sites.inserted(name))
    return union(parts) if parts else NOTHING


def step(values: Values, value: Value, which: Step) -> ValueSet:
    """Take one step of a binding's path: an element, an index, or entering a context."""
    if which == "enter":
        return values.sites.entered(value)
    if which == "*":
        if isinstance(value, Container):
            return elements(values, value.node)
        if (
            isinstance(value, Attr)
            and isinstance(value.base, Container)
            and value.name in ("values", "items")
        ):
            if value.name == "values":
                return dict_values(values, value.base.node)
            return frozenset({Attr(value.base, "item")})
        if isinstance(value, Const):
            return UNKNOWN
        return extend_item(value)
    if isinstance(value, Attr) and isinstance(value.base, Container) and isinstance(which, int):
        return _row_part(values, value, which)
    return item(values, value, frozenset({Const(which)}))


def _row_part(values: Values, row: Attr, index: int) -> ValueSet:
    """Part ``index`` of an element of ``d.items()``, ``zip(...)`` or ``enumerate(...)``."""
    container = row.base
    assert isinstance(container, Container)
    node = container.node
    if row.name == "item":
        return dict_values(values, node) if index == 1 else elements(values, node)
    if row.name == "row" and isinstance(node, ast.Call):
        path = {value.name for value in values.of(node.func) if isinstance(value, Qual)}
        if "builtins.enumerate" in path:
            return values.follow(values.of(node.args[0]), ("*",)) if index == 1 and node.args else UNKNOWN
        if "builtins.zip" in path and index < len(node.args):
            return values.follow(values.of(node.args[index]), ("*",))
    return UNKNOWN


__all__ = ["MAX_CHAIN", "Getter", "attribute", "item", "receiver", "step", "subscript"]
