"""Names inside f-strings and quoted annotations are replaced, and nothing else is."""

from __future__ import annotations

import ast
import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kernel_lint.packager.strings import rewrite_string

MAPPING = {"a": "pkg_a", "a.b": "flat", "m.foo": "foo_2", "é": "ü"}
CASES = {
    'f"{a} a {{a}} {{{a}}}"': 'f"{pkg_a} a {{a}} {{{pkg_a}}}"',
    "f'{ a.b.c !r:>{a}}' \"a {a}\" rf'\\{m.foo:%a}'": "f'{ flat.c !r:>{pkg_a}}' \"a {a}\" rf'\\{foo_2:%a}'",
    'f"{a=} {a = } {x.a=}"': 'f"a={pkg_a!r} a = {pkg_a!r} {x.a=}"',
    'f"{a=!s} {a=:>{a}}"': 'f"a={pkg_a!s} a={pkg_a:>{pkg_a}}"',
    'f"{ {a: 1}[a]=}"': 'f" {{a: 1}}[a]={ {pkg_a: 1}[pkg_a]!r}"',
    'f"{a!=b} {a<=b} {a==b}"': 'f"{pkg_a!=b} {pkg_a<=b} {pkg_a==b}"',
    "f\"{d['a']} {f(a=a)} {(lambda a: a)(1)} {[a for a in x]}\"": (
        "f\"{d['a']} {f(a=pkg_a)} {(lambda pkg_a: pkg_a)(1)} {[pkg_a for pkg_a in x]}\""
    ),
    'f"\\N{EM DASH}{a}\\\\{a}\\""': 'f"\\N{EM DASH}{pkg_a}\\\\{pkg_a}\\""',
    'f"""{\n    é\n} é {f\'{é:{a}}\'}"""  # {a}': 'f"""{\n    ü\n} é {f\'{ü:{pkg_a}}\'}"""  # {a}',
}


@pytest.mark.parametrize("source", CASES)
def test_fstring(source: str) -> None:
    assert rewrite_string(source, MAPPING, annotation=False) == CASES[source]


def test_annotation() -> None:
    assert rewrite_string("' dict[a, a.b] '", MAPPING, annotation=True) == '"dict[pkg_a, flat]"'
    assert rewrite_string("'Literal[\"a\"] | a'", MAPPING, annotation=True) == "'Literal[\"a\"] | pkg_a'"


class Renamed(ast.NodeTransformer):
    """What the rewritten text has to mean."""

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(MAPPING.get(node.id, node.id), node.ctx)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        dotted = ast.unparse(node)
        return ast.Name(MAPPING[dotted], node.ctx) if dotted in MAPPING else self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(MAPPING.get(node.arg, node.arg))


NAMES = st.sampled_from(["a", "a.b", "m.foo.c", "m.a", "é", "x"])
EXPRESSIONS = st.recursive(
    NAMES,
    lambda inner: st.one_of(
        st.builds("{} + {}".format, inner, inner),
        st.builds("f({}, a={})".format, inner, inner),
        st.builds("[{} for a in {} if a != x]".format, inner, inner),
        st.builds("(lambda a, x={}: {})".format, inner, inner),
        st.builds("{}[{}:'{{a}}']".format, inner, inner),
        st.builds(" {{{}: {}}}".format, inner, inner),
        st.builds("f'{{{}}} a {{{}:>{{a}}}}'".format, NAMES, NAMES),
    ),
    max_leaves=5,
)
TAILS = st.sampled_from(["", "=", " = ", "!r", "=!s", ":>{a}", "!r:{a.b}.{x}"])
FIELDS = st.builds("{{{}{}}}".format, EXPRESSIONS, TAILS)
SHOWN = re.compile(r"\{(.*=) ?(?:!s)?\}$")
TEXTS = st.sampled_from(["a ", "{{a}}", "\\n", "\n", "é", "\\\\"])


@given(st.lists(st.one_of(FIELDS, TEXTS), max_size=4), st.sampled_from(["f", "F", "rf"]), st.booleans())
def test_meaning(parts: list[str], prefix: str, triple: bool) -> None:
    source = "".join([prefix, '"""' if triple else '"', *parts, '"""' if triple else '"', " 'a {a}'"])
    try:
        tree = ast.parse(f"({source})", mode="eval")
    except SyntaxError:
        assume(False)
    # CPython 3.13.0 cuts some of what "=" shows short.
    kept = "".join(str(node.value) for node in ast.walk(tree) if isinstance(node, ast.Constant))
    assume(all(shown[1] in kept for shown in map(SHOWN.match, parts) if shown))
    text = rewrite_string(source.removesuffix(" 'a {a}'"), MAPPING, annotation=False) + " 'a {a}'"
    assert ast.dump(ast.parse(f"({text})", mode="eval")) == ast.dump(Renamed().visit(tree))
