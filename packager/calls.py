"""Small questions about calls and definitions that the effect analysis asks."""

from __future__ import annotations

import ast

from kernel_lint.packager.graph import Program
from kernel_lint.packager.model import Sym


def link_count(node: ast.expr) -> int:
    count = 0
    while isinstance(node, ast.Attribute):
        count += 1
        node = node.value
    return count


def has_call(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return not isinstance(node, ast.Name)


def is_code(program: Program, symbol: Sym) -> bool:
    bindings = program.effective(program.modules[symbol.module], symbol.name)
    return any(binding.kind == "def" for binding in bindings)


def is_only_code(program: Program, symbol: Sym) -> bool:
    """Whether a variable never holds anything but functions, which nothing changes by accident."""
    bindings = program.effective(program.modules[symbol.module], symbol.name)
    return bool(bindings) and all(binding.kind == "def" for binding in bindings)


def is_metaclass(node: ast.ClassDef) -> bool:
    return any(isinstance(base, ast.Name) and base.id == "type" for base in node.bases)


def is_hook(name: str, owner: ast.ClassDef) -> bool:
    return name == "__init_subclass__" or (is_metaclass(owner) and name in ("__new__", "__init__"))


def known_result(node: ast.stmt) -> bool:
    """Whether calling what a statement binds changes nothing: a class made by a library, or a constant."""
    if isinstance(node, ast.Assign) and isinstance(node.value, (ast.Constant, ast.JoinedStr)):
        return True
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
        return False
    function = node.value.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in ("namedtuple", "NewType", "TypeVar", "itemgetter", "attrgetter")


def setters(tree: ast.Module) -> list[ast.FunctionDef]:
    """Return the functions of a module that are decorated as ``@name.setter``."""
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and any(isinstance(item, ast.Attribute) and item.attr == "setter" for item in node.decorator_list)
    ]
