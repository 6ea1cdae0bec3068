"""What cannot be kept the same in one file, found in the statements that are kept."""

from __future__ import annotations

import ast

from kernel_lint.packager.errors import PackageError
from kernel_lint.packager.forms import import_call_name, is_globals_call
from kernel_lint.packager.graph import Program
from kernel_lint.packager.model import ENTRY, Ext, Sym, Use
from kernel_lint.packager.outside import DATA_REMEDY, changes_of_modules, data_reason
from kernel_lint.packager.rename import Names
from kernel_lint.packager.shake import Kept

_FILE_NAMES = {
    "__file__": "the result is another file in another folder, so a path made from __file__ points elsewhere",
    "__path__": "the result is one module, not a package with a path",
    "__spec__": "the result is another module with another spec",
    "__loader__": "the result is another module with another loader",
}


def refusals(program: Program, kept: Kept) -> list[PackageError]:
    """Return an error for each kept use that would mean something else in the result."""
    problems = []
    for use in kept.uses:
        problem = _refusal(program, use)
        if problem is not None:
            problems.append(problem)
    for name in kept.modules:
        module = program.modules[name]
        for unit in module.all_units() if ".modules" in module.text else ():
            if kept.has(unit) and not unit.blocks:
                problems.extend(
                    PackageError(
                        "sys.modules is changed, or asked for a module of the workspace",
                        "import the module by a statement, and keep what it offers in its own variables",
                        module.path,
                        line,
                    )
                    for line in changes_of_modules(program, module, unit.node)
                )
    return problems


def _refusal(program: Program, use: Use) -> PackageError | None:
    node, module = use.node, use.unit.module
    target, depth = program.resolve_use(use)
    if target is None and use.name == "globals" and _written(use):
        return PackageError(
            "globals() is written to, or handed to code that may write to it",
            "assign the names one by one, or keep them in a dict of your own",
            module.path,
            node.lineno,
        )
    if target is None and use.name in ("eval", "exec") and use.is_global and _imports_local(program, use):
        return PackageError(
            f"{use.name} of text that imports a module of the workspace",
            "write the import as a statement",
            module.path,
            node.lineno,
        )
    if target is None and use.name == "open" and use.is_global:
        reason = data_reason(program, use, "open")
        if reason:
            return PackageError(reason, DATA_REMEDY, module.path, node.lineno)
    if isinstance(node, ast.Call):
        if target is None and _unknown_import(program, use, node):
            return PackageError(
                f"{import_call_name(node)} of a name that is only known when the program runs",
                "import the module by its name, or map the names to modules in a dict of imports",
                module.path,
                node.lineno,
            )
        return None
    if target is None and use.name in _FILE_NAMES:
        return PackageError(
            f"{use.name} is used: {_FILE_NAMES[use.name]}",
            "move the data into a Python constant, or the code that needs the path out of the kernel",
            module.path,
            use.unit.line if use.string is not None else node.lineno,
        )
    if isinstance(target, Ext):
        dotted = ".".join(
            [target.module, *([target.attr] if target.attr else []), *(x.name for x in use.links[depth:])]
        )
        if dotted == "importlib.import_module" and _is_hidden_import(program, use):
            return PackageError(
                "import_module is called under another name, or passed on",
                "import the module by a statement, or call import_module by its own name",
                module.path,
                node.lineno,
            )
        reason = data_reason(program, use, dotted)
        if reason:
            return PackageError(reason, DATA_REMEDY, module.path, node.lineno)
        if dotted == "importlib.reload":
            return PackageError(
                "importlib.reload runs a module again, and the result has only one module",
                "call a function that sets the state again instead",
                module.path,
                node.lineno,
            )
    return None


def _is_hidden_import(program: Program, use: Use) -> bool:
    """Whether a use of ``importlib.import_module`` may import a module of the workspace unseen."""
    if use.call is None:
        return True
    if import_call_name(use.call):
        return False
    given = [*use.call.args[:1], *(k.value for k in use.call.keywords if k.arg == "name")]
    name = program.fold(use.unit.module, given[0]) if given else None
    return name is None or name.startswith(".") or program.finder.is_local_root(name)


def _written(use: Use) -> bool:
    """Whether the dict that ``globals()`` gives is changed, or leaves the expression."""
    if use.call is None or not is_globals_call(use.call):
        return True
    parents = {id(child): node for node in ast.walk(use.unit.node) for child in ast.iter_child_nodes(node)}
    parent = parents.get(id(use.call))
    if isinstance(parent, ast.Subscript):
        return not isinstance(parent.ctx, ast.Load)
    if isinstance(parent, ast.Attribute):
        return parent.attr not in ("items", "keys", "values", "get", "copy", "__contains__", "__getitem__")
    if isinstance(parent, ast.Call):
        name = getattr(parent.func, "id", "")
        return name not in ("dict", "list", "sorted", "tuple", "set", "len", "iter", "eval")
    return not isinstance(parent, (ast.Compare, ast.comprehension, ast.For))


def renamed_under_text(program: Program, kept: Kept, names: Names) -> list[PackageError]:
    """Return an error for each ``eval`` or ``exec`` in a module some of whose names had to change."""
    problems = []
    for use in kept.uses:
        target, _ = program.resolve_use(use)
        if target is None and use.is_global and use.name in ("eval", "exec"):
            own = use.unit.module.name
            changed = [
                s
                for s, flat in names.flat.items()
                if isinstance(s, Sym) and s.module == own and s.name != flat
            ]
            if changed:
                problems.append(
                    PackageError(
                        f"{use.name} runs text that may use {changed[0].name!r}, which gets another name",
                        "rename one of the two things that share the name, or replace the text by code",
                        use.unit.module.path,
                        use.node.lineno,
                    )
                )
    return problems


def _imports_local(program: Program, use: Use) -> bool:
    text = program.fold(use.unit.module, use.call.args[0]) if use.call is not None and use.call.args else None
    try:
        tree = ast.parse(text or "")
    except SyntaxError:
        return False
    names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    return any(program.finder.is_local_root(name) for name in names)


def _unknown_import(program: Program, use: Use, node: ast.Call) -> bool:
    return program.fold(use.unit.module, node.args[0]) is None and use.unit.module.name is not None


__all__ = ["ENTRY", "refusals", "renamed_under_text"]
