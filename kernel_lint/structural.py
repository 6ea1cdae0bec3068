"""Structural rules: ast-grep YAML under ``rules/structural``, run through ast-grep's library.

The YAML is the source; ``compiled.json`` beside it is what runs, because parsing YAML at
every start would cost more than linting a file. ``python -m kernel_lint.structural`` writes
it anew, and a test fails when it is stale.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache

from kernel_lint import TYPE_CHECKING
from kernel_lint.diagnostics import Span
from kernel_lint.source.module import SourceModule

if TYPE_CHECKING:
    from typing import Any

FOLDER = os.path.join(os.path.dirname(__file__), "rules", "structural")
COMPILED = os.path.join(FOLDER, "compiled.json")


def compile_rules() -> dict[str, dict[str, Any]]:
    """Return the matcher of each YAML rule by id."""
    from pathlib import Path

    import yaml

    compiled = {}
    for path in sorted(Path(FOLDER).glob("*.yml")):
        rule = yaml.safe_load(path.read_text(encoding="utf-8"))
        compiled[rule["id"]] = {key: rule[key] for key in ("rule", "constraints", "utils") if key in rule}
    return compiled


@lru_cache(maxsize=1)
def _matchers() -> dict[str, dict[str, Any]]:
    import json

    with open(COMPILED, encoding="utf-8") as stream:
        matchers: dict[str, dict[str, Any]] = json.load(stream)
    return matchers


def matches(module: SourceModule, rule_id: str) -> Iterator[Span]:
    """Yield the places where a structural rule matches."""
    from ast_grep_py import SgRoot

    root = SgRoot("\n".join(module.lines), "python").root()
    for node in root.find_all(_matchers()[rule_id]):  # type: ignore[call-overload]
        where = node.range()
        yield Span(where.start.line + 1, where.start.column + 1, where.end.line + 1, where.end.column + 1)


if __name__ == "__main__":
    import json

    with open(COMPILED, "w", encoding="utf-8") as stream:
        stream.write(json.dumps(compile_rules(), indent=1) + "\n")
