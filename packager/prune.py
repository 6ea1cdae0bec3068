"""Take out of a plan what has become idle: loaders that run nothing, and the blocks left empty by that."""

from __future__ import annotations

import ast

from kernel_lint.packager.items import Item, Load, Loader, Statement


def prune(items: list[Item], loaders: dict[str, Loader]) -> list[Item]:
    """Return the items without idle loaders and their calls; idle ones leave ``loaders`` too."""
    while idle := {name for name, loader in loaders.items() if not _works(loader.items, name)}:
        for name in idle:
            del loaders[name]
        items = _without(items, idle)
        for loader in loaders.values():
            loader.items = _without(loader.items, idle)
    return items


def _works(items: list[Item], own: str) -> bool:
    return any(not isinstance(item, Load) or item.module != own for item in items)


def _without(items: list[Item], idle: set[str]) -> list[Item]:
    result: list[Item] = []
    for item in items:
        if isinstance(item, (Load, Loader)) and item.module in idle:
            continue
        if isinstance(item, Statement) and item.blocks:
            result.extend(_statement(item, idle))
        else:
            result.append(item)
    return result


def _statement(item: Statement, idle: set[str]) -> list[Item]:
    before = {name for name, children in item.blocks.items() if children}
    for name in item.blocks:
        item.blocks[name] = _without(item.blocks[name], idle)
    if {name for name, children in item.blocks.items() if children} == before:
        return [item]
    assert item.unit is not None
    if isinstance(item.unit.node, ast.Try) and not item.blocks["body"]:
        return [*item.blocks["orelse"], *item.blocks["finalbody"]]  # nothing is left that could fail
    return [item]
