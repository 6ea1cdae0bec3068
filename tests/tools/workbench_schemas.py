"""Check JSON output against the published schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "schemas"


def conforms(name: str, value: Any) -> None:
    """Raise when a value, as JSON, does not follow the schema of that name."""
    loaded = {path.name: json.loads(path.read_text()) for path in FOLDER.glob("*.schema.json")}
    resources = [(schema["$id"], Resource.from_contents(schema)) for schema in loaded.values()]
    schema = loaded[f"{name}.schema.json"]
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema, registry=Registry().with_resources(resources)).validate(
        json.loads(json.dumps(value))
    )
