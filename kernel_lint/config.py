"""Settings: the nearest ``[tool.kernel-lint]`` in a pyproject.toml, then the command line."""

from __future__ import annotations

import os
import sys

from kernel_lint import TYPE_CHECKING
from kernel_lint.errors import KernelLintError
from kernel_lint.files import read_regular, require_regular
from kernel_lint.frameworks import FRAMEWORKS
from kernel_lint.records import dataclass, field, fields, replace
from kernel_lint.source.module import MAX_BYTES

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

_TABLE = "kernel-lint"
DEFAULT_EXCLUDE = (
    ".git",
    ".hg",
    ".tox",
    ".venv",
    "venv",
    "__pycache__",
    "build",
    "dist",
    "node_modules",
    "site-packages",
)


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that changes what the linter finds.

    Rules are named by code, by a prefix of codes (``KL1``), by name or by ``ALL``.
    ``glue`` and ``compute`` move torch operations over the line between the two;
    ``allowed_imports`` are further packages that a candidate may import.
    """

    select: tuple[str, ...] = ("ALL",)
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    extend_ignore: tuple[str, ...] = ()
    per_file_ignores: dict[str, tuple[str, ...]] = field(default_factory=dict)
    exclude: tuple[str, ...] = DEFAULT_EXCLUDE
    framework: str = "flydsl"
    final: bool | None = None
    reference: str | None = None
    allowed_imports: tuple[str, ...] = ()
    glue: tuple[str, ...] = ()
    compute: tuple[str, ...] = ()
    max_file_size: int = MAX_BYTES
    jobs: int = 0
    cache_dir: str | None = None
    source: str | None = None
    # The files that ``source`` extends, directly or not.
    bases: tuple[str, ...] = ()

    def ignored_for(self, path: str) -> tuple[str, ...]:
        """Return the selectors that ``per-file-ignores`` adds for a file."""
        if not self.per_file_ignores:
            return ()
        import fnmatch

        name = os.path.basename(path)
        found: list[str] = []
        for pattern, selectors in self.per_file_ignores.items():
            if fnmatch.fnmatch(path, pattern) or fnmatch.fnmatch(name, pattern):
                found.extend(selectors)
        return tuple(found)


_LISTS = {
    "select",
    "ignore",
    "extend_select",
    "extend_ignore",
    "exclude",
    "allowed_imports",
    "glue",
    "compute",
}
_PRIVATE = {"source", "bases"}


def load(start: Path | str, *, config: Path | None = None, isolated: bool = False) -> Settings:
    """Return the settings for files under ``start``.

    ``config`` names a file outright; ``isolated`` ignores all files. Raises
    KernelLintError for a file that cannot be read, an unknown key or a wrong type.
    """
    if isolated:
        return Settings()
    path = config or find_config(start)
    if path is None:
        return Settings()
    return _load_file(path, seen=())


def find_config(start: Path | str) -> Path | None:
    """Return the nearest pyproject.toml at or above ``start`` that has our table."""
    name = os.path.join(os.getcwd(), start)
    folder = name if os.path.isdir(name) else os.path.dirname(name)
    while True:
        path = os.path.join(folder, "pyproject.toml")
        # Reading TOML costs more than looking for the table's name in the bytes.
        if _mentions_us(path):
            from pathlib import Path

            found = Path(path)
            if _table(found) is not None:
                return found
        if os.path.dirname(folder) == folder:
            return None
        folder = os.path.dirname(folder)


def _mentions_us(path: str) -> bool:
    try:
        require_regular(path)
        with open(path, "rb") as stream:
            return b"kernel-lint" in stream.read()
    except OSError:
        return False


def _parse(path: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        data: dict[str, Any] = tomllib.loads(read_regular(path).decode())
    except (OSError, UnicodeDecodeError) as error:
        raise KernelLintError(f"{path} cannot be read: {error}", "name a readable TOML file") from error
    except tomllib.TOMLDecodeError as error:
        raise KernelLintError(
            f"{path} is not valid TOML: {error}", "mend the file, or run with --isolated"
        ) from error
    return data


def _table(path: Path) -> dict[str, Any] | None:
    data = _parse(path)
    outer = data.get("tool", {})
    table: Any = outer.get(_TABLE) if path.name == "pyproject.toml" else outer.get(_TABLE, data)
    if table is not None and not isinstance(table, dict):
        raise KernelLintError(f"{path}: [tool.{_TABLE}] is not a table", "write it as [tool.kernel-lint]")
    return table


def _load_file(path: Path, seen: tuple[Path, ...]) -> Settings:
    if path.resolve() in seen:
        raise KernelLintError(f"{path} extends itself", "break the circle of 'extend' keys")
    table = dict(_table(path) or {})
    base = Settings()
    bases: tuple[str, ...] = ()
    extend = table.pop("extend", None)
    if extend is not None:
        if not isinstance(extend, str):
            raise KernelLintError(f"{path}: 'extend' must be a path", 'write extend = "../pyproject.toml"')
        base = _load_file((path.parent / extend).absolute(), (*seen, path.resolve()))
        bases = (str(base.source), *base.bases)
    return replace(base, **_checked(table, path), source=str(path), bases=bases)


def _checked(table: dict[str, Any], path: Path) -> dict[str, Any]:
    known = {f.name.replace("_", "-"): f.name for f in fields(Settings) if f.name not in _PRIVATE}
    out: dict[str, Any] = {}
    for key, value in table.items():
        if key not in known:
            import difflib

            near = difflib.get_close_matches(key, [*known, "extend"], 1)
            hint = (
                f"did you mean '{near[0]}'?"
                if near
                else f"known keys: {', '.join(sorted([*known, 'extend']))}"
            )
            raise KernelLintError(f"{path}: unknown key '{key}' in [tool.{_TABLE}]", hint)
        out[known[key]] = _typed(known[key], key, value, path)
    return out


def _typed(name: str, key: str, value: Any, path: Path) -> Any:
    def wrong(expected: str) -> KernelLintError:
        return KernelLintError(
            f"{path}: '{key}' must be {expected}, not {value!r}", "correct it in [tool.kernel-lint]"
        )

    if name in _LISTS:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise wrong("a list of strings")
        return tuple(value)
    if name == "per_file_ignores":
        if not isinstance(value, dict) or not all(isinstance(v, list) for v in value.values()):
            raise wrong("a table of pattern = [codes]")
        return {pattern: tuple(codes) for pattern, codes in value.items()}
    if name == "framework":
        if value not in FRAMEWORKS:
            raise wrong(f"one of {', '.join(FRAMEWORKS)}")
        return value
    if name == "final":
        if not isinstance(value, bool):
            raise wrong("true or false")
        return value
    if name in ("max_file_size", "jobs"):
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise wrong("a whole number, 0 or more")
        return value
    if not isinstance(value, str):
        raise wrong("a string")
    return str(path.parent / value) if name in ("reference", "cache_dir") else value
