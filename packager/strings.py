"""Renaming inside strings that hold code: f-strings and quoted annotations."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import libcst


def rewrite_string(source: str, mapping: dict[str, str], annotation: bool) -> str:
    """Return the string expression ``source`` with names replaced.

    ``mapping`` maps a name or a dotted chain to what is written instead. An annotation's
    string is parsed as an expression, an f-string's replacement fields are edited in place.
    """
    import libcst

    if annotation:
        value = ast.literal_eval(source)
        inner = libcst.parse_expression(value.strip()).visit(_Replacer.build(mapping))
        assert isinstance(inner, libcst.BaseExpression)
        text = libcst.Module([]).code_for_node(inner)
        return repr(text) if '"' in text else f'"{text}"'
    if source.rstrip().endswith("'"):
        mapping = {old: _other_quotes(new) for old, new in mapping.items()}
    tree = libcst.parse_expression(f"({source})").visit(_Replacer.build(mapping))
    assert isinstance(tree, libcst.BaseExpression)
    return libcst.Module([]).code_for_node(tree)[1:-1]


def _other_quotes(text: str) -> str:
    """Return a string literal in double quotes, so that it can stand in a single-quoted f-string."""
    if not text.startswith("'"):
        return text
    import json

    return json.dumps(ast.literal_eval(text))


class _Replacer:
    @staticmethod
    def build(mapping: dict[str, str]) -> libcst.CSTTransformer:
        import libcst

        class Replacer(libcst.CSTTransformer):
            """Replaces names and chains; attribute names and keywords are left alone."""

            def visit_Attribute(self, node: libcst.Attribute) -> bool:
                return _dotted(node) not in mapping

            def visit_Attribute_attr(self, node: libcst.Attribute) -> None:
                self.attributes.add(id(node.attr))

            def visit_Arg(self, node: libcst.Arg) -> None:
                if node.keyword is not None:
                    self.attributes.add(id(node.keyword))

            def __init__(self) -> None:
                super().__init__()
                self.attributes: set[int] = set()

            def leave_Attribute(
                self, original_node: libcst.Attribute, updated_node: libcst.Attribute
            ) -> libcst.BaseExpression:
                new = mapping.get(_dotted(original_node) or "")
                return libcst.parse_expression(new) if new is not None else updated_node

            def leave_FormattedStringExpression(
                self,
                original_node: libcst.FormattedStringExpression,
                updated_node: libcst.FormattedStringExpression,
            ) -> (
                libcst.BaseFormattedStringContent | libcst.FlattenSentinel[libcst.BaseFormattedStringContent]
            ):
                if original_node.equal is None or original_node.expression.deep_equals(
                    updated_node.expression
                ):
                    return updated_node
                # {name=} shows the source text: write the text, then the value.
                module = libcst.Module([])
                parts = (original_node.whitespace_before_expression, original_node.expression)
                text = "".join(map(module.code_for_node, (*parts, original_node.equal)))
                plain = original_node.conversion is None and original_node.format_spec is None
                value = updated_node.with_changes(
                    equal=None,
                    conversion="r" if plain else updated_node.conversion,
                    whitespace_before_expression=libcst.SimpleWhitespace(""),
                )
                return libcst.FlattenSentinel([libcst.FormattedStringText(text), value])

            def leave_Name(
                self, original_node: libcst.Name, updated_node: libcst.Name
            ) -> libcst.BaseExpression:
                new = mapping.get(original_node.value)
                if new is None or id(original_node) in self.attributes:
                    return updated_node
                return libcst.parse_expression(new)

        return Replacer()


def _dotted(node: libcst.BaseExpression) -> str | None:
    import libcst

    if isinstance(node, libcst.Name):
        return node.value
    if isinstance(node, libcst.Attribute):
        owner = _dotted(node.value)
        return None if owner is None else f"{owner}.{node.attr.value}"
    return None
