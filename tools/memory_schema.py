"""The schema of ``memory/v<N>.json``, and what follows from it: blank files, paths, values.

The schema file is the one description of the format; everything here reads it, so that a field
added there can be set, suggested and checked with no other change.
"""

from __future__ import annotations

import difflib
import functools
import json
import re
from pathlib import Path
from typing import Any, NoReturn

from kernel_lint.errors import KernelLintError

SCHEMA_FILE = Path(__file__).resolve().parent / "reference" / "v_iteration.schema.json"
OWN_FIELDS = frozenset({"schema_version", "version", "created_at", "updated_at", "masked", "mask_reason"})
"""Fields that only this tool writes: --set refuses them."""


@functools.cache
def schema() -> dict[str, Any]:
    """Return the JSON Schema of a memory file."""
    loaded = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    assert isinstance(loaded, dict)
    return loaded


def blank(node: dict[str, Any] | None = None) -> Any:
    """Return the empty value of a schema node: objects with their fields, ``[]``, or None."""
    node = schema() if node is None else node
    if node.get("type") == "object":
        return {name: blank(child) for name, child in node.get("properties", {}).items()}
    if node.get("type") == "array":
        return []
    return node.get("const")


def validate(memory: Any, where: str) -> None:
    """Raise :class:`KernelLintError` naming the first field that breaks the schema."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    error = best_match(Draft202012Validator(schema()).iter_errors(memory))
    if error is None:
        return
    place = ".".join(str(part) for part in error.absolute_path) or "the file"
    raise KernelLintError(
        f"{where}: {place}: {error.message}", f"see {SCHEMA_FILE.name} for what the field takes"
    )


def locate(path: str) -> tuple[list[str | int], dict[str, Any]]:
    """Return a dotted path's keys and its schema node; digits index arrays.

    Raises :class:`KernelLintError`, with the nearest known field, for a path that is not in the schema.
    """
    node: dict[str, Any] = schema()
    keys: list[str | int] = []
    for name in path.split("."):
        here = ".".join(map(str, keys)) or "a memory file"
        child = _child(node, name)
        if child is None and node.get("type") == "array":
            _refuse(path, f"{here} is a list and {name!r} is not an index", "use 0, 1, ... or --append")
        if child is None:
            _refuse(path, f"there is no field {name!r} in {here}", _suggest(path, name, node))
        keys.append(int(name) if node.get("type") == "array" else name)
        node = child
    if keys[0] in OWN_FIELDS:
        _refuse(path, f"{keys[0]} is kept by this tool", "use create, mask or unmask")
    return keys, node


def _child(node: dict[str, Any], name: str) -> dict[str, Any] | None:
    """Return the schema of a named field or of a list's items, or None where there is none."""
    if node.get("type") == "array":
        items = node["items"]
        assert isinstance(items, dict)
        return items if re.fullmatch("[0-9]{1,6}", name) else None
    if not node and name:  # free-form: anything may be nested in it
        return {}
    child = node.get("properties", {}).get(name)
    if child is None and name and node.get("type") == "object":
        extra = node.get("additionalProperties", False)
        child = {} if extra is True else extra or None
    return child if isinstance(child, dict) else None


def parse_value(text: str, node: dict[str, Any]) -> Any:
    """Read a value as JSON, or as a plain string where the field takes one.

    ``NaN`` and ``Infinity`` are no JSON and become strings, which number fields then refuse.
    """
    types = node.get("type")
    allowed = {types} if isinstance(types, str) else set(types or ())
    if "string" in allowed and "number" not in allowed and not (text == "null" and "null" in allowed):
        return json.loads(text) if len(text) > 1 and text[0] == text[-1] == '"' and _is_json(text) else text
    return json.loads(text, parse_constant=str) if _is_json(text) else text


def field_paths(node: dict[str, Any] | None = None, prefix: str = "") -> list[str]:
    """Return the dotted paths of all named fields."""
    node = schema() if node is None else node
    found = []
    for name, child in node.get("properties", {}).items():
        found.append(prefix + name)
        found += field_paths(child, f"{prefix}{name}.")
    return found


def _suggest(path: str, name: str, node: dict[str, Any]) -> str:
    """Return the likeliest spelling: of this level's fields, of all paths, of all last names."""
    here = list(node.get("properties", {}))
    if close := difflib.get_close_matches(name, here, n=2):
        return f"did you mean {' or '.join(close)}?"
    every = [known for known in field_paths() if known.split(".")[0] not in OWN_FIELDS]
    close = difflib.get_close_matches(path, every, n=2)
    last = path.rsplit(".", 1)[-1]
    close = close or [known for known in every if known.rsplit(".", 1)[-1] == last]
    if close:
        return f"did you mean {' or '.join(close[:2])}?"
    return f"the fields there are: {', '.join(sorted(set(here) - OWN_FIELDS)) or 'none'}"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _refuse(path: str, message: str, remedy: str) -> NoReturn:
    raise KernelLintError(f"{path}: {message}", remedy)
