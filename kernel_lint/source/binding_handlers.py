"""What each node binds, and which nodes are under it: a small function for each type of node.

A function puts the children on the stack, the first on top, tells whose children they are, and returns a
child that comes before them and stands in the same scope, or None: the walk goes straight on with it. Where
the scope changes, it lies on the stack, above what stands in it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from kernel_lint import TYPE_CHECKING
from kernel_lint.source.scope_model import Binding, BindingKind, Scope, ScopeKind, child_fields

if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from kernel_lint.source.scopes import ScopeTable

# Reading them off the enumerations each time would be felt.
_ASSIGN, _CLASS, _FUNCTION = BindingKind.ASSIGN, BindingKind.CLASS, BindingKind.FUNCTION
_IMPORT, _LOOP, _PARAMETER = BindingKind.IMPORT, BindingKind.LOOP, BindingKind.PARAMETER
_FUNCTION_SCOPE = ScopeKind.FUNCTION
Pending: TypeAlias = ast.AST | Scope


def push(table: ScopeTable, stack: list[Pending], node: ast.AST, fields: tuple[str, ...]) -> ast.AST | None:
    """Put the nodes in ``fields`` on the stack, the first on top, but return the first of all."""
    first, parents = None, table.parent
    for name in reversed(fields):
        value = getattr(node, name, None)
        if value.__class__ is list:
            for item in reversed(value):
                if item is not None:
                    if first is not None:
                        parents[first] = node
                        stack.append(first)
                    first = item
        elif value is not None:
            if first is not None:
                parents[first] = node
                stack.append(first)
            first = value
    return first


def _push_all(table: ScopeTable, stack: list[Pending], node: ast.AST, children: Sequence[ast.AST]) -> None:
    """Put all children on the stack, the first on top."""
    parents = table.parent
    for child in children:
        parents[child] = node
    stack += children[::-1]


def _function(
    table: ScopeTable,
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
    scope: Scope,
    stack: list[Pending],
) -> ast.AST | None:
    inner = table.inner[node] = Scope(_FUNCTION_SCOPE, node, scope)
    arguments, stores = node.args, table.stores
    positional = [*arguments.posonlyargs, *arguments.args] if arguments.posonlyargs else arguments.args
    defaults = arguments.defaults
    first = len(positional) - len(defaults)
    for index, argument in enumerate(positional):
        default = defaults[index - first] if index >= first else None
        stores.append((inner, Binding(argument.arg, _PARAMETER, argument, default)))
    for argument, given in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        stores.append((inner, Binding(argument.arg, _PARAMETER, argument, given)))
    for variadic in (arguments.vararg, arguments.kwarg):
        if variadic is not None:
            stores.append((inner, Binding(variadic.arg, _PARAMETER, variadic, None, ("*",))))
    stack.append(scope)
    if isinstance(node, ast.Lambda):
        table.parent[node.body] = node
        stack += (node.body, inner)
        return arguments
    _push_all(table, stack, node, node.body)
    stack.append(inner)
    stores.append((scope, Binding(node.name, _FUNCTION, node)))
    before: list[ast.AST] = [*getattr(node, "type_params", ()), *node.decorator_list]
    if node.returns is not None or before:
        stack.append(scope)
    if node.returns is not None:
        table.parent[node.returns] = node
        stack.append(node.returns)
    if not before:
        return arguments
    _push_all(table, stack, node, [*before[1:], arguments])
    return before[0]


def _class(table: ScopeTable, node: ast.ClassDef, scope: Scope, stack: list[Pending]) -> ast.AST | None:
    inner = Scope(ScopeKind.CLASS, node, scope)
    table.inner[node] = inner
    table.stores.append((scope, Binding(node.name, _CLASS, node)))
    stack.append(scope)
    _push_all(table, stack, node, node.body)
    stack += (inner, scope)
    return push(table, stack, node, ("type_params", "decorator_list", "bases", "keywords"))


def _comprehension(table: ScopeTable, node: ast.AST, scope: Scope, stack: list[Pending]) -> ast.AST | None:
    inner = Scope(ScopeKind.COMPREHENSION, node, scope)
    table.inner[node] = inner
    generators: list[ast.comprehension] = node.generators  # type: ignore[attr-defined]
    for generator in generators:
        table.bind_target(generator.target, generator.iter, _LOOP, inner, ("*",))
    stack.append(scope)
    for name in ("value", "key", "elt"):
        made = getattr(node, name, None)
        if made is not None:
            table.parent[made] = node
            stack.append(made)
    _push_all(table, stack, node, generators)
    stack.append(inner)
    return None


def _import(table: ScopeTable, node: ast.Import, scope: Scope, stack: list[Pending]) -> ast.AST | None:
    for alias in node.names:
        table.parent[alias], table.scope[alias] = node, scope
        # ``import a.b`` binds a; ``import a.b as c`` binds a.b.
        name = alias.asname or alias.name.partition(".")[0]
        target = alias.name if alias.asname else name
        table.stores.append((scope, Binding(name, _IMPORT, alias, None, (), target)))
    return None


def _import_from(
    table: ScopeTable, node: ast.ImportFrom, scope: Scope, stack: list[Pending]
) -> ast.AST | None:
    base = "." * node.level + (node.module or "")
    for alias in node.names:
        table.parent[alias], table.scope[alias] = node, scope
        if alias.name == "*":
            table.star_imports.append(base)
            continue
        target = f"{base}{'' if base.endswith('.') else '.'}{alias.name}"
        table.stores.append((scope, Binding(alias.asname or alias.name, _IMPORT, alias, None, (), target)))
    return None


def _assign(table: ScopeTable, node: ast.Assign, scope: Scope, stack: list[Pending]) -> ast.AST | None:
    value, targets = node.value, node.targets
    table.parent[value] = node
    stack.append(value)
    first = targets[0]
    if len(targets) == 1 and first.__class__ is ast.Name:
        table.stores.append((scope, Binding(first.id, _ASSIGN, first, value)))
        return first
    for target in targets:
        table.bind_target(target, value, _ASSIGN, scope)
    _push_all(table, stack, node, targets[1:])
    return first


def _annotated(table: ScopeTable, node: ast.AnnAssign, scope: Scope, stack: list[Pending]) -> ast.AST | None:
    if node.value is not None:
        table.bind_target(node.target, node.value, _ASSIGN, scope)
    return push(table, stack, node, ("target", "annotation", "value"))


def _augmented(table: ScopeTable, node: ast.AugAssign, scope: Scope, stack: list[Pending]) -> ast.AST | None:
    table.bind_target(node.target, node.value, BindingKind.AUGMENTED, scope)
    return push(table, stack, node, ("target", "value"))


def _walrus(table: ScopeTable, node: ast.NamedExpr, scope: Scope, stack: list[Pending]) -> ast.AST | None:
    table.bind_target(node.target, node.value, _ASSIGN, scope, ("walrus",))
    return push(table, stack, node, ("target", "value"))


def _for(
    table: ScopeTable, node: ast.For | ast.AsyncFor, scope: Scope, stack: list[Pending]
) -> ast.AST | None:
    table.bind_target(node.target, node.iter, _LOOP, scope, ("*",))
    if node.orelse:
        _push_all(table, stack, node, node.orelse)
    _push_all(table, stack, node, [node.iter, *node.body])
    return node.target


def _with(
    table: ScopeTable, node: ast.With | ast.AsyncWith, scope: Scope, stack: list[Pending]
) -> ast.AST | None:
    for item in node.items:
        if item.optional_vars is not None:
            table.bind_target(item.optional_vars, item.context_expr, BindingKind.WITH, scope, ("enter",))
    return push(table, stack, node, ("items", "body"))


def _except(table: ScopeTable, node: ast.ExceptHandler, scope: Scope, stack: list[Pending]) -> ast.AST | None:
    if node.name:
        table.stores.append((scope, Binding(node.name, BindingKind.EXCEPT, node)))
    return push(table, stack, node, ("type", "body"))


def _match_name(
    table: ScopeTable, node: ast.MatchAs | ast.MatchStar, scope: Scope, stack: list[Pending]
) -> ast.AST | None:
    if node.name:
        table.stores.append((scope, Binding(node.name, BindingKind.PATTERN, node)))
    return push(table, stack, node, ("pattern",))


def _match_mapping(
    table: ScopeTable, node: ast.MatchMapping, scope: Scope, stack: list[Pending]
) -> ast.AST | None:
    if node.rest:
        table.stores.append((scope, Binding(node.rest, BindingKind.PATTERN, node)))
    return push(table, stack, node, ("keys", "patterns"))


# The commonest nodes bind nothing, but naming their fields halves what walking through them costs.


def _call(table: ScopeTable, node: ast.Call, scope: Scope, stack: list[Pending]) -> ast.AST | None:
    parents = table.parent
    if node.keywords:
        for keyword in node.keywords:
            parents[keyword] = node
        stack += node.keywords[::-1]
    if node.args:
        for argument in node.args:
            parents[argument] = node
        stack += node.args[::-1]
    return node.func


def _binary(table: ScopeTable, node: ast.BinOp, scope: Scope, stack: list[Pending]) -> ast.AST | None:
    table.parent[node.right] = node
    stack.append(node.right)
    return node.left


def _item(table: ScopeTable, node: ast.Subscript, scope: Scope, stack: list[Pending]) -> ast.AST | None:
    table.parent[node.slice] = node
    stack.append(node.slice)
    return node.value


def _compare(table: ScopeTable, node: ast.Compare, scope: Scope, stack: list[Pending]) -> ast.AST | None:
    _push_all(table, stack, node, node.comparators)
    return node.left


def _if(table: ScopeTable, node: ast.If, scope: Scope, stack: list[Pending]) -> ast.AST | None:
    if node.orelse:
        _push_all(table, stack, node, node.orelse)
    _push_all(table, stack, node, node.body)
    return node.test


def _display(table: ScopeTable, node: Any, scope: Scope, stack: list[Pending]) -> ast.AST | None:
    elements: list[ast.AST] = node.elts
    if not elements:
        return None
    _push_all(table, stack, node, elements[1:])
    return elements[0]


def _generator(
    table: ScopeTable, node: ast.comprehension, scope: Scope, stack: list[Pending]
) -> ast.AST | None:
    _push_all(table, stack, node, [node.iter, *node.ifs])
    return node.target


def _joined(table: ScopeTable, node: ast.JoinedStr, scope: Scope, stack: list[Pending]) -> ast.AST | None:
    if not node.values:
        return None
    _push_all(table, stack, node, node.values[1:])
    return node.values[0]


def _value(table: ScopeTable, node: Any, scope: Scope, stack: list[Pending]) -> ast.AST | None:
    child: ast.AST | None = node.value
    return child


def _operand(table: ScopeTable, node: ast.UnaryOp, scope: Scope, stack: list[Pending]) -> ast.AST | None:
    return node.operand


def _annotation(table: ScopeTable, node: ast.arg, scope: Scope, stack: list[Pending]) -> ast.AST | None:
    return node.annotation


def _parameters(table: ScopeTable, node: ast.arguments, scope: Scope, stack: list[Pending]) -> ast.AST | None:
    if node.vararg or node.kwarg or node.kwonlyargs or node.posonlyargs:
        return push(table, stack, node, child_fields(ast.arguments))
    if node.defaults:
        _push_all(table, stack, node, node.defaults)
    _push_all(table, stack, node, node.args)
    return None


def _global(table: ScopeTable, node: ast.Global, scope: Scope, stack: list[Pending]) -> ast.AST | None:
    scope.global_names |= frozenset(node.names)
    return None


def _nonlocal(table: ScopeTable, node: ast.Nonlocal, scope: Scope, stack: list[Pending]) -> ast.AST | None:
    scope.nonlocal_names |= frozenset(node.names)
    table.nonlocal_names.update(node.names)
    return None


def other(table: ScopeTable, node: ast.AST, scope: Scope, stack: list[Pending]) -> ast.AST | None:
    """Do the part of a node that binds nothing and is not common."""
    return push(table, stack, node, child_fields(node.__class__))


HANDLERS: dict[type[ast.AST], Callable[[ScopeTable, Any, Scope, list[Pending]], ast.AST | None]] = {
    ast.Call: _call,
    ast.BinOp: _binary,
    ast.Subscript: _item,
    ast.Compare: _compare,
    ast.Tuple: _display,
    ast.List: _display,
    ast.If: _if,
    ast.Expr: _value,
    ast.Return: _value,
    ast.keyword: _value,
    ast.Starred: _value,
    ast.UnaryOp: _operand,
    ast.arg: _annotation,
    ast.arguments: _parameters,
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.Lambda: _function,
    ast.ClassDef: _class,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.DictComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.comprehension: _generator,
    ast.JoinedStr: _joined,
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.NamedExpr: _walrus,
    ast.For: _for,
    ast.AsyncFor: _for,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.ExceptHandler: _except,
    ast.MatchAs: _match_name,
    ast.MatchStar: _match_name,
    ast.MatchMapping: _match_mapping,
    ast.Global: _global,
    ast.Nonlocal: _nonlocal,
}
