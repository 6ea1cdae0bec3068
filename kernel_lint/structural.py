"""Structural rules: ast-grep YAML under ``rules/structural``, run through ast-grep's library.

The YAML is the source; ``compiled.json`` beside it is what runs, because parsing YAML at
every start would cost more than linting a file. ``python -m kernel_lint.structural`` writes
it anew, and a test fails when it is stale.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from kernel_lint import TYPE_CHECKING
from kernel_lint.diagnostics import Span
from kernel_lint.source.module import SourceModule

if TYPE_CHECKING:
    from typing import Any

FOLDER = Path(__file__).with_name("rules") / "structural"
COMPILED = FOLDER / "compiled.json"


def compile_rules() -> dict[str, dict[str, Any]]:
    """Return the matcher of each YAML rule by id."""
    import yaml

    compiled = {}
    for path in sorted(FOLDER.glob("*.yml")):
        rule = yaml.safe_load(path.read_text(encoding="utf-8"))
        compiled[rule["id"]] = {key: rule[key] for key in ("rule", "constraints", "utils") if key in rule}
    return compiled


@lru_cache(maxsize=1)
def _matchers() -> dict[str, dict[str, Any]]:
    import json

    matchers: dict[str, dict[str, Any]] = json.loads(COMPILED.read_text(encoding="utf-8"))
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

    COMPILED.write_text(json.dumps(compile_rules(), indent=1) + "\n", encoding="utf-8")
