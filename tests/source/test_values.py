"""What the may-analysis sees through: every way to spell one function."""

from __future__ import annotations

import pytest

from kernel_lint.source import SourceModule
from kernel_lint.source.domain import Const, Qual, Unknown

TARGET = "torch.compile"
SPELLINGS = [
    "import torch\nf = torch.compile",
    "import torch as th\nf = th.compile",
    "from torch import compile as f",
    "import torch\ng = torch\nf = g.compile",
    "import torch\n(a, (b, f)) = (1, (2, torch.compile))",
    "import torch\n*a, f = [1, 2, torch.compile]",
    "import torch\nif (f := torch.compile):\n    pass",
    "import torch\nf = torch.compile if x else torch.compile",
    "import torch\nf = None or torch.compile",
    "import torch\nf = getattr(torch, 'compile')",
    "import torch\nf = getattr(torch, 'com' + 'pile')",
    "import torch\nf = getattr(torch, '%s%s' % ('com', 'pile'))",
    "import torch\nf = getattr(torch, '{}pile'.format('com'))",
    "import torch\nk = 'pile'\nf = getattr(torch, f'com{k}')",
    "import torch\nf = getattr(torch, ''.join(['com', 'pile']))",
    "import torch\nf = getattr(torch, ''.join(map(chr, [99, 111, 109, 112, 105, 108, 101])))",
    "import torch\nf = getattr(torch, ''.join(chr(c) for c in (99, 111, 109, 112, 105, 108, 101)))",
    "import torch\nf = getattr(torch, 'elipmoc'[::-1])",
    "import torch\nf = getattr(torch, 'cXmpile'.replace('X', 'o'))",
    "import torch\nf = getattr(torch, bytes.fromhex('636f6d70696c65').decode())",
    "import torch, base64\nf = getattr(torch, base64.b64decode('Y29tcGlsZQ==').decode())",
    "import torch, codecs\nf = getattr(torch, codecs.decode('pbzcvyr', 'rot13'))",
    "import torch\nk = 'com'\nk += 'pile'\nf = getattr(torch, k)",
    "import torch\nf = vars(torch)['compile']",
    "import torch\nf = torch.__dict__['compile']",
    "import torch\nf = torch.__dict__.get('compile')",
    "import torch\nf = torch.__getattribute__('compile')",
    "import torch\nf = object.__getattribute__(torch, 'compile')",
    "import torch\nf = globals()['torch'].compile",
    "import sys\nf = sys.modules['torch'].compile",
    "import sys\nf = sys.modules.get('torch').compile",
    "import importlib\nf = importlib.import_module('tor' + 'ch').compile",
    "from importlib import import_module as im\nf = im('torch').compile",
    "f = __import__('torch').compile",
    "import operator, torch\nf = operator.attrgetter('compile')(torch)",
    "import functools, torch\nf = functools.reduce(getattr, ['compile'], torch)",
    "import functools, torch\nf = functools.partial(getattr, torch)('compile')",
    "import pydoc\nf = pydoc.locate('torch.compile')",
    "import torch\nf = {'a': torch.compile}['a']",
    "import torch\nf = dict(a=torch.compile)['a']",
    "import torch\nd = {}\nd['k'] = torch.compile\nf = d['k']",
    "import torch\nd = []\nd.append(torch.compile)\nf = d[0]",
    "import torch\nf = [torch.compile][0]",
    "import torch\nf = next(iter([torch.compile]))",
    "import torch\nfor f in (torch.compile,):\n    pass",
    "import torch\nfor _, f in {'a': torch.compile}.items():\n    pass",
    "import torch\nfor _, f in enumerate([torch.compile]):\n    pass",
    "import torch\nclass C:\n    g = torch.compile\nf = C.g",
    "import torch\nclass C:\n    def __init__(self, g):\n        self.g = g\nf = C(torch.compile).g",
    "import torch\nclass C:\n    @property\n    def g(self):\n        return torch.compile\nf = C().g",
    "import torch, dataclasses\n@dataclasses.dataclass\nclass C:\n    g: object\nf = C(torch.compile).g",
    "import torch, types\nf = types.SimpleNamespace(g=torch.compile).g",
    "import torch\ndef h():\n    return torch.compile\nf = h()",
    "import torch\nf = (lambda: torch.compile)()",
    "import torch\ndef h(m, n):\n    return getattr(m, n)\nf = h(torch, 'compile')",
    "import torch\ndef h(g=torch.compile):\n    return g\nf = h()",
    "import torch\nf = eval('torch.compile')",
    "import torch\nexec('f = torch.compile')",
    "import torch\nexec(compile('f = torch.compile', '', 'exec'))",
    "import torch\nglobal_torch = torch\ndef h():\n    global f\n    f = global_torch.compile",
    "import torch, copy\nf = copy.copy(torch.compile)",
    "import torch, typing\nf = typing.cast(object, torch.compile)",
    "from torch import *\nf = compile",
    "import torch\nsetattr(C, 'g', torch.compile)\nclass C:\n    pass\nf = C().g",
    "import torch.os as o\nf = o.sys.modules['torch'].compile",
]


