"""Attributes that are read out of the namespace of a module by a method of the mapping."""

from __future__ import annotations

import pytest

from kernel_lint.source import SourceModule


@pytest.mark.parametrize(
    "text",
    [
        "import sys\nA = sys.__dict__.get('argv')\n",
        "import sys\nA = vars(sys).get('ar' + 'gv')\n",
        "import sys\nA = sys.__dict__.pop('argv', None)\n",
    ],
)
def test_reading_a_namespace_forms_the_path(text: str) -> None:
    module = SourceModule.from_text(text)
    assert [reference.node.lineno for reference in module.references.to(["sys.argv"])] == [2]


def test_a_table_of_the_module_forms_nothing() -> None:
    module = SourceModule.from_text("import sys\nT = {'argv': sys.argv}\nA = T.get('argv')\n")
    assert [reference.node.lineno for reference in module.references.to(["sys.argv"])] == [2]
