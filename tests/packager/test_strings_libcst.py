"""The reader of f-strings against an independent one: libcst, which renames what it has parsed."""

from __future__ import annotations

import ast

import hypothesis.strategies as st
import libcst
from hypothesis import given

from kernel_lint.packager.strings import rewrite_string

MAPPING = {"a": "renamed_a", "b": "mod_b", "c.x": "taken"}


class Renames(libcst.CSTTransformer):
    """Replaces names and chains of :data:`MAPPING`; not attributes, keywords or parts of other chains."""

    def visit_Arg(self, node: libcst.Arg) -> bool:
        self._keywords.add(node.keyword)
        return True

    def visit_Attribute(self, node: libcst.Attribute) -> bool:
        self._attributes.add(node.attr)
        return True

    def __init__(self) -> None:
        super().__init__()
        self._attributes: set[object] = set()
        self._keywords: set[object] = set()

    def leave_Attribute(
        self, original_node: libcst.Attribute, updated_node: libcst.Attribute
    ) -> libcst.BaseExpression:
        chain = libcst.Module([]).code_for_node(original_node)
        return libcst.parse_expression(MAPPING[chain]) if chain in MAPPING else updated_node

    def leave_Name(self, original_node: libcst.Name, updated_node: libcst.Name) -> libcst.BaseExpression:
        if original_node in self._attributes or original_node in self._keywords:
            return updated_node
        return updated_node.with_changes(value=MAPPING.get(original_node.value, original_node.value))


def by_libcst(source: str) -> str:
    """Rename as libcst does."""
    renamed = libcst.parse_expression(source).visit(Renames())
    assert isinstance(renamed, libcst.CSTNode)
    return libcst.Module([]).code_for_node(renamed)


NAMES = st.sampled_from(["a", "b", "c", "other", "ab", "a_b"])
# Before Python 3.12 an expression in an f-string has neither its quote nor a backslash.
PLAIN = st.sampled_from(["'a'", "'{a}'", "'}'", "'#'", "'a:b'", "b'a'", "''"])


def _larger(part: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("{}.x".format, part.filter(lambda text: text.isidentifier())),
        st.builds("{}[{}]".format, NAMES, part),
        st.builds("f({}, a={})".format, part, part),
        st.builds("({} if {} else b)".format, part, part),
        st.builds("{} != {}".format, part, part).map("({})".format),
        st.builds("[{} for other in {}]".format, part, part),
        st.builds(" {{{}: {}}}[a]".format, part, part),
        st.builds("{}[{}:{}]".format, NAMES, part, part),
        st.builds("({}, {})".format, part, part),
    )


EXPRESSIONS = st.recursive(st.one_of(NAMES, PLAIN), _larger, max_leaves=5)
INNER = st.builds(
    "f'<{{{}}}>'".format, st.recursive(NAMES, lambda part: st.builds("g({})".format, part), max_leaves=2)
)
FORMATS = st.sampled_from(["", "!r", "!s", ":>10", ":{b}", ":{a}.{b}f", "!r:>{a}", ":%H:%M", ":a"])
FIELDS = st.builds("{{{}{}}}".format, st.one_of(EXPRESSIONS, INNER), FORMATS)
TEXTS = st.sampled_from(
    ["a", " b ", "{{a}}", "}}", "{{", "\\n", "\\N{EM DASH}", "\u00e9", "'", "#", "a=", "\\\\"]
)


@st.composite
def fstrings(draw: st.DrawFn) -> str:
    quote = draw(st.sampled_from(['"', '"""']))
    body = "".join(draw(st.lists(st.one_of(FIELDS, TEXTS), max_size=5)))
    return f"f{quote}{body}{quote}"


@given(fstrings())
def test_both_rename_alike(source: str) -> None:
    ast.parse(source)
    assert rewrite_string(source, MAPPING, annotation=False) == by_libcst(source)