@pytest.mark.parametrize("source", SPELLINGS)
def test_seen_through(source: str) -> None:
    module = SourceModule.from_text(source + "\n")
    assert module.problem is None
    assert Qual(TARGET) in module.values.name("f", module.scopes.module)


OTHERS = [
    "import re\nf = re.compile",
    "import flydsl.compiler as flyc\nf = flyc.compile",
    "f = 'torch.compile'",
    "import torch\nf = torch.compiler.is_compiling",
    "class torch:\n    @staticmethod\n    def compile(f):\n        return f\nf = torch.compile",
    "def compile(x):\n    return x\nf = compile",
    "import torch\nf = getattr(torch, 'compiler')",
]


@pytest.mark.parametrize("source", OTHERS)
def test_not_mistaken(source: str) -> None:
    module = SourceModule.from_text(source + "\n")
    assert Qual(TARGET) not in module.values.name("f", module.scopes.module)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 + 2 * 3", 7),
        ("'a' * 3", "aaa"),
        ("-(-2)", 2),
        ("(1, 2)[1]", 2),
        ("'abc'[1:]", "bc"),
        ("len('abc')", 3),
        ("f'{3:03d}'", "003"),
        ("'a' if 1 > 2 else 'b'", "b"),
        ("not ''", True),
        ("max(1, 2)", 2),
        ("str(12)", "12"),
        ("{'a': 1}['a']", 1),
    ],
)
def test_folding(expression: str, value: object) -> None:
    module = SourceModule.from_text(f"x = {expression}\n")
    assert module.values.name("x", module.scopes.module) == {Const(value)}


@pytest.mark.parametrize(
    "expression",
    [
        "'a' * 10**9",
        "10 ** 10 ** 10",
        "1 << 10**9",
        "f'{1:>999999999}'",
        "open('x')",
        "'%999999999d' % 1",
        "1 / 0",
        "[0] * 10**9",
    ],
)
def test_what_is_too_big_or_impure_is_unknown(expression: str) -> None:
    module = SourceModule.from_text(f"x = {expression}\n")
    found = module.values.name("x", module.scopes.module)
    assert not any(isinstance(value, Const) for value in found)


def test_constants_of_different_types_differ() -> None:
    assert Const(True) != Const(1)
    assert Const(1.0) != Const(1)


def test_cycles_end() -> None:
    source = "def f(x):\n    return g(x)\ndef g(x):\n    return f(x)\na = b\nb = a\nc = f(a)\n"
    module = SourceModule.from_text(source)
    for name in "abc":
        assert Unknown() in module.values.name(name, module.scopes.module) | {Unknown()}


@pytest.mark.parametrize(
    "source",
    [
        "d = {}\nd = {**d, 'k': torch.compile}\nf = d['k']",
        "d = [torch.compile]\nd = [*d]\nf = d[0]",
        "d = [torch.compile]\nd = d + d\nf = d[0]",
        "a = {'x': torch.compile}\nb = {**a}\na = {**b}\nfor f in a.values():\n    pass",
        "class C:\n    def m(self):\n        self.d = {**self.d, 'k': torch.compile}\nf = C().d['k']",
    ],
)
def test_containers_that_hold_themselves_end(source: str) -> None:
    module = SourceModule.from_text("import torch\n" + source + "\n")
    assert Qual(TARGET) in module.values.name("f", module.scopes.module)


def test_a_parameter_hides_a_global() -> None:
    module = SourceModule.from_text("import torch\ndef f(torch):\n    return torch.compile\nx = f(1)\n")
    assert Qual(TARGET) not in module.values.name("x", module.scopes.module)


@pytest.mark.parametrize(
    "source",
    [
        "import helper\ndef f(d):\n    m = helper.make()\n    m = m.to(d)\n    m.eval()\n",
        "import helper\ndef f(d):\n    m = helper.make()\n    while d:\n        m = m.to(d)\n    m.eval\n",
        "import helper\nm = helper.make()\nm = m.to(0)\ndef f():\n    return m.eval\n",
    ],
)
def test_a_name_bound_to_what_its_own_method_gives_is_both(source: str) -> None:
    found = {reference.path for reference in SourceModule.from_text(source).references.all}
    assert {"helper.make().eval", "helper.make().to().eval"} <= found


def test_what_is_known_is_told_without_working_it_out() -> None:
    module = SourceModule.from_text("import torch\nx = torch.compile\ny = x\n")
    node = module.tree.body[1].value  # type: ignore[attr-defined]
    assert module.values.known(node) is None
    assert module.values.of(node) == {Qual(TARGET)} == module.values.known(node)
