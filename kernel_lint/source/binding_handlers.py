"""What each statement binds: one small function for each type of node that binds names."""

from __future__ import annotations

import ast
from collections.abc import Callable

from kernel_lint import TYPE_CHECKING
from kernel_lint.source.scope_model import Binding, BindingKind, Scope, ScopeKind

if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from kernel_lint.source.scopes import ScopeTable

Pending: TypeAlias = tuple[ast.AST, "ast.AST | None", Scope]


def push(stack: list[Pending], node: ast.AST, fields: tuple[str, ...], scope: Scope) -> None:
    """Put the nodes in ``fields`` on the stack so that the first field comes off first."""
    for name in reversed(fields):
        value = getattr(node, name, None)
        if value.__class__ is list:
            for item in reversed(value):
                if item is not None:
                    stack.append((item, node, scope))
        elif value is not None:
            stack.append((value, node, scope))


def _function(
    table: ScopeTable,
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
    scope: Scope,
    stack: list[Pending],
) -> None:
    inner = Scope(ScopeKind.FUNCTION, node, scope)
    table.inner[node] = inner
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
    defaults.extend(arguments.defaults)
    for argument, default in zip(positional, defaults, strict=True):
        table.store(inner, Binding(argument.arg, BindingKind.PARAMETER, argument, default))
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        table.store(inner, Binding(argument.arg, BindingKind.PARAMETER, argument, default))
    for variadic in (arguments.vararg, arguments.kwarg):
        if variadic is not None:
            table.store(inner, Binding(variadic.arg, BindingKind.PARAMETER, variadic, None, ("*",)))
    body = [node.body] if isinstance(node, ast.Lambda) else node.body
    stack.extend((item, node, inner) for item in reversed(body))
    if not isinstance(node, ast.Lambda):
        table.store(scope, Binding(node.name, BindingKind.FUNCTION, node))
        push(stack, node, ("type_params", "decorator_list", "args", "returns"), scope)
    else:
        push(stack, node, ("args",), scope)


def _class(table: ScopeTable, node: ast.ClassDef, scope: Scope, stack: list[Pending]) -> None:
    inner = Scope(ScopeKind.CLASS, node, scope)
    table.inner[node] = inner
    table.store(scope, Binding(node.name, BindingKind.CLASS, node))
    stack.extend((item, node, inner) for item in reversed(node.body))
    push(stack, node, ("type_params", "decorator_list", "bases", "keywords"), scope)


def _comprehension(table: ScopeTable, node: ast.AST, scope: Scope, stack: list[Pending]) -> None:
    inner = Scope(ScopeKind.COMPREHENSION, node, scope)
    table.inner[node] = inner
    generators: list[ast.comprehension] = node.generators  # type: ignore[attr-defined]
    for generator in generators:
        table.bind_target(generator.target, generator.iter, BindingKind.LOOP, inner, ("*",))
    push(stack, node, ("generators", "elt", "key", "value"), inner)


def _import(table: ScopeTable, node: ast.Import, scope: Scope, stack: list[Pending]) -> None:
    for alias in node.names:
        table.parent[alias], table.scope[alias] = node, scope
        # ``import a.b`` binds a; ``import a.b as c`` binds a.b.
        name = alias.asname or alias.name.partition(".")[0]
        target = alias.name if alias.asname else name
        table.store(scope, Binding(name, BindingKind.IMPORT, alias, target=target))


def _import_from(table: ScopeTable, node: ast.ImportFrom, scope: Scope, stack: list[Pending]) -> None:
    base = "." * node.level + (node.module or "")
    for alias in node.names:
        table.parent[alias], table.scope[alias] = node, scope
        if alias.name == "*":
            table.star_imports.append(base)
            continue
        target = f"{base}{'' if base.endswith('.') else '.'}{alias.name}"
        table.store(scope, Binding(alias.asname or alias.name, BindingKind.IMPORT, alias, target=target))


