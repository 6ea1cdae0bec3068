"""The JSON schema of ``[tool.kernel-lint]``, made from :class:`~kernel_lint.config.Settings`.

validate-pyproject finds it by the entry point group ``validate_pyproject.tool_schema``.
"""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any, get_type_hints

from kernel_lint.config import Settings
from kernel_lint.frameworks import FRAMEWORKS

_STRINGS = {"type": "array", "items": {"type": "string"}}
_BY_TYPE: dict[Any, dict[str, Any]] = {
    tuple[str, ...]: _STRINGS,
    dict[str, tuple[str, ...]]: {"type": "object", "additionalProperties": _STRINGS},
    int: {"type": "integer", "minimum": 0},
    bool | None: {"type": "boolean"},
    str | None: {"type": "string"},
    str: {"type": "string"},
}
# Set by the reader of the file, not by its writer.
_PRIVATE = {"source"}


def schema(tool_name: str = "kernel-lint") -> dict[str, Any]:
    """Return the schema; raises KeyError when a setting has a type that no table row stands for."""
    hints = get_type_hints(Settings)
    properties = {
        item.name.replace("_", "-"): dict(_BY_TYPE[hints[item.name]])
        for item in fields(Settings)
        if item.name not in _PRIVATE
    }
    properties["framework"]["enum"] = list(FRAMEWORKS)
    properties["extend"] = {"type": "string", "description": "A file to read first; this one overrides it."}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": f"https://kernel-lint.readthedocs.io/schemas/{re.sub('[^a-z0-9-]', '', tool_name)}.json",
        "title": "Settings of kernel-lint",
        "type": "object",
        "additionalProperties": False,
        "properties": dict(sorted(properties.items())),
    }
