"""KL309."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from itertools import chain

from kernel_lint import TYPE_CHECKING
from kernel_lint.diagnostics import Severity
from kernel_lint.rule import Context, Finding, Invalid, Valid, cases
from kernel_lint.rules._paths import shown
from kernel_lint.rules._reads import is_outside, is_own, is_plain, named_reads, own_places
from kernel_lint.rules._samples import candidate
from kernel_lint.rules._shallow import ShallowPaths
from kernel_lint.source.domain import Class, Const, Namespace, Param, Partial, Qual, Super, Value
from kernel_lint.source.references import Reference
from kernel_lint.source.scopes import walk

if TYPE_CHECKING:
    from typing import ClassVar

_RUNS = "runs text as code"
_LOADS = "turns bytes into objects or code"
_DECODES = "decodes a hidden payload"
_HIDES = "reaches names that the text does not show"
_MAKES = "makes code at run time"
# What base64, its URL-safe form and hexadecimal are written in.
_PAYLOAD = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=_-\\")
_PAYLOAD_WORD = 40
_DECODERS = "base64 binascii zlib bz2 lzma gzip uu quopri codecs zstandard brotli lz4 snappy".split()
# Attributes that lead from any object to every class of the process, or into code objects.
_WAYS = frozenset(
    {"__subclasses__", "__base__", "__bases__", "__reduce__", "__reduce_ex__", "__mro__", "__builtins__"}
)
_NAMED_ITEMS = ("get", "pop", "setdefault", "__getitem__")
_MADE_CLASSES = frozenset({Qual("builtins.type()"), Qual("builtins.type()()")})
_SETTERS = frozenset(
    {"builtins.setattr", "builtins.delattr", "builtins.hasattr", "builtins.object.__setattr__"}
)
_NAME = Qual("__name__")
_TABLES = frozenset({Qual("sys.modules"), Qual("builtins")})
_BY_NAME = {path.rpartition(".")[2] for path in _SETTERS} | {"__getattribute__", "__getattr__"}
_IMPORTERS = frozenset(
    {"importlib.import_module", "builtins.__import__", "pydoc.locate", "pkgutil.resolve_name"}
)


class Obfuscation(ShallowPaths):
    """
    ## What it does
    Finds code that hides what it does: `exec`, `eval`, `compile`, `marshal`, `pickle`, encoded payloads, code objects made
    by hand, names of attributes and modules that are pieced together or only known at run time, names kept under texts
    (`vars()["x"]`, `A = type("A", (), {"f": ...})` with `A.f`), ways from a literal to all classes.

    ## Why is this bad?
    A reader cannot see what runs. Nothing that a kernel needs is hard to name.

    ## What is allowed
    `self.eval()`, `re.compile`, `flyc.compile`, names built for a kernel or a cache key, `getattr(self, f"w{i}")`,
    `getattr(torch, "float8_e4m3fn", None)`, a table of names.

    ## How to fix it
    Write the name, or the code, where it is used.

    ## Example
    ```python
    f = getattr(torch, "mat" + "mul")
    ```

    ## References
    - Contract clauses F2 (source code) and F8 (everything is in the file, to be seen).
    """

    code = "KL309"
    name = "obfuscation"
    clauses = ("F2", "F8")
    FORBIDDEN: ClassVar[Mapping[str, str]] = {
        "builtins.exec": _RUNS,
        "builtins.eval": _RUNS,
        "builtins.compile": _RUNS,
        "builtins.__import__": _HIDES,
        "builtins.__build_class__": _MAKES,
        "code": _RUNS,
        "codeop": _RUNS,
        "timeit": _RUNS,
        "runpy": _RUNS,
        "numexpr": _RUNS,
        "pandas.eval": _RUNS,
        "pydoc.locate": _HIDES,
        "pkgutil.resolve_name": _HIDES,
        **dict.fromkeys(
            "marshal pickle dill cloudpickle joblib shelve jsonpickle pickletools klepto".split(), _LOADS
        ),
        "torch.package": _LOADS,
        "torch.load": _LOADS,
        "torch.jit.CompilationUnit": _RUNS,
        "torch._C._create_function_from_graph": _RUNS,
        "numpy.core.multiarray._reconstruct": _LOADS,
        **{f"types.{name}": _MAKES for name in "CodeType FunctionType LambdaType new_class CellType".split()},
        "ast.parse": _MAKES,
        "ast.unparse": _MAKES,
        **dict.fromkeys(_DECODERS, _DECODES),
        "builtins.bytes.fromhex": _DECODES,
        "builtins.bytearray.fromhex": _DECODES,
    }
    HELP = "write the name, or the code, where it is used"
    VALID = cases(
        lambda: (
            candidate() + "\n    def freeze(self):\n        self.eval()\n        return self\n",
            "def _name(m, n):\n    return f'scale_{m}x{n}'\n",
            candidate(init="self.k = getattr(self, 'dim', 1)"),
            "import re\nP = re.compile('x')\n",
            "import flydsl.compiler as flyc\ndef f(k):\n    return flyc.compile(k)\n",
            "import torch\nF8 = getattr(torch, 'float8_e4m3fn', None)\n",
            "import torch\nD = [getattr(torch, n) for n in ('float16', 'bfloat16')]\n",
            "import torch\nT = {'h': 'float16'}\ndef f(k):\n    return getattr(torch, T[k])\n",
            "class M:\n    def w(self, i):\n        return getattr(self, f'w{i}')\n",
            "def f(cfg, i):\n    return getattr(cfg, f'tile_{i}')\n",
            "KEY = '_'.join(['a', 'b'])\n",
            "TEXT = 'eval(x)'\n",
            "def f(x, name):\n    return getattr(x, name)\n",
            "import torch\nclass M:\n    def __init__(self, dtype='float16'):\n        self.dtype = getattr(torch, dtype)\n",
            "class C:\n    def __reduce__(self):\n        return C, ()\n",
            "import flydsl.expr as fx\ndef f(n):\n    return getattr(fx, n)\n".replace(
                "getattr(fx, n)", "getattr(fx, 'Float32')"
            ),
            "def f(cfg):\n    return vars(cfg)['n']\n",
            candidate(top="_K = globals()['_double']\n\n"),
            Valid(
                "def __getattr__(name):\n    globals()[name] = 1\n    return 1\n",
                filename="ops.py",
            ),
            candidate(
                top="_S = fx.struct(type('_S', (), {'__annotations__': {'a': fx.Float32}}))\n\n",
                init="self.n = _S.a",
            ),
            "T = type('T', (), {})\n",
            "import torch\nF = type('F', (torch.autograd.Function,), {'n': 1})\ny = F.apply\n",
            "def f(x):\n    return type(x).__name__\n",
        )
    )
    INVALID = cases(lambda: (
        Invalid("exec('K = 1')\n", lines=(1,)),
        Invalid("K = eval('1')\n", lines=(1,)),
        Invalid("C = compile('1', 'x', 'eval')\n", lines=(1,)),
        Invalid("e = exec\n", lines=(1,)),
        Invalid("import base64\nexec(base64.b64decode('X0s9MQ==').decode())\n", lines=(1, 2, 2)),
        Invalid("import marshal\nC = marshal.loads(b'N')\n", lines=(1, 2)),
        Invalid("import pickle\nC = pickle.loads(b'N.')\n", lines=(1, 2)),
        Invalid("import builtins\ngetattr(builtins, ''.join(['e', 'x', 'e', 'c']))('K = 1')\n", lines=(2, 2)),
        Invalid("N = ''.join(map(chr, [101, 118, 97, 108]))\nK = getattr(__builtins__, N)('1')\n", lines=(2, 2, 2)),
        Invalid("S = ().__class__.__base__.__subclasses__()\n", lines=(1, 1)),
        Invalid("import torch\nk = 'mul'\nf = getattr(torch, f'mat{k}')\n", lines=(3,)),
        Invalid("import torch\nf = getattr(torch, 'mat' + 'mul')\n", lines=(2,)),
        Invalid("import torch\nn = 'lum'[::-1]\nf = getattr(torch, n)\n", lines=(3,)),
        Invalid("import torch\ndef f(n, x):\n    return getattr(torch, n.lower())(x)\n", lines=(3,)),
        Invalid("import torch\nf = torch.__dict__['mat' + 'mul']\n", lines=(2,)),
        Invalid("import torch\nf = vars(torch)['matmul']\n", lines=(2,)),
        Invalid("f = globals()['_sc' + 'ale']\n", lines=(1,)),
        Invalid("import importlib\nm = importlib.import_module('to' + 'rch')\n", lines=(2,)),
        Invalid("m = __import__('torch')\n", lines=(1,)),
        Invalid("import sys\nm = sys.modules['to' + 'rch']\n", lines=(2,)),
        Invalid("import operator, torch\nf = operator.attrgetter('mat' + 'mul')(torch)\n", lines=(2,)),
        Invalid("import torch, functools\nf = functools.reduce(getattr, ['nn', 'functional'], torch)\n", lines=(2,)),
        Invalid("import types\nf = types.FunctionType(id, {})\n", lines=(2,)),
        Invalid("def f(g, h):\n    g.__code__ = h.__code__\n", lines=(2, 2)),
        Invalid("import codecs\nK = codecs.decode('rkrp', 'rot13')\n", lines=(1, 2)),
        Invalid("P = '" + "QUJD" * 60 + "'\n", lines=(1,)),
        Invalid("import torch\nf = torch.__getattribute__('matmul')\n", lines=(2,)),
        Invalid("vars()['x'] = 1\n", lines=(1,)),
        Invalid("x = 1\ny = vars()['x']\n", lines=(2,)),
        Invalid("v = vars()\nv['x'] = 1\n", lines=(2,)),
        Invalid("x = 1\ny = vars().get('x')\n", lines=(2,)),
        Invalid("locals()['x'] = 1\n", lines=(1,)),
        Invalid("vars().update(x=1)\n", lines=(1,)),
        Invalid("globals()['x'] = 1\n", lines=(1,)),
        Invalid(candidate(top="globals().update({'_h': _double})\n\n")),
        Invalid("import torch\nA = type('A', (), {'f': torch.relu})\ny = A.f(1)\n", lines=(2,)),
        Invalid("A = type('A', (), {})()\nA.x = 1\n", lines=(1,)),
        Invalid("A = type('A', (object,), {'n': 1})\nx = A.n\n", lines=(1,)),
        Invalid("class M:\n    def __init__(self):\n        self.a = type('A', (), {'n': 1})\n        self.n = self.a.n\n", lines=(3,)),
    ))  # fmt: skip

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield forbidden paths, then names that are built, and ways into classes and code objects."""
        yield from super().check(context)
        yield from self._names(context)
        yield from self._items(context)
        yield from self._own_names(context)
        yield from self._holders(context)
        yield from self._imports(context)
        yield from self._handed_on(context)
        yield from self._ways(context)
        for constant in context.module.scopes.texts:
            if len(constant.value) < 200:  # type: ignore[arg-type]
                continue
            text = constant.value.decode("latin-1") if isinstance(constant.value, bytes) else constant.value
            if isinstance(text, str) and _is_payload(text):
                yield Finding(constant, "an encoded payload", self.HELP, severity=Severity.WARNING)

    def finding(self, context: Context, reference: Reference, why: str) -> Finding | None:
        """Decoders alone are warnings: a payload may be data, although nothing here should need one."""
        severity = Severity.WARNING if why == _DECODES else None
        return Finding(reference.node, f"`{shown(reference.path)}` {why}", self.HELP, None, severity)

    def _names(self, context: Context) -> Iterator[Finding]:
        """Attributes read or set by a name that is pieced together or unknown."""
        values = context.module.values
        reads: list[tuple[ast.Call, ast.expr, ast.expr | None]] = list(named_reads(context))
        survey = context.module.survey
        for call in (*survey.calls_ending(_BY_NAME), *survey.calls_of_kind(Partial)):
            for value in values.of(call.func):
                if isinstance(value, Qual) and value.name in _SETTERS and len(call.args) > 1:
                    reads.append((call, call.args[1], call.args[0]))
                elif (
                    isinstance(value, Qual)
                    and value.name.endswith((".__getattribute__", ".__getattr__"))
                    and len(call.args) == 1
                ):
                    if is_outside(Qual(value.name.rpartition(".")[0])):
                        yield Finding(
                            call,
                            f"an attribute is read by name: it {_HIDES}",
                            self.HELP,
                            severity=Severity.WARNING,
                        )
                elif isinstance(value, Partial) and value.function == Qual("builtins.getattr") and call.args:
                    target = value.call.args[1] if len(value.call.args) > 1 else None
                    reads.append((call, call.args[0], target))
        for call, key, target in reads:
            finding = self._name(context, call, key, target)
            if finding is not None:
                yield finding

    def _name(
        self, context: Context, call: ast.Call, key: ast.expr, target: ast.expr | None
    ) -> Finding | None:
        plain = is_plain(context, key)
        if plain is True or is_own(context, target):
            return None
        owners = context.module.values.of(target) if target is not None else frozenset()
        outside = target is None or any(is_outside(owner) for owner in owners)
        language = any(
            isinstance(o, Qual) and o.name.partition(".")[0] in context.framework.imports for o in owners
        )
        folded = any(isinstance(v, Const) for v in context.module.values.of(key))
        if plain is False and (folded or (outside and not language)):
            if target is None and not folded:
                return None
            return Finding(call, f"the name of an attribute is pieced together: it {_HIDES}", self.HELP)
        given = all(isinstance(v, (Param, Const)) for v in context.module.values.of(key))
        if plain is None and outside and target is not None and not language:
            # ``getattr(torch, dtype)`` with an argument of the model's is how one names a dtype.
            if context.module.flow.on_path(call) or not given:
                what = f"the name of an attribute is only known at run time: it {_HIDES}"
                return Finding(call, what, self.HELP, severity=Severity.WARNING)
        return None

    def _items(self, context: Context) -> Iterator[Finding]:
        """``torch.__dict__[...]``, ``globals()[...]`` and ``sys.modules[...]``."""
        values = context.module.values
        places: list[tuple[ast.expr, frozenset[Value], ast.expr]] = []
        for item in context.module.scopes.of_type(ast.Subscript):
            if isinstance(item.ctx, ast.Load) and not isinstance(item.slice, ast.Slice):
                places.append((item, values.of(item.value), item.slice))
        for call in chain.from_iterable(map(values.sites.calls_named, _NAMED_ITEMS)):
            if isinstance(call.func, ast.Attribute) and call.args:
                places.append((call, values.of(call.func.value), call.args[0]))
        for node, owners, key in places:
            for owner in owners:
                kind = owner.__class__
                if kind is not Namespace and (kind is not Qual or owner not in _TABLES):
                    continue
                if _NAME in values.of(key):
                    break
                named = Const("__builtins__") in values.of(key)
                message = _item(owner, plain=is_plain(context, key) is True and not named)
                if message is not None:
                    yield Finding(node, message, self.HELP)

    def _own_names(self, context: Context) -> Iterator[Finding]:
        """Names of the file itself that are bound, or read through ``vars()``, under a text."""
        calls_of = context.module.survey.calls_of
        through = set(calls_of(("builtins.vars", "builtins.locals")))
        if not through and not (context.candidate and calls_of(("builtins.globals",))):
            return
        for node, space, stores in own_places(context, _NAMED_ITEMS):
            given = isinstance(space, ast.Call) and space not in through
            if stores and (context.candidate or not given):
                yield Finding(node, f"a name is bound under a text: it {_HIDES}", self.HELP)
            elif not stores and through and not given:
                yield Finding(node, f"a name is read under a text: it {_HIDES}", self.HELP)

    def _holders(self, context: Context) -> Iterator[Finding]:
        """``A = type("A", (), {"f": torch.relu})`` whose attributes are read or set: a table of names."""
        parent = context.module.scopes.parent
        made = [
            call for call in context.module.survey.calls_of(("builtins.type",)) if _is_holder(context, call)
        ]
        if not made or not any(
            _is_made(context, node.value) for node in context.module.scopes.of_type(ast.Attribute)
        ):
            return
        for call in made:
            above = parent.get(call)
            # ``fx.struct(type("S", (), {"__annotations__": ...}))`` hands the class on.
            if not isinstance(above, (ast.Call, ast.keyword)) or (
                isinstance(above, ast.Call) and above.func is call
            ):
                yield Finding(call, f"a class is made to keep names under texts: it {_HIDES}", self.HELP)

    def _imports(self, context: Context) -> Iterator[Finding]:
        for call in context.module.survey.calls_of(("importlib.import_module",)):
            paths = {v.name for v in context.module.values.of(call.func) if isinstance(v, Qual)}
            if paths != {"importlib.import_module"} or not call.args:
                continue
            # A package of a workspace may load its own parts late; a candidate has no parts.
            own = any(
                isinstance(n, ast.Name) and n.id in ("__name__", "__package__") for n in walk(call.args[0])
            )
            if is_plain(context, call.args[0]) is not True and (context.candidate or not own):
                yield Finding(call, f"the name of a module is pieced together: it {_HIDES}", self.HELP)

    def _handed_on(self, context: Context) -> Iterator[Finding]:
        """``getattr`` given to something that will call it."""
        parent = context.module.scopes.parent
        for reference in context.module.references.to(("builtins.getattr",)):
            above = parent.get(reference.node)
            if isinstance(above, ast.Call) and reference.node in above.args:
                yield Finding(
                    reference.node,
                    "`getattr` is handed on to be called with names unseen",
                    self.HELP,
                    severity=Severity.WARNING,
                )

    def _ways(self, context: Context) -> Iterator[Finding]:
        scopes = context.module.scopes
        for scope in scopes.inner.values():
            for name in scope.names.get("__builtins__", ()):
                yield Finding(name, f"`__builtins__` {_HIDES}", self.HELP)
        attributes = scopes.attributes
        for node in chain.from_iterable(
            attributes[name] for name in attributes.keys() & {"__code__", *_WAYS}
        ):
            if node.attr == "__code__":
                yield Finding(
                    node, f"`__code__` {_MAKES if isinstance(node.ctx, ast.Store) else _HIDES}", self.HELP
                )
            elif isinstance(node.ctx, ast.Load) and _from_anything(context, node.value):
                yield Finding(node, f"`{node.attr}` {_HIDES}", self.HELP)