def _assign(table: ScopeTable, node: ast.Assign, scope: Scope, stack: list[Pending]) -> None:
    for target in node.targets:
        table.bind_target(target, node.value, BindingKind.ASSIGN, scope)
    push(stack, node, ("targets", "value"), scope)


def _annotated(table: ScopeTable, node: ast.AnnAssign, scope: Scope, stack: list[Pending]) -> None:
    if node.value is not None:
        table.bind_target(node.target, node.value, BindingKind.ASSIGN, scope)
    push(stack, node, ("target", "annotation", "value"), scope)


def _augmented(table: ScopeTable, node: ast.AugAssign, scope: Scope, stack: list[Pending]) -> None:
    table.bind_target(node.target, node.value, BindingKind.AUGMENTED, scope)
    push(stack, node, ("target", "value"), scope)


def _walrus(table: ScopeTable, node: ast.NamedExpr, scope: Scope, stack: list[Pending]) -> None:
    table.bind_target(node.target, node.value, BindingKind.ASSIGN, scope, ("walrus",))
    push(stack, node, ("target", "value"), scope)


def _for(table: ScopeTable, node: ast.For | ast.AsyncFor, scope: Scope, stack: list[Pending]) -> None:
    table.bind_target(node.target, node.iter, BindingKind.LOOP, scope, ("*",))
    push(stack, node, ("target", "iter", "body", "orelse"), scope)


def _with(table: ScopeTable, node: ast.With | ast.AsyncWith, scope: Scope, stack: list[Pending]) -> None:
    for item in node.items:
        if item.optional_vars is not None:
            table.bind_target(item.optional_vars, item.context_expr, BindingKind.WITH, scope, ("enter",))
    push(stack, node, ("items", "body"), scope)


def _except(table: ScopeTable, node: ast.ExceptHandler, scope: Scope, stack: list[Pending]) -> None:
    if node.name:
        table.store(scope, Binding(node.name, BindingKind.EXCEPT, node))
    push(stack, node, ("type", "body"), scope)


def _match_name(
    table: ScopeTable, node: ast.MatchAs | ast.MatchStar, scope: Scope, stack: list[Pending]
) -> None:
    if node.name:
        table.store(scope, Binding(node.name, BindingKind.PATTERN, node))
    push(stack, node, ("pattern",), scope)


def _match_mapping(table: ScopeTable, node: ast.MatchMapping, scope: Scope, stack: list[Pending]) -> None:
    if node.rest:
        table.store(scope, Binding(node.rest, BindingKind.PATTERN, node))
    push(stack, node, ("keys", "patterns"), scope)


# The commonest nodes bind nothing, but naming their fields halves what walking through them costs.


def _call(table: ScopeTable, node: ast.Call, scope: Scope, stack: list[Pending]) -> None:
    for keyword in reversed(node.keywords):
        stack.append((keyword, node, scope))
    for argument in reversed(node.args):
        stack.append((argument, node, scope))
    stack.append((node.func, node, scope))


def _binary(table: ScopeTable, node: ast.BinOp, scope: Scope, stack: list[Pending]) -> None:
    stack.append((node.right, node, scope))
    stack.append((node.left, node, scope))


def _item(table: ScopeTable, node: ast.Subscript, scope: Scope, stack: list[Pending]) -> None:
    stack.append((node.slice, node, scope))
    stack.append((node.value, node, scope))


def _global(table: ScopeTable, node: ast.Global, scope: Scope, stack: list[Pending]) -> None:
    scope.global_names |= frozenset(node.names)


def _nonlocal(table: ScopeTable, node: ast.Nonlocal, scope: Scope, stack: list[Pending]) -> None:
    scope.nonlocal_names |= frozenset(node.names)
    table.nonlocal_names.update(node.names)


HANDLERS: dict[type[ast.AST], Callable[[ScopeTable, Any, Scope, list[Pending]], None]] = {
    ast.Call: _call,
    ast.BinOp: _binary,
    ast.Subscript: _item,
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
