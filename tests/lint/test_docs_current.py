"""The generated pages under docs/ are those that the code makes."""

from __future__ import annotations

import pytest

from kernel_lint import docgen


@pytest.mark.parametrize("name", sorted(docgen.generate()))
def test_current(name: str) -> None:
    text = (docgen.ROOT / name).read_text(encoding="utf-8")
    assert text == docgen.generate()[name], "run make docs"


def test_no_page_of_a_rule_that_is_gone() -> None:
    pages = {f"docs/rules/{path.name}" for path in (docgen.ROOT / "docs" / "rules").glob("*.md")}
    assert pages <= set(docgen.generate())
