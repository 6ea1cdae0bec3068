"""Edits of ``sys.path`` and uses of ``__file__`` that are known without running the program."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from kernel_lint import TYPE_CHECKING
from kernel_lint.packager.model import Module
from kernel_lint.packager.resolve import Finder

if TYPE_CHECKING:
    from typing import Any

_EDITS = {"insert", "append", "extend"}
# The text of every ``sys.path``, however it is broken up, and of a little more.
_SYS_PATH = r"sys(?:[\s\\)]|#[^\n]*\n)*\.(?:[\s\\]|#[^\n]*\n)*path"


def path_edit(node: ast.AST) -> ast.Call | None:
    """Return the call when ``node`` is ``sys.path.insert/append/extend(...)``, else None."""
    call = node.value if isinstance(node, ast.Expr) else node
    if (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in _EDITS
        and isinstance(call.func.value, ast.Attribute)
        and call.func.value.attr == "path"
        and isinstance(call.func.value.value, ast.Name)
        and call.func.value.value.id in ("sys", "_sys")
    ):
        return call
    return None


def add_path_edits(module: Module, finder: Finder) -> None:
    """Add the folders that the module puts on ``sys.path`` to the finder's roots."""
    if "sys" not in module.text or module.path is None or not re.search(_SYS_PATH, module.text):
        return
    folder = _Folder(module)
    for node in ast.walk(module.tree):
        call = path_edit(node) if isinstance(node, ast.Call) else None
        if call is None:
            continue
        assert isinstance(call.func, ast.Attribute)
        index = None
        values = [folder.value(argument) for argument in call.args]
        if call.func.attr == "insert" and len(values) == 2:
            index = values[0] if isinstance(values[0], int) else None
            values = values[1:]
        for value in values:
            for item in value if isinstance(value, list) else [value]:
                if isinstance(item, (str, Path)):
                    finder.add_root(Path(item), index)


class _Folder:
    """Folds the path expressions that scripts use to find their own folder."""

    def __init__(self, module: Module) -> None:
        assert module.path is not None
        self.path = module.path.resolve()
        self.assigned: dict[str, ast.expr] = {}
        for node in module.tree.body:
            if (
                isinstance(node, ast.Assign)
                and len(node.targets) == 1
                and isinstance(node.targets[0], ast.Name)
            ):
                self.assigned[node.targets[0].id] = node.value

    def value(self, node: ast.expr, depth: int = 0) -> Any:
        """Return the value of an expression over ``__file__``, None where it is not known."""
        if depth > 20:
            return None
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            if node.id == "__file__":
                return str(self.path)
            known = self.assigned.get(node.id)
            return None if known is None else self.value(known, depth + 1)
        if isinstance(node, (ast.List, ast.Tuple)):
            return [self.value(item, depth + 1) for item in node.elts]
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            left, right = self.value(node.left, depth + 1), self.value(node.right, depth + 1)
            return Path(left) / right if isinstance(left, (str, Path)) and isinstance(right, str) else None
        if isinstance(node, ast.Attribute):
            owner = self.value(node.value, depth + 1)
            return owner.parent if isinstance(owner, Path) and node.attr == "parent" else None
        if isinstance(node, ast.Subscript):
            return self._parents(node, depth)
        return self._call(node, depth) if isinstance(node, ast.Call) else None

    def _parents(self, node: ast.Subscript, depth: int) -> Any:
        if isinstance(node.value, ast.Attribute) and node.value.attr == "parents":
            owner, index = self.value(node.value.value, depth + 1), self.value(node.slice, depth + 1)
            if isinstance(owner, Path) and isinstance(index, int) and index < len(owner.parents):
                return owner.parents[index]
        return None

    def _call(self, node: ast.Call, depth: int) -> Any:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        args = [self.value(argument, depth + 1) for argument in node.args]
        texts = [str(argument) for argument in args if isinstance(argument, (str, Path))]
        if isinstance(node.func, ast.Attribute) and name in ("resolve", "absolute", "as_posix", "expanduser"):
            owner = self.value(node.func.value, depth + 1)
            if isinstance(owner, Path):
                return owner.resolve()
        if name in ("getcwd", "cwd") or len(texts) != len(args) or not texts:
            return None
        if name in ("abspath", "realpath", "normpath"):
            return str(Path(texts[0]).resolve())
        if name in ("str", "fspath"):
            return texts[0]
        if name == "dirname":
            return str(Path(texts[0]).parent)
        if name in ("Path", "PurePath"):
            return Path(*texts)
        if name in ("join", "joinpath"):
            base = self.value(node.func.value, depth + 1) if isinstance(node.func, ast.Attribute) else None
            joined = Path(base, *texts) if isinstance(base, Path) else Path(*texts)
            return joined if isinstance(base, Path) else str(joined.resolve())
        return None