def _is_holder(context: Context, call: ast.Call) -> bool:
    """``type("A", (), {...})``: a class that takes nothing from others."""
    if len(call.args) != 3:
        return False
    bases = call.args[1]
    return isinstance(bases, ast.Tuple) and all(
        Qual("builtins.object") in context.module.values.of(base) for base in bases.elts
    )


def _is_made(context: Context, node: ast.expr) -> bool:
    return not _MADE_CLASSES.isdisjoint(context.module.values.of(node))


def _item(owner: Value, *, plain: bool) -> str | None:
    """Say what is wrong with looking a name up in a namespace, or return None."""
    if isinstance(owner, Namespace) and owner.base is not None and is_outside(owner.base):
        return f"an attribute is taken out of `__dict__`: it {_HIDES}"
    own = isinstance(owner, Namespace) and owner.base is None
    if (own or owner in _TABLES) and not plain:
        return f"a name is looked up under a built text: it {_HIDES}"
    return None


def _from_anything(context: Context, node: ast.expr) -> bool:
    """Whether an object is no class of this file: a literal, a class of a literal, anything from outside."""
    return not is_own(context, node) and not all(
        isinstance(v, (Class, Super)) for v in context.module.values.of(node)
    )


def _is_payload(text: str) -> bool:
    """Tell whether a text is nothing but long runs of an encoding's letters."""
    return all(len(word) >= _PAYLOAD_WORD and set(word) <= _PAYLOAD for word in text.split())
