"""Where a program can see in which module a class or function was defined.

In one file everything is defined in one module. A script that prints a class, or reads
``__module__``, would notice; then the packager restores the attribute after the definition.
"""

from __future__ import annotations

import ast

from kernel_lint.packager.graph import Program
from kernel_lint.packager.model import ENTRY
from kernel_lint.packager.shake import Kept

# Modules that find a definition again through its __module__, and so need the real one.
_LOOKUPS = ("pickle", "copyreg", "shelve", "multiprocessing", "dill", "cloudpickle")
_SHOWS = ("print", "repr", "str", "format", "ascii")


def shown_modules(program: Program, kept: Kept) -> tuple[bool, bool]:
    """Return whether classes, and whether functions, show the module that defines them.

    Only scripts are looked at: in a workspace with a Model nothing is printed.
    """
    if program.has_model or any(external.module.partition(".")[0] in _LOOKUPS for external in kept.externals):
        return False, False
    classes = functions = False
    for name in kept.modules:
        for unit in program.modules[name].all_units():
            if kept.has(unit) and not unit.is_import:
                found = _shows(unit.node)
                functions |= found == "module"
                classes |= found != ""
    return classes or _class_printed(program, kept), functions


def _shows(node: ast.AST) -> str:
    """Return "module" where ``__module__`` is read, "type" where a type is used as a value, else ""."""
    found = ""
    harmless: set[int] = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute):
            if inner.attr == "__module__":
                return "module"
            harmless.add(id(inner.value))
        elif isinstance(inner, ast.Constant) and inner.value == "__module__":
            return "module"
        elif isinstance(inner, ast.Compare):
            harmless.update(id(side) for side in [inner.left, *inner.comparators])
        elif isinstance(inner, ast.Call):
            harmless.add(id(inner.func))
            if isinstance(inner.func, ast.Name) and inner.func.id in (
                "isinstance",
                "issubclass",
                "getattr",
                "super",
            ):
                harmless.update(map(id, inner.args))
        if _is_type(inner) and id(inner) not in harmless:
            found = "type"
    return found


def _is_type(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "type" and len(node.args) == 1
    return isinstance(node, ast.Attribute) and node.attr == "__class__"


def _class_printed(program: Program, kept: Kept) -> bool:
    """Whether a local class is handed to something that shows it."""
    classes = {
        symbol
        for symbol in kept.symbols
        if symbol.module != ENTRY
        and any(
            binding.kind == "class"
            for binding in program.modules[symbol.module].bindings.get(symbol.name, ())
        )
    }
    if not classes:
        return False
    shown: set[int] = set()
    for name in kept.modules:
        for unit in program.modules[name].all_units():
            if kept.has(unit):
                shown.update(_shown_values(unit.node))
    for use in kept.uses:
        target, depth = program.resolve_use(use)
        node = use.links[depth - 1].node if depth else use.node
        if target in classes and depth == len(use.links) and id(node) in shown:
            return True
    return False


def _shown_values(node: ast.AST) -> set[int]:
    """Return the nodes that print, str, format or an f-string show, containers looked into."""
    found: set[int] = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call):
            name = getattr(inner.func, "id", getattr(inner.func, "attr", ""))
            stack: list[ast.AST] = list(inner.args) if name in _SHOWS else []
        elif isinstance(inner, ast.FormattedValue):
            stack = [inner.value]
        else:
            continue
        while stack:
            value = stack.pop()
            found.add(id(value))
            if isinstance(value, (ast.List, ast.Tuple, ast.Set)):
                stack.extend(value.elts)
            elif isinstance(value, ast.Dict):
                stack.extend([*filter(None, value.keys), *value.values])
    return found
