"""The task: what a candidate is judged against, loaded without running any of it.

A task is a folder with ``reference.py`` (class ``Model``), ``input.py`` (function
``_make_inputs``) and ``shapes.json``::

    {"small": {"init_kwargs": {"eps": 1e-6}, "input_kwargs": {"rows": 4}}, ...}

Only ``shapes.json`` is read as data here. The two Python files are parsed, never executed,
so that whatever is wrong with them is said in one sentence before a process is started.
"""

from __future__ import annotations

import ast
import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernel_lint.errors import KernelLintError
from kernel_lint.files import read_regular

REFERENCE_FILE = "reference.py"
INPUT_FILE = "input.py"
SHAPES_FILE = "shapes.json"
_ENTRY_KEYS = ("init_kwargs", "input_kwargs")
# Optional per-shape statement of the task's own tolerance.
_OPTIONAL_KEYS = ("tolerance",)
_TOLERANCE_KEYS = ("rtol", "atol", "rel_err")


class InvalidTaskError(KernelLintError):
    """The task itself is wrong; ``file`` and ``field`` say where. Never the candidate's fault."""

    def __init__(self, file: str, where: str, problem: str, remedy: str = "") -> None:
        place = f"{file}: {where}" if where else file
        super().__init__(f"INVALID_TASK {place}: {problem}", remedy)
        self.file = file
        self.field = where
        self.problem = problem

    @property
    def sentence(self) -> str:
        """File, field, problem and remedy in one sentence."""
        place = f"{self.file}: {self.field}" if self.field else self.file
        return f"{place}: {self.problem}" + (f"; {self.remedy}" if self.remedy else "")


@dataclass(frozen=True, slots=True)
class Shape:
    """One entry of ``shapes.json``: keyword arguments of ``Model`` and of ``_make_inputs``."""

    id: str
    init_kwargs: dict[str, Any]
    input_kwargs: dict[str, Any]
    tolerance: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Task:
    """A checked task folder; ``digest`` changes whenever any of its three files does."""

    folder: Path
    reference: Path
    inputs: Path
    shapes: tuple[Shape, ...]
    digest: str


def load_task(folder: Path) -> Task:
    """Read and check the task in ``folder``.

    Raises :class:`InvalidTaskError` with the file and field at fault.
    """
    if not folder.is_dir():
        raise InvalidTaskError(str(folder), "", "the task folder does not exist", "name it with --task DIR")
    reference, inputs, shapes = (folder / name for name in (REFERENCE_FILE, INPUT_FILE, SHAPES_FILE))
    digest = hashlib.sha256()
    for path in (reference, inputs, shapes):
        digest.update(_read(path) + b"\0")
    _check_python(reference, "Model", "class Model")
    _check_python(inputs, "_make_inputs", "function _make_inputs")
    return Task(folder, reference, inputs, load_shapes(shapes), digest.hexdigest())


def load_shapes(path: Path) -> tuple[Shape, ...]:
    """Read ``shapes.json``; raises :class:`InvalidTaskError`."""
    text = _read(path)
    try:
        entries = json.loads(text.decode("utf-8"), object_pairs_hook=_without_duplicates)
    except UnicodeDecodeError as error:
        raise InvalidTaskError(path.name, f"byte {error.start}", "is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise InvalidTaskError(path.name, where, f"is not JSON ({error.msg})") from None
    except _DuplicateKeyError as error:
        raise InvalidTaskError(path.name, str(error), "is written twice") from None
    except RecursionError:
        raise InvalidTaskError(path.name, "", "is nested too deep to be read") from None
    except ValueError as error:
        raise InvalidTaskError(path.name, "", f"cannot be read ({error})") from None
    if not isinstance(entries, dict):
        raise InvalidTaskError(path.name, "", "must be an object of shape id to entry")
    if not entries:
        raise InvalidTaskError(path.name, "", "has no shapes, so nothing could be verified")
    return tuple(_shape(path.name, key, value) for key, value in entries.items())


def _shape(file: str, key: str, entry: object) -> Shape:
    if not key.isprintable() and key != key.encode("utf-8", "replace").decode():
        raise InvalidTaskError(file, ascii(key), "is half of a surrogate pair and no text")
    if not isinstance(entry, dict):
        raise InvalidTaskError(file, f'"{key}"', "must be an object with init_kwargs and input_kwargs")
    for name in _ENTRY_KEYS:
        if name not in entry:
            raise InvalidTaskError(file, f'"{key}".{name}', "is missing", f'add "{name}": {{}} to the entry')
        if not isinstance(entry[name], dict):
            raise InvalidTaskError(file, f'"{key}".{name}', "must be an object of keyword arguments")
        for argument in entry[name]:
            if not argument.isidentifier():
                raise InvalidTaskError(file, f'"{key}".{name}.{argument}', "is not a Python argument name")
    for name in entry:
        if name not in _ENTRY_KEYS + _OPTIONAL_KEYS:
            raise InvalidTaskError(file, f'"{key}".{name}', "is not a known field")
    return Shape(
        key, entry["init_kwargs"], entry["input_kwargs"], _tolerance(file, key, entry.get("tolerance", {}))
    )


def _tolerance(file: str, key: str, value: object) -> dict[str, float]:
    where = f'"{key}".tolerance'
    if not isinstance(value, dict):
        raise InvalidTaskError(file, where, "must be an object with rtol, atol or rel_err")
    for name, number in value.items():
        good = (
            isinstance(number, (int, float)) and not isinstance(number, bool) and 0 <= number < float("inf")
        )
        if name not in _TOLERANCE_KEYS or not good:
            raise InvalidTaskError(
                file, f"{where}.{name}", "must be rtol, atol or rel_err, a number of at least 0"
            )
    return {name: float(number) for name, number in value.items()}


def _check_python(path: Path, name: str, what: str) -> None:
    try:
        tree = ast.parse(_read(path), filename=path.name)
    except (SyntaxError, ValueError, RecursionError) as error:
        line, problem = getattr(error, "lineno", None), getattr(error, "msg", str(error))
        raise InvalidTaskError(
            path.name, f"line {line}" if line else "", f"is not valid Python ({problem})"
        ) from None
    if not name_bound(tree, name):
        raise InvalidTaskError(path.name, name, f"defines no {what} at module level")


def name_bound(tree: ast.Module, name: str) -> bool:
    """Whether some statement of a module, outside functions and classes, may bind a name.

    What it is bound to shows when the file is imported.
    """
    left: list[ast.AST] = list(tree.body)
    while left:
        node = left.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            if node.name == name:
                return True
        elif isinstance(node, ast.Name):
            if node.id == name and isinstance(node.ctx, ast.Store):
                return True
        elif isinstance(node, ast.alias):
            if (node.asname or node.name.partition(".")[0]) in (name, "*"):
                return True
        else:
            left += ast.iter_child_nodes(node)
    return False


def _read(path: Path) -> bytes:
    try:
        return read_regular(path)
    except FileNotFoundError:
        remedy = f"put {path.name} beside the candidate, or name its folder with --task DIR"
        raise InvalidTaskError(path.name, "", f"does not exist in {_shown(path.parent)}", remedy) from None
    except OSError as error:
        raise InvalidTaskError(path.name, "", f"cannot be read ({error.strerror})") from None


def _shown(folder: Path) -> str:
    return "the current folder" if folder == Path() else str(folder)


class _DuplicateKeyError(ValueError):
    pass


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise _DuplicateKeyError(f'"{key}"')
        result[key] = value
    return result
