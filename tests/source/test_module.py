"""Decoding, lines, places and comments."""

from __future__ import annotations

import ast
import gc
import io
import tokenize
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_lint import engine
from kernel_lint.config import Settings
from kernel_lint.frameworks import FRAMEWORKS
from kernel_lint.rules._samples import candidate
from kernel_lint.source import SourceModule
from kernel_lint.source.module import decode


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"x = '\xe9'\n", "not valid UTF-8"),
        (b"a\0b", "NUL byte"),
        (b"\xff\xfex\x00", "UTF-16"),
        (b"# coding: nonsense\nx = 1\n", "unknown encoding"),
        (b"x = (\n", "was never closed"),
        (b"def f(:\n", "invalid syntax"),
        (b"x = " + b"(" * 5000 + b")" * 5000, "nested"),
    ],
)
def test_problems_are_named(data: bytes, words: str) -> None:
    problem = SourceModule("f.py", data).problem
    assert problem is not None
    assert words in problem.message


def test_patterns_of_true_false_and_none() -> None:
    text = "def f(x):\n  match x:\n    case True | False:\n      return 1\n    case None:\n      return 2\n"
    assert not engine.check_module(SourceModule.from_text(text, "ops.py"), Settings())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"\xef\xbb\xbfx = 1\n",
        b"x = 1\r\ny = 2\r\n",
        b"x = 1\ry = 2\r",
        b"# coding: latin-1\nx = '\xe9'\n",
    ],
)
def test_what_python_reads_is_read(data: bytes) -> None:
    module = SourceModule("f.py", data)
    assert module.problem is None
    assert ast.dump(module.tree) == ast.dump(ast.parse(data))


def test_place_of_a_bad_byte() -> None:
    text, problem = decode(b"x = 1\ny = '\xff'\n")
    assert text == ""
    assert problem is not None
    assert (problem.span.line, problem.span.column) == (2, 6)


def test_columns_count_characters() -> None:
    module = SourceModule.from_text("é = 'ü'; f(1)\n")
    call = module.scopes.of_type(ast.Call)[0]
    assert module.span(call).column == 10


COMMENTS = [
    "x = 1  # one\n",
    "x = '# no'  # yes\n",
    "'''\n# no\n'''\n# yes\n",
    "x = f'{a}#no'  # yes\n",
    "é = '#'  # ü\n",
    "x = ('a'  # one\n     'b#')  # two\n",
    "x = b'#'  # c\n",
    "#!shebang\n\n\n   # indented\n",
]


@pytest.mark.parametrize("source", COMMENTS)
def test_comments_are_those_of_the_tokenizer(source: str) -> None:
    assert SourceModule.from_text(source).comments == _by_tokenizer(source)


@given(
    st.lists(
        st.sampled_from(
            ["x = 1", "'#'", "# c", "f'{x}#'", "'''a\n#b'''", "'é#'", "y = '\\'#'", "z = ('é' # d\n 'b#'\n)"]
        ),
        max_size=6,
    )
)
def test_comments_of_any_mixture(parts: list[str]) -> None:
    source = "".join(part + "  # end\n" if index % 2 else part + "\n" for index, part in enumerate(parts))
    assert SourceModule.from_text(source).comments == _by_tokenizer(source)


def _by_tokenizer(source: str) -> list[tuple[int, int, str]]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return [(t.start[0], t.start[1] + 1, t.string) for t in tokens if t.type == tokenize.COMMENT]


_ODD = (
    "import torch\n\nclass A:\n    def f(self, x=(lambda: 1)):\n        global N\n"
    "        N = [g(i) for i in x]\n        return eval('torch.abs')(self.f(x))\n\n"
    "def g(n):\n    k = 'a' + 'b'\n    return g(n - 1) if n else k\n"
)


@pytest.mark.parametrize(
    "text", [_ODD, candidate(), candidate(before="if self.dim > 4:\n    return self.forward(y)")]
)
def test_an_analysed_module_is_freed_without_the_collector(text: str) -> None:
    """No cycles: many files in one run need no more memory than the largest of them."""

    def analyse() -> list[weakref.ref[object]]:
        module = SourceModule.from_text(text, "generated_kernel.py")
        engine.check_module(module, Settings())
        flydsl = FRAMEWORKS["flydsl"]
        tables = (module, module.scopes, module.values, module.survey, module.flow, module.tensors)
        return [weakref.ref(part) for part in (*tables, module.launches(flydsl), module.launch_paths(flydsl))]

    was_enabled = gc.isenabled()
    gc.disable()
    try:
        assert [part() for part in analyse()] == [None] * 8
    finally:
        if was_enabled:
            gc.enable()


def test_what_eval_brings_is_seen_while_the_module_is_looked_at() -> None:
    module = SourceModule.from_text(
        "import torch\ny = z\nz = eval('eval(\"torch.compile\")')\nw = z\n\ndef f(k=z):\n    return k()\n"
    )
    assert "torch.compile" in {reference.path for reference in module.references.below(["torch"])}
