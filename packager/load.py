"""From files to modules: parse, split into units, fold what is decided before the program runs."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from kernel_lint import TYPE_CHECKING
from kernel_lint.packager.errors import PackageError
from kernel_lint.packager.meaning import resolve_uses
from kernel_lint.packager.model import ENTRY, ImportSite, Module, Unit
from kernel_lint.packager.paths import add_path_edits
from kernel_lint.packager.resolve import Source, is_installed, read_source, relative_name
from kernel_lint.packager.scopes import ScopeVisitor

if TYPE_CHECKING:
    from kernel_lint.packager.workspace import Workspace

_IMPORT_ERRORS = {"ImportError", "ModuleNotFoundError"}
_CATCHES_IMPORT_ERROR = _IMPORT_ERRORS | {"Exception", "BaseException"}


def parse_module(source: Source, package: str) -> Module:
    """Parse one module and record its units, uses, bindings and imports.

    Raises :class:`PackageError` where it is not valid Python.
    """
    text = read_source(source.path) if source.path else ""
    try:
        tree = ast.parse(text, filename=str(source.path))
    except (SyntaxError, ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        message = getattr(error, "msg", None) or str(error)
        raise PackageError(
            f"not valid Python: {message}", "fix the syntax error; the file is imported", source.path, line
        ) from error
    module = Module(source.name, source.path, package, source.is_package, text, tree)
    module.lines = text.split("\n")
    module.doc = ast.get_docstring(tree, clean=False)
    module.future_annotations = any(
        isinstance(node, ast.ImportFrom)
        and node.module == "__future__"
        and any(alias.name == "annotations" for alias in node.names)
        for node in tree.body
    )
    return module


def analyse(program: Workspace, module: Module) -> None:
    """Fill in the module's units and everything found in them."""
    add_path_edits(module, program.finder)
    builder = _UnitBuilder(program, module)
    module.units = builder.units(module.tree.body, None, "body")
    visitor = ScopeVisitor(module)
    for unit in module.units:
        visitor.visit_unit(unit)
    resolve_uses(module, visitor.raw, visitor.stores)


class _UnitBuilder:
    def __init__(self, program: Workspace, module: Module) -> None:
        self.program = program
        self.module = module

    def units(self, body: list[ast.stmt], parent: Unit | None, block: str) -> list[Unit]:
        """Return the units of a block, with statically decided ``if`` and ``try`` flattened."""
        result: list[Unit] = []
        for node in body:
            taken = self._decided(node)
            if taken is not None:
                result.extend(self.units(taken, parent, block))
                continue
            unit = Unit(self.module, node, parent, block, len(result))
            for name, statements in _blocks(node):
                unit.blocks[name] = self.units(statements, unit, name)
            result.append(unit)
        return result

    def _decided(self, node: ast.stmt) -> list[ast.stmt] | None:
        """Return the statements that run in place of ``node`` where that is known, else None."""
        if isinstance(node, ast.If):
            truth = self._truth(node.test)
            return None if truth is None else (node.body if truth else node.orelse)
        if isinstance(node, ast.Try):
            return self._decided_try(node)
        return None

    def _truth(self, test: ast.expr) -> bool | None:
        if isinstance(test, ast.Constant) and isinstance(test.value, (bool, int)):
            return bool(test.value)
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            truth = self._truth(test.operand)
            return None if truth is None else not truth
        if is_main_guard(test) and (self.module.name != ENTRY or self.program.has_model):
            assert isinstance(test, ast.Compare)
            return isinstance(test.ops[0], ast.NotEq)
        return None

    def _decided_try(self, node: ast.Try) -> list[ast.stmt] | None:
        if not node.body or not all(isinstance(item, (ast.Import, ast.ImportFrom)) for item in node.body):
            first = node.body[0] if node.body else None
            if not isinstance(first, (ast.Import, ast.ImportFrom)) or not self._is_missing(first):
                return None
        if self._is_missing(node.body[0]):
            for handler in node.handlers:
                if _names(handler.type) & _CATCHES_IMPORT_ERROR or handler.type is None:
                    return None if handler.name else [*handler.body, *node.finalbody]
            return None
        only_import_errors = all(
            _names(handler.type) <= _IMPORT_ERRORS and handler.type for handler in node.handlers
        )
        if only_import_errors and all(self._is_certain(item) for item in node.body):
            return [*node.body, *node.orelse, *node.finalbody]
        return None

    def _is_missing(self, node: ast.stmt) -> bool:
        """Whether an import names a module that cannot exist: its package is local, itself is not there."""
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names[:1]]
        elif isinstance(node, ast.ImportFrom) and not (node.module == "__future__" and not node.level):
            name = relative_name(self.module.package, node.level, node.module)
            if name is None:
                return True
            names = [name] if name else []
        else:
            return False
        finder = self.program.finder
        return any(finder.is_local_root(name) and finder.find(name) is None for name in names)

    def _is_certain(self, node: ast.stmt) -> bool:
        """Whether an import cannot raise ImportError: what it needs is local, or needed anyway."""
        if isinstance(node, ast.Import):
            return all(self.program.certain(alias.name) for alias in node.names)
        assert isinstance(node, ast.ImportFrom)
        name = relative_name(self.module.package, node.level, node.module)
        if not name or not self.program.certain(name) or self.program.finder.find(name) is None:
            return False  # an installed module may lack the name, in this version or another one
        return all(self.program.provides(name, alias.name) for alias in node.names)


