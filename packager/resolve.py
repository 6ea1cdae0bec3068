"""Where a dotted module name lives: in the workspace, or in the interpreter's installation."""

from __future__ import annotations

import contextlib
import functools
import importlib.machinery
import os
import sys
from pathlib import Path

from kernel_lint import TYPE_CHECKING
from kernel_lint.files import require_regular
from kernel_lint.packager.errors import PackageError

if TYPE_CHECKING:
    from collections.abc import Sequence

# Modules that are in sys.modules before a script's folder is searched, so that a file of the
# same name beside the script never replaces them (measured: `python -I -c "import sys;
# print(sorted(sys.modules))"` on 3.10 to 3.13, less private and zip-related ones).
_PRELOADED = frozenset(
    "abc builtins codecs encodings genericpath io marshal os posix posixpath site stat sys time "
    "winreg zipimport".split()
)


class Source:
    """The file behind a local module; ``path`` is None for a namespace package."""

    __slots__ = ("folders", "is_package", "name", "path")

    def __init__(
        self, name: str, path: Path | None, is_package: bool, folders: tuple[Path, ...] = ()
    ) -> None:
        self.name = name
        self.path = path
        self.is_package = is_package
        self.folders = folders


class Finder:
    """Finds local modules under the source roots and under packages to inline.

    ``roots`` are searched in order, like ``sys.path``. ``inline`` are dotted names of
    installed packages that are treated as local; everything below them is, and their
    parents are not.
    """

    def __init__(self, roots: Sequence[Path], inline: Sequence[str] = ()) -> None:
        self.roots = [root.resolve() for root in roots]
        self.inline = tuple(inline)
        self._cache: dict[str, Source | None] = {}

    def add_root(self, folder: Path, index: int | None = None) -> None:
        """Search ``folder`` too, as ``sys.path.insert(index, folder)`` or ``append`` would."""
        folder = folder.resolve()
        if folder in self.roots or not folder.is_dir():
            return
        self.roots.insert(len(self.roots) if index is None else index, folder)
        self._cache.clear()

    def find(self, name: str) -> Source | None:
        """Return the local module called ``name``, or None where it is not local."""
        if name not in self._cache:
            self._cache[name] = self._find(name)
        return self._cache[name]

    def is_local_root(self, name: str) -> bool:
        """Whether the first component of ``name`` is a local module, so that ``name`` has to be one too."""
        top = name.partition(".")[0]
        return self.find(top) is not None

    def _find(self, name: str) -> Source | None:
        parent, _, last = name.rpartition(".")
        if parent:
            holder = self.find(parent)
            if holder is not None:
                return _search(name, last, holder.folders) if holder.is_package else None
            return self._inlined(name)
        if name in sys.builtin_module_names or name in _PRELOADED:
            return None
        source = _search(name, name, tuple(self.roots))
        if source is not None and source.path is None and _installed(name):
            source = None  # a folder without __init__.py never hides an installed package
        return source or self._inlined(name)

    def _inlined(self, name: str) -> Source | None:
        if not any(name == package or name.startswith(package + ".") for package in self.inline):
            return None
        search: list[str] | None = None
        parts = name.split(".")
        for index, _ in enumerate(parts):
            try:
                spec = importlib.machinery.PathFinder.find_spec(".".join(parts[: index + 1]), search)
            except KeyError:
                return None  # below a folder without __init__.py, of which only an import tells
            if spec is None:
                return None
            search = list(spec.submodule_search_locations or ())
        path = Path(spec.origin) if spec and spec.origin and spec.has_location else None
        if path is not None and path.suffix != ".py":
            return None
        return Source(name, path, bool(search), tuple(map(Path, search or ())))


def _search(name: str, last: str, folders: tuple[Path, ...]) -> Source | None:
    portions = []
    for folder in folders:
        package = os.path.join(folder, last)
        if os.path.isfile(init := os.path.join(package, "__init__.py")):
            return Source(name, Path(init), True, (Path(package),))
        if os.path.isfile(package + ".py"):
            return Source(name, Path(package + ".py"), False)
        if os.path.isdir(package) and _holds_python(Path(package)):
            portions.append(Path(package))
    return Source(name, None, True, tuple(portions)) if portions else None


def _holds_python(folder: Path) -> bool:
    return any(folder.glob("*.py")) or any(
        any(child.glob("*.py")) for child in folder.iterdir() if child.is_dir()
    )


@functools.cache
def _installed(name: str) -> bool:
    """Whether the interpreter itself finds ``name`` (nothing is imported to find out)."""
    if name in sys.stdlib_module_names:
        return True
    try:
        return importlib.machinery.PathFinder.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def is_installed(name: str) -> bool:
    """Whether the top-level package of the dotted ``name`` is installed in this interpreter."""
    return _installed(name.partition(".")[0])


def relative_name(package: str, level: int, name: str | None) -> str | None:
    """Return the absolute name of ``from <level dots><name>`` in ``package``, None beyond the top.

    An entry file outside any package has package ``""``: one dot is then its own folder.
    """
    if level == 0:
        return name or ""
    parts = package.split(".") if package else []
    if level - 1 > len(parts) or (level > len(parts) and parts):
        return None
    base = parts[: len(parts) - (level - 1)]
    return ".".join(base + ([name] if name else []))


def entry_name(entry: Path) -> tuple[str, Path]:
    """Return the dotted name of the package that holds ``entry`` ("" for none), and the root above it."""
    folder = entry.parent
    parts: list[str] = []
    while (folder / "__init__.py").is_file() and folder.parent != folder:
        parts.insert(0, folder.name)
        folder = folder.parent
    return ".".join(parts), folder


def read_source(path: Path) -> str:
    """Return the text of a Python file as the interpreter would decode it.

    Raises :class:`PackageError` where it cannot be read or decoded.
    """
    try:
        require_regular(path)
        with open(path, "rb") as binary:
            data = binary.read()
        if not data.startswith(b"\xef\xbb\xbf") and b"coding" not in b"".join(data.split(b"\n", 2)[:2]):
            with contextlib.suppress(UnicodeDecodeError):
                return data.decode().replace("\r\n", "\n").replace("\r", "\n")
        import tokenize

        with tokenize.open(path) as stream:
            return stream.read()
    except (OSError, SyntaxError, UnicodeDecodeError, LookupError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise PackageError(
            f"cannot be read: {reason}", "make it a readable UTF-8 file, or fix its coding line", path
        ) from error
