"""The files of a workspace: which local modules there are, parsed; what is installed is left alone."""

from __future__ import annotations

import ast
from pathlib import Path

from kernel_lint import TYPE_CHECKING
from kernel_lint.packager.forms import import_call_name
from kernel_lint.packager.load import analyse, is_certain_external, parse_module, type_only
from kernel_lint.packager.model import ENTRY, ImportSite, Module, Use
from kernel_lint.packager.resolve import Finder, Source, entry_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MODEL = "Model"


class Workspace:
    """The entry and every local module that it can reach by imports, lazy ones included.

    Raises :class:`~kernel_lint.packager.errors.PackageError` where a file cannot be parsed.
    """

    def __init__(self, entry: Path, roots: Sequence[Path] = (), inline: Sequence[str] = ()) -> None:
        self.entry = entry.resolve()
        package, top = entry_name(self.entry)
        folders = [*roots, self.entry.parent, top]
        self.finder = Finder(list(dict.fromkeys(folder.resolve() for folder in folders)), inline)
        self.modules: dict[str, Module] = {}
        self._loading: list[str] = []
        self._asking: set[str] = set()
        self._submodules: dict[str, list[str]] = {}
        self._listed_modules = 0
        self.has_model = False
        module = parse_module(Source(ENTRY, self.entry, False), package)
        self.has_model = _binds_model(module.tree)
        self.needed = _certain_imports(module.tree)
        self.modules[ENTRY] = module
        analyse(self, module)
        self._load_imports(module)

    def load(self, name: str) -> Module | None:
        """Return the local module ``name``, parsed; None where there is none."""
        if name in self.modules:
            return self.modules[name]
        source = self.finder.find(name)
        if source is None:
            return None
        package = name if source.is_package else name.rpartition(".")[0]
        module = parse_module(source, package)
        self.modules[name] = module
        self._loading.append(name)
        analyse(self, module)
        self._loading.remove(name)
        self._load_imports(module)
        return module

    def release(self) -> None:
        """Part what refers to each other, so that no collector is needed to free it; nothing works after."""
        for module in self.modules.values():
            for site in module.sites:
                site.scope.imports.clear()
                site.scope.meanings.clear()
            for unit in module.all_units():
                for held in (unit.uses, unit.bindings, unit.imports, unit.blocks):
                    held.clear()
            for owned in (
                module.units,
                module.flat,
                module.uses,
                module.stores,
                module.sites,
                module.bindings,
            ):
                owned.clear()

    def submodules(self, name: str) -> list[str]:
        """Return the last parts of the names of a package's own submodules, in the order of loading."""
        if self._listed_modules != len(self.modules):
            self._listed_modules = len(self.modules)
            self._submodules.clear()
            for module in self.modules:
                parent, _, last = module.rpartition(".")
                self._submodules.setdefault(parent, []).append(last)
        return self._submodules.get(name, [])

    def _load_imports(self, module: Module) -> None:
        for site in module.sites:
            if not type_only(site):
                for name in self._module_names(site):
                    self.load(name)
        for use in module.uses:
            if isinstance(use.node, ast.Call):
                if self.import_call(use):
                    for prefix in prefixes(self._import_call_name(use) or ""):
                        self.load(prefix)

    def _module_names(self, site: ImportSite) -> Iterator[str]:
        if site.module is None:
            return
        yield from prefixes(site.module)
        if isinstance(site.node, ast.ImportFrom) and not site.star:
            yield f"{site.module}.{site.alias.name}" if site.module else site.alias.name

    def certain(self, name: str) -> bool:
        """Whether importing ``name`` cannot raise ImportError, as far as its files tell."""
        if not self.finder.is_local_root(name):
            return name.partition(".")[0] in self.needed
        if self.finder.find(name) is None:
            return False
        if name in self._asking:
            return True  # in a cycle: the others decide
        self._asking.add(name)
        try:
            return self._runs_for_certain(name)
        finally:
            self._asking.discard(name)

    def _runs_for_certain(self, name: str) -> bool:
        for prefix in prefixes(name):
            module = self.load(prefix)
            if module is None or prefix in self._loading:
                return False
            for site in module.sites:
                if site.deferred or site.unit.conditional or type_only(site):
                    continue
                if site.module is None or not self._site_certain(site):
                    return False
        return True

    def _site_certain(self, site: ImportSite) -> bool:
        name = site.module or ""
        if name in self._loading or name in self.modules:
            return True
        if self.finder.is_local_root(name):
            return self.certain(name)
        return is_certain_external(name)

    def provides(self, module_name: str, name: str) -> bool:
        """Whether ``from module_name import name`` finds the name in the files."""
        module = self.load(module_name)
        if module is None or name == "*":
            return False
        return name in module.bindings or self.finder.find(f"{module_name}.{name}") is not None

    def is_local(self, site: ImportSite) -> bool:
        """Whether an import statement names local code."""
        if site.module is None:
            return True
        if site.module == "":
            return True
        return self.finder.is_local_root(site.module) or self.finder.find(site.module) is not None

    # -- imports by function ---------------------------------------------------------

    def import_call(self, use: Use) -> str | None:
        """Return the local module that an ``import_module("...")`` call names, else None."""
        node = use.node
        assert isinstance(node, ast.Call)
        name = self._import_call_name(use)
        if name is None:
            return None
        if not self.finder.is_local_root(name) or self.finder.find(name) is None:
            return None
        whole = len(node.args) > 3 or any(keyword.arg == "fromlist" for keyword in node.keywords)
        return name if whole or import_call_name(node) != "__import__" else name.partition(".")[0]

    def import_call_modules(self, use: Use) -> list[str]:
        """Return the local modules that an ``import_module("...")`` call runs, packages first."""
        node = use.node
        if not isinstance(node, ast.Call) or self.import_call(use) is None:
            return []
        return [name for name in prefixes(self._import_call_name(use) or "") if name in self.modules]

    def _import_call_name(self, use: Use) -> str | None:
        assert isinstance(use.node, ast.Call)
        name = self.fold(use.unit.module, use.node.args[0])
        if name is not None and name.startswith("."):
            dots = len(name) - len(name.lstrip("."))
            given = [*use.node.args[1:2], *(k.value for k in use.node.keywords if k.arg == "package")]
            own = self.fold(use.unit.module, given[0]) if given else None
            package = (own or use.unit.module.package).split(".")
            name = ".".join(package[: len(package) - dots + 1] + [name[dots:]])
        return name

    def fold(self, module: Module, node: ast.expr) -> str | None:
        """Return the value of a constant string expression, None where it is not constant."""
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else None
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            left, right = self.fold(module, node.left), self.fold(module, node.right)
            return None if left is None or right is None else left + right
        if isinstance(node, ast.JoinedStr):
            parts = [self.fold(module, value) for value in node.values]
            return None if None in parts else "".join(part for part in parts if part is not None)
        if isinstance(node, ast.FormattedValue) and node.conversion == -1 and node.format_spec is None:
            return self.fold(module, node.value)
        if isinstance(node, ast.Name) and node.id in ("__name__", "__package__") and module.name != ENTRY:
            return module.name if node.id == "__name__" else module.package
        if isinstance(node, ast.Name):
            bindings = module.bindings.get(node.id, [])
            unit = bindings[0].unit.node if len(bindings) == 1 else None
            if isinstance(unit, ast.Assign) and isinstance(unit.value, ast.Constant):
                return self.fold(module, unit.value)
        return None


def prefixes(name: str) -> Iterator[str]:
    parts = name.split(".") if name else []
    for index in range(len(parts)):
        yield ".".join(parts[: index + 1])


def _binds_model(tree: ast.Module) -> bool:
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == MODEL:
            return True
        if isinstance(node, ast.ImportFrom) and any((a.asname or a.name) == MODEL for a in node.names):
            return True
        if isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == MODEL for t in node.targets
        ):
            return True
    return False


def _certain_imports(tree: ast.Module) -> set[str]:
    """Return the top-level packages that the entry cannot do without."""
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            found.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found
