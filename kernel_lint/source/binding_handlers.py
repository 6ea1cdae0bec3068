"""What each node binds, and which nodes are under it: a small function for each type of node.

A function puts the children on the stack, the first on top, and returns a child that comes before them
and stands in the same scope, or None: the walk goes straight on with it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from kernel_lint import TYPE_CHECKING
from kernel_lint.source.scope_model import Binding, BindingKind, Scope, ScopeKind, child_fields

if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from kernel_lint.source.scopes import ScopeTable

# Reading them off the enumerations each time would be felt.
_ASSIGN, _CLASS, _FUNCTION = BindingKind.ASSIGN, BindingKind.CLASS, BindingKind.FUNCTION
_IMPORT, _LOOP, _PARAMETER = BindingKind.IMPORT, BindingKind.LOOP, BindingKind.PARAMETER
_FUNCTION_SCOPE = ScopeKind.FUNCTION
Pending: TypeAlias = tuple[ast.AST, "ast.AST | None", Scope]


def push(stack: list[Pending], node: ast.AST, fields: tuple[str, ...], scope: Scope) -> ast.AST | None:
    """Put the nodes in ``fields`` on the stack, the first on top, but return the first of all."""
    first = None
    for name in reversed(fields):
        value = getattr(node, name, None)
        if value.__class__ is list:
            for item in reversed(value):
                if item is not None:
                    if first is not None:
                        stack.append((first, node, scope))
                    first = item
        elif value is not None:
            if first is not None:
                stack.append((first, node, scope))
            first = value
    return first


def _function(
    table: ScopeTable,
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
    scope: Scope,
    stack: list[Pending],
) -> ast.AST | None:
    inner = table.inner[node] = Scope(_FUNCTION_SCOPE, node, scope)
    arguments, store = node.args, table.store
    positional = [*arguments.posonlyargs, *arguments.args] if arguments.posonlyargs else arguments.args
    defaults = arguments.defaults
    first = len(positional) - len(defaults)
    for index, argument in enumerate(positional):
        default = defaults[index - first] if index >= first else None
        store(inner, Binding(argument.arg, _PARAMETER, argument, default))
    for argument, given in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        store(inner, Binding(argument.arg, _PARAMETER, argument, given))
    for variadic in (arguments.vararg, arguments.kwarg):
        if variadic is not None:
            store(inner, Binding(variadic.arg, _PARAMETER, variadic, None, ("*",)))
    if isinstance(node, ast.Lambda):
        stack.append((node.body, node, inner))
        return arguments
    stack.extend([(item, node, inner) for item in reversed(node.body)])
    store(scope, Binding(node.name, _FUNCTION, node))
    if node.decorator_list or getattr(node, "type_params", None):
        return push(stack, node, ("type_params", "decorator_list", "args", "returns"), scope)
    if node.returns is not None:
        stack.append((node.returns, node, scope))
    return arguments


def _class(table: ScopeTable, node: ast.ClassDef, scope: Scope, stack: list[Pending]) -> ast.AST | None:
    inner = Scope(ScopeKind.CLASS, node, scope)
    table.inner[node] = inner
    table.store(scope, Binding(node.name, _CLASS, node))
    stack.extend((item, node, inner) for item in reversed(node.body))
    return push(stack, node, ("type_params", "decorator_list", "bases", "keywords"), scope)


def _comprehension(table: ScopeTable, node: ast.AST, scope: Scope, stack: list[Pending]) -> ast.AST | None:
    inner = Scope(ScopeKind.COMPREHENSION, node, scope)
    table.inner[node] = inner
    generators: list[ast.comprehension] = node.generators  # type: ignore[attr-defined]
    for generator in generators:
        table.bind_target(generator.target, generator.iter, _LOOP, inner, ("*",))
    for name in ("value", "key", "elt"):
        made = getattr(node, name, None)
        if made is not None:
            stack.append((made, node, inner))
    stack.extend([(generator, node, inner) for generator in reversed(generators)])
    return None


def _import(table: ScopeTable, node: ast.Import, scope: Scope, stack: list[Pending]) -> ast.AST | None:
    for alias in node.names:
        table.parent[alias], table.scope[alias] = node, scope
        # ``import a.b`` binds a; ``import a.b as c`` binds a.b.
        name = alias.asname or alias.name.partition(".")[0]
        target = alias.name if alias.asname else name
        table.store(scope, Binding(name, _IMPORT, alias, target=target))
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
        table.store(scope, Binding(alias.asname or alias.name, _IMPORT, alias, target=target))
    return None


def _assign(table: ScopeTable, node: ast.Assign, scope: Scope, stack: list[Pending]) -> ast.AST | None:
    for target in node.targets:
        table.bind_target(target, node.value, _ASSIGN, scope)
    stack.append((node.value, node, scope))
    stack.extend([(target, node, scope) for target in node.targets[:0:-1]])
    return node.targets[0]


def _annotated(table: ScopeTable, node: ast.AnnAssign, scope: Scope, stack: list[Pending]) -> ast.AST | None:
    if node.value is not None:
        table.bind_target(node.target, node.value, _ASSIGN, scope)
    return push(stack, node, ("target", "annotation", "value"), scope)


def _augmented(table: ScopeTable, node: ast.AugAssign, scope: Scope, stack: list[Pending]) -> ast.AST | None:
    table.bind_target(node.target, node.value, BindingKind.AUGMENTED, scope)
    return push(stack, node, ("target", "value"), scope)


def _walrus(table: ScopeTable, node: ast.NamedExpr, scope: Scope, stack: list[Pending]) -> ast.AST | None:
    table.bind_target(node.target, node.value, _ASSIGN, scope, ("walrus",))
    return push(stack, node, ("target", "value"), scope)


def _for(
    table: ScopeTable, node: ast.For | ast.AsyncFor, scope: Scope, stack: list[Pending]
) -> ast.AST | None:
    table.bind_target(node.target, node.iter, _LOOP, scope, ("*",))
    return push(stack, node, ("target", "iter", "body", "orelse"), scope)


def _with(
    table: ScopeTable, node: ast.With | ast.AsyncWith, scope: Scope, stack: list[Pending]
) -> ast.AST | None:
    for item in node.items:
        if item.optional_vars is not None:
            table.bind_target(item.optional_vars, item.context_expr, BindingKind.WITH, scope, ("enter",))
    return push(stack, node, ("items", "body"), scope)


def _except(table: ScopeTable, node: ast.ExceptHandler, scope: Scope, stack: list[Pending]) -> ast.AST | None:
    if node.name:
        table.store(scope, Binding(node.name, BindingKind.EXCEPT, node))
    return push(stack, node, ("type", "body"), scope)


def _match_name(
    table: ScopeTable, node: ast.MatchAs | ast.MatchStar, scope: Scope, stack: list[Pending]
) -> ast.AST | None:
    if node.name:
        table.store(scope, Binding(node.name, BindingKind.PATTERN, node))
    return push(stack, node, ("pattern",), scope)


def _match_mapping(
    table: ScopeTable, node: ast.MatchMapping, scope: Scope, stack: list[Pending]
) -> ast.AST | None:
    if node.rest:
        table.store(scope, Binding(node.rest, BindingKind.PATTERN, node))
    return push(stack, node, ("keys", "patterns"), scope)


# The commonest nodes bind nothing, but naming their fields halves what walking through them costs.


def _call(table: ScopeTable, node: ast.Call, scope: Scope, stack: list[Pending]) -> ast.AST | None:
    if node.keywords:
        stack.extend([(keyword, node, scope) for keyword in reversed(node.keywords)])
    if node.args:
        stack.extend([(argument, node, scope) for argument in reversed(node.args)])
    return node.func


def _binary(table: ScopeTable, node: ast.BinOp, scope: Scope, stack: list[Pending]) -> ast.AST | None:
    stack.append((node.right, node, scope))
    return node.left


def _item(table: ScopeTable, node: ast.Subscript, scope: Scope, stack: list[Pending]) -> ast.AST | None:
    stack.append((node.slice, node, scope))
    return node.value


def _compare(table: ScopeTable, node: ast.Compare, scope: Scope, stack: list[Pending]) -> ast.AST | None:
    stack.extend([(right, node, scope) for right in reversed(node.comparators)])
    return node.left


def _if(table: ScopeTable, node: ast.If, scope: Scope, stack: list[Pending]) -> ast.AST | None:
    if node.orelse:
        stack.extend([(statement, node, scope) for statement in reversed(node.orelse)])
    stack.extend([(statement, node, scope) for statement in reversed(node.body)])
    return node.test


def _display(table: ScopeTable, node: Any, scope: Scope, stack: list[Pending]) -> ast.AST | None:
    elements: list[ast.AST] = node.elts
    if not elements:
        return None
    stack.extend([(element, node, scope) for element in elements[:0:-1]])
    return elements[0]


def _value(table: ScopeTable, node: Any, scope: Scope, stack: list[Pending]) -> ast.AST | None:
    child: ast.AST | None = node.value
    return child


def _operand(table: ScopeTable, node: ast.UnaryOp, scope: Scope, stack: list[Pending]) -> ast.AST | None:
    return node.operand


def _annotation(table: ScopeTable, node: ast.arg, scope: Scope, stack: list[Pending]) -> ast.AST | None:
    return node.annotation


def _parameters(table: ScopeTable, node: ast.arguments, scope: Scope, stack: list[Pending]) -> ast.AST | None:
    if node.vararg or node.kwarg or node.kwonlyargs or node.posonlyargs:
        return push(stack, node, child_fields(ast.arguments), scope)
    stack.extend([(default, node, scope) for default in reversed(node.defaults)])
    stack.extend([(argument, node, scope) for argument in reversed(node.args)])
    return None


def _global(table: ScopeTable, node: ast.Global, scope: Scope, stack: list[Pending]) -> ast.AST | None:
    scope.global_names |= frozenset(node.names)
    return None


def _nonlocal(table: ScopeTable, node: ast.Nonlocal, scope: Scope, stack: list[Pending]) -> ast.AST | None:
    scope.nonlocal_names |= frozenset(node.names)
    table.nonlocal_names.update(node.names)
    return None


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