def _blocks(node: ast.stmt) -> list[tuple[str, list[ast.stmt]]]:
    if isinstance(node, ast.If):
        return [("body", node.body), ("orelse", node.orelse)]
    if isinstance(node, ast.Try):
        handlers = [(f"handler {index}", handler.body) for index, handler in enumerate(node.handlers)]
        return [("body", node.body), *handlers, ("orelse", node.orelse), ("finalbody", node.finalbody)]
    return []


def _names(node: ast.expr | None) -> set[str]:
    if isinstance(node, ast.Tuple):
        return {name for item in node.elts for name in _names(item)}
    if isinstance(node, ast.Name):
        return {node.id}
    return set() if node is None else {ast.unparse(node)}


def is_main_guard(test: ast.expr) -> bool:
    """Whether a test is ``__name__ == "__main__"`` or its opposite, either way round."""
    if (
        not isinstance(test, ast.Compare)
        or len(test.ops) != 1
        or not isinstance(test.ops[0], (ast.Eq, ast.NotEq))
    ):
        return False
    sides = [test.left, test.comparators[0]]
    return any(isinstance(side, ast.Name) and side.id == "__name__" for side in sides) and any(
        isinstance(side, ast.Constant) and side.value == "__main__" for side in sides
    )


def is_type_checking(test: ast.expr) -> bool:
    """Whether a test is ``TYPE_CHECKING`` or ``typing.TYPE_CHECKING``."""
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", None)
    return name == "TYPE_CHECKING"


def type_only(site: ImportSite) -> bool:
    """Whether an import stands under ``if TYPE_CHECKING``, so that it never runs."""
    unit: Unit | None = site.unit
    while unit is not None and unit.parent is not None:
        if (
            unit.block == "body"
            and isinstance(unit.parent.node, ast.If)
            and is_type_checking(unit.parent.node.test)
        ):
            return True
        unit = unit.parent
    return False


def is_certain_external(name: str) -> bool:
    """Whether importing the installed ``name`` cannot fail here, as far as one can tell without importing."""
    top = name.partition(".")[0]
    return top in sys.stdlib_module_names or is_installed(top)


def display_path(path: Path | None) -> str:
    """Return a path for messages, relative to the current folder where it is below it."""
    if path is None:
        return "?"
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
