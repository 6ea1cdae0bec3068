"""KL109."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import chain

from kernel_lint.diagnostics import Fix, Severity, Span
from kernel_lint.patterns import lazy
from kernel_lint.rule import Context, Finding, Invalid, Rule, cases
from kernel_lint.rules._samples import candidate
from kernel_lint.rules._texts import Text, comment_texts, string_texts, text_removal
from kernel_lint.source import members
from kernel_lint.source.domain import Class, Func, Qual
from kernel_lint.source.scopes import FunctionNode, last_name, walk

_MARK = lazy(
    r"\b(TODO|FIXME|XXX|TBD|WIP|NOCOMMIT|UNFINISHED|STUB|PLACEHOLDER)\b|(?i:@todo\b|^\W*(to-?do|fixme|xxx|tbd|wip|stub)\b\s*[:(\-])",
    words=("todo", "to-do", "fixme", "xxx", "tbd", "wip", "nocommit", "unfinished", "stub", "placeholder"),
)
# Signs of haste, not of absence.
_SOFT = lazy(
    r"\b(HACK|KLUDGE|TEMP|TEMPORARY)\b|(?i:\bfor now\b|\bsimplified version\b|^\W*temporary\b|\bquick fix\b)"
)
_UNFINISHED = lazy(
    r"""(?xi)
      \bnot\ (?:yet\ (?:been\ )?(?:implemented|finished|written|done|supported|ready)|(?:implemented|finished|written|done|supported|ready)\ yet)\b
    | ^\W*not\ (?:implemented|finished|written)\b | \bnot\ (?:implemented|finished)\W*$
    | \b(?:to\ be|needs?\ to\ be|still\ to\ be|will\ be)\ (?:implemented|written|filled|done|completed|added|finished)\b
    | \bunfinished\b | \bunimplemented\b | \bcoming\ soon\b | \bwork\ in\ progress\b
    | \b(?:your|add|insert|put|write|place)\ (?:your\ |the\ )?(?:\w+\ )?(?:code|implementation|kernel|logic)\ (?:goes\ )?here\b
    | \b(?:code|implementation|kernel|logic)\ goes\ here\b | \bimplement\ (?:me|this|here)\b | \bfill\ (?:in|this|me)\b.*\b(?:here|later|in)\b
    | (?:^\W*|\.\.\.\s*|…\s*)(?:the\ )?(?:rest|remainder)\ of\ (?:the|your)\ (?:code|kernel|implementation|file|module|class|function|logic)\b
    | (?:\.\.\.|…)\s*(?:existing|rest|remaining|previous|same|other)\b.*(?:\.\.\.|…)
    | \b(?:omitted|elided|left\ out|shortened|skipped)\ for\ (?:brevity|now|simplicity|clarity)\b | \bleft\ as\ an\ exercise\b
    | ^\W*(?:placeholder|stub|dummy)\s*(?:$|[:.!(\-]|(?:for\ now|until|implementation|kernel|code|body|version|function)\b)
    | \b(?:placeholder|stub|dummy|mock)\ (?:implementation|kernel|code|body|version|function|until)\b
    | \b(?:in|for)\ a\ (?:real|full|production|complete)\ (?:implementation|kernel|version)\b
    | \bsame\ as\ (?:before|above)[,;]?\ (?:omitted|unchanged)\b | \bimplementation\ (?:omitted|pending|missing)\b
    """,
    words=("not ", "to be ", "will be ", "unfinished", "unimplemented", "coming soon", "work in progress", " here", "fill ",
           "rest of ", "remainder of ", "...", " for brevity", " for now", " for simplicity", " for clarity", "left as an exercise", "placeholder", "stub", "dummy", "mock ",
           "for a ", "in a ", "same as ", "implementation ", "implement "),
)  # fmt: skip
# What each of the sentences above holds somewhere: a line without any needs no closer look.
_HINTS = (
    "todo", "to-do", "fixme", "xxx", "tbd", "wip", "nocommit", "stub", "placeholder", "implement", "unfinished", "finished", "written",
    " yet", "to be ", "will be ", "coming soon", "work in progress", " here", "fill ", "rest of", "remainder", "...", "…",
    "omitted", "elided", "for brevity", "for now", "for simplicity", "for clarity", "exercise", "dummy", "mock", "in a ", "for a ",
    "same as ", "hack", "kludge", "temp", "simplified", "quick",
)  # fmt: skip
_DONE_NOTHING = lazy(r"(?i)noop|no_op|nop\b|nothing|null|ignore|disabled|empty",
                      words=("noop", "no_op", "nop", "nothing", "null", "ignore", "disabled", "empty"))  # fmt: skip
_STUB_DECORATORS = frozenset({"abstractmethod", "overload", "abstractproperty", "abstractclassmethod"})
_INTERFACES = ("typing.Protocol", "typing_extensions.Protocol", "abc.ABC")
# Methods that may do nothing: entering, leaving and ending are complete without doing anything.
_MAY_BE_EMPTY = frozenset(
    {"__init__", "__enter__", "__exit__", "__del__", "__post_init__", "__init_subclass__", "close"}
)
_MAY_BE_IDLE = frozenset({ast.Pass, ast.Expr, ast.If})
# How the body of a function that does nothing ends.
_MAY_END = (ast.Raise, ast.Assert, ast.Return, ast.Pass, ast.Expr, ast.If)
_NOT_IMPLEMENTED = ("builtins.NotImplementedError", "builtins.NotImplementedError()")


class Placeholder(Rule):
    """
    ## What it does
    Finds unfinished work: `TODO`, `FIXME` and `XXX` in comments and docstrings, sentences such as "your code here" or
    "rest of the kernel omitted", functions that do nothing, and functions that only raise `NotImplementedError` or
    fail an assertion.

    ## Why is this bad?
    The file that is handed in is the whole answer. What is missing in it fails at the first shape that needs it.

    ## What is allowed
    `...` in a type or an index, `pass` in a branch, a handler or an exception class, abstract and protocol methods,
    a method that a subclass in the file replaces, `NotImplementedError` for a case that the kernel does not take, the
    word "TODO" as data, a variable called `todo`.

    ## How to fix it
    Write what is missing, or remove the function and the comment.

    ## Example
    ```python
    def _epilogue(y):
        pass  # TODO
    ```

    ## Fix safety
    Removing a comment is safe. Functions are left for a person to write or to remove.

    ## References
    - Contract clause X7: no placeholder or unfinished content.
    """

    code = "KL109"
    name = "placeholder"
    clauses = ("X7",)
    VALID = cases(
        lambda: (
            candidate(),
            "class ShapeError(ValueError):\n    pass\n",
            "from typing import Tuple\ndef f(s: Tuple[int, ...]) -> int:\n    return len(s)\n",
            "def f(tiles):\n    todo = list(tiles)\n    return todo\n",
            "def f(vs):\n    c = 0\n    for v in vs:\n        if v < 0:\n            pass\n        else:\n            c += 1\n    return c\n",
            "STATES = ('TODO', 'DONE')\n",
            "def f(x):\n    return x[..., 0]\n",
            "import abc\nclass B(abc.ABC):\n    @abc.abstractmethod\n    def run(self): ...\n",
            "from typing import Protocol\nclass P(Protocol):\n    def run(self, x): ...\n",
            "from typing import overload\n@overload\ndef f(x: int) -> int: ...\n@overload\ndef f(x: str) -> str: ...\ndef f(x):\n    return x\n",
            "class B:\n    def run(self):\n        raise NotImplementedError\n\nclass C(B):\n    def run(self):\n        return 1\n",
            "def f(dtype):\n    if dtype not in (1, 2):\n        raise NotImplementedError(f'no kernel for {dtype}')\n    return dtype\n",
            "def unsupported(dtype):\n    raise NotImplementedError(f'no kernel for {dtype}')\n",
            "class C:\n    def __enter__(self):\n        return self\n    def __exit__(self, *a):\n        pass\n",
            "def _noop(*args):\n    pass\n",
            "def f(e):\n    return isinstance(e, NotImplementedError)\n",
            "def fail(e):\n    raise e\n\ndef f(n):\n    return fail(NotImplementedError(f'no kernel for {n}'))\n",
            "# rows that are still to do\nx = 1\n",
            "# placeholder stride for the broadcast axis\nS = 0\n",
            "try:\n    x = 1\nexcept ValueError:\n    pass\n",
            "import torch\nclass F(torch.autograd.Function):\n    @staticmethod\n    def backward(ctx, g):\n        raise NotImplementedError('inference only')\n",
        )
    )
    INVALID = cases(
        lambda: (
            Invalid("def f(y):\n    pass\n", lines=(1,)),
            Invalid("def f(y):\n    ...\n", lines=(1,)),
            Invalid("def f(y):\n    '''Scale y.'''\n", lines=(1,)),
            Invalid("def f(y):\n    raise NotImplementedError\n", lines=(2,)),
            Invalid("def f(y):\n    raise NotImplementedError('later')\n", lines=(2,)),
            Invalid("E = NotImplementedError\ndef f(y):\n    raise E\n", lines=(3,)),
            Invalid("# FIXME wrong for odd sizes\nTILE = 256\n", lines=(1,), fixed="TILE = 256\n"),
            Invalid("x = 1  # TODO\n", lines=(1,), fixed="x = 1\n"),
            Invalid("# todo: the tail\nx = 1\n", lines=(1,), fixed="x = 1\n"),
            Invalid(
                "def f(y):\n    # your code here\n    return None\n",
                lines=(1, 2),
                fixed="def f(y):\n    return None\n",
            ),
            Invalid(
                "def f(y):\n    '''TODO: scale.'''\n    return y\n",
                lines=(2,),
                fixed="def f(y):\n    return y\n",
            ),
            Invalid("def f(x):\n    assert False, 'unfinished'\n", lines=(2,)),
            Invalid(
                "def f(x):\n    if x:\n        raise RuntimeError('not implemented yet')\n    return x\n",
                lines=(3,),
            ),
            Invalid("def f(x):\n    if x > 4:\n        ...\n    return x\n", lines=(3,)),
            Invalid("# ... rest of the kernel\nx = 1\n", lines=(1,), fixed="x = 1\n"),
            Invalid("f = lambda y: ...\n", lines=(1,)),
            Invalid("f = lambda: (_ for _ in ()).throw(NotImplementedError)\n", lines=(1,)),
            Invalid("def f(x):\n    (_ for _ in ()).throw(NotImplementedError('x'))\n", lines=(2,)),
            Invalid("def fail(e):\n    raise e\n\nf = lambda x: fail(NotImplementedError())\n", lines=(4,)),
            Invalid(
                "def fail(e):\n    raise e\n\ndef f(x):\n    return fail(NotImplementedError)\n", lines=(5,)
            ),
            Invalid("TILES = ...\n", lines=(1,)),
            Invalid("import torch.nn as nn\nclass Model(nn.Module):\n    pass\n", lines=(2,)),
            Invalid("def f(y):\n    return NotImplemented\n", lines=(2,)),
            Invalid(
                "class Model:\n    def forward(self, x):\n        raise NotImplementedError\n", lines=(3,)
            ),
        )
    )

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield what is marked as unfinished, then what does nothing."""
        texts = [*comment_texts(context.module), *string_texts(context.module)]
        whole = "\n".join(line for text in texts for _, line in text.lines).lower()
        hints = tuple(hint for hint in _HINTS if hint in whole)
        for text in texts if hints else ():
            yield from self._marked(context, text, hints)
        seen: set[ast.AST] = set()
        for kind in (ast.FunctionDef, ast.AsyncFunctionDef):
            for node in context.module.scopes.nodes.get(kind, ()):
                assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
                finding = _function(context, node)
                if finding is not None:
                    seen.add(node)
                    if isinstance(finding.where, ast.AST):
                        seen.add(finding.where)
                    yield finding
        yield from self._statements(context, seen)

    def _marked(self, context: Context, text: Text, hints: tuple[str, ...]) -> Iterator[Finding]:
        for number, line in text.lines:
            lowered = line.lower()
            if not any(hint in lowered for hint in hints):
                continue
            match = _MARK.search(line) or _UNFINISHED.search(line)
            if match is not None:
                fix = _line_removal(context, text, number)
                what = f'"{match[0].strip()}" marks work that is not done'
                yield Finding(text.span(context.module, number), what, _HELP, fix)
            elif soft := _SOFT.search(line):
                what = f'"{soft[0]}" sounds like work that is not done'
                yield Finding(text.span(context.module, number), what, _HELP, severity=Severity.INFO)

    def _statements(self, context: Context, seen: set[ast.AST]) -> Iterator[Finding]:
        nodes, parent = context.module.scopes.nodes, context.module.scopes.parent
        for expression in nodes.get(ast.Expr, ()):
            assert isinstance(expression, ast.Expr)
            if not _is_ellipsis(expression.value):
                continue
            if parent.get(expression) not in seen and not _is_interface(context, expression):
                yield Finding(expression, "`...` stands where code is missing", _HELP)
        for node in chain(nodes.get(ast.Assign, ()), nodes.get(ast.Lambda, ())):
            value = node.value if isinstance(node, ast.Assign) else node.body  # type: ignore[attr-defined]
            if _is_ellipsis(value):
                yield Finding(node, "`...` stands where a value is missing", _HELP)
            elif isinstance(node, ast.Lambda) and _throws(context, value):
                yield Finding(node, "a function that is not implemented", _HELP)
        refusals = [*nodes.get(ast.Raise, ()), *nodes.get(ast.Assert, ())]
        for node in refusals if refusals and _hints_in_refusals(context) else ():
            if node not in seen and _says_unfinished(context, node):
                yield Finding(node, "the case is refused because it is not written yet", _HELP)
        for cls in nodes.get(ast.ClassDef, ()):
            assert isinstance(cls, ast.ClassDef)
            is_module = any(Qual("torch.nn.Module") in context.module.values.of(base) for base in cls.bases)
            if is_module and not _without_docstring(cls.body):
                yield Finding(_name_of(context, cls), f"`{cls.name}` has no content", _HELP)


def _line_removal(context: Context, text: Text, number: int) -> Fix | None:
    if text.kind == "comment":
        return text_removal(context.module, text, {n for n, _ in text.lines if n != number})
    return text_removal(context.module, text, set()) if len(text.lines) == 1 else None


def _function(context: Context, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Finding | None:
    """The finding for a function whose whole body is a placeholder."""
    if not isinstance(node.body[-1], _MAY_END) or _is_stub(context, node):
        return None
    body = _without_docstring(node.body)
    if not body:
        empty = not _DONE_NOTHING.search(node.name) and node.name not in _MAY_BE_EMPTY
        empty = empty and not _is_default(context, node)
        return Finding(_name_of(context, node), f"`{node.name}` does nothing", _HELP) if empty else None
    last = body[-1]
    # What stands before only names things: the function still ends in a refusal.
    if any(not isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Delete)) for statement in body[:-1]):
        return None
    # ``def fail(error): raise error`` is whole; what hands it NotImplementedError is not.
    if isinstance(last, ast.Raise) and last.exc is not None and _raises_argument(context, node):
        return None
    if isinstance(last, ast.Raise) and last.exc is not None and _is_not_implemented(context, last.exc):
        deliberate = (
            _mentions_argument(node, last) or _is_replaced(context, node) or _refuses_gradient(context, node)
        )
        if not deliberate or _says_unfinished(context, last):
            return Finding(last, f"`{node.name}` is not implemented", _HELP)
    if isinstance(last, (ast.Expr, ast.Return)) and last.value is not None and _throws(context, last.value):
        return Finding(last, f"`{node.name}` is not implemented", _HELP)
    if isinstance(last, ast.Assert) and isinstance(last.test, ast.Constant) and not last.test.value:
        if not _mentions_argument(node, last):
            return Finding(last, f"`{node.name}` only fails", _HELP)
    if isinstance(last, ast.Return) and not node.name.startswith("__") and isinstance(last.value, ast.Name):
        if Qual("builtins.NotImplemented") in context.module.values.of(last.value):
            return Finding(last, f"`{node.name}` is not implemented", _HELP)
    if (
        isinstance(last, ast.Return)
        and len(body) == 1
        and (last.value is None or _is_none(last.value))
        and _takes_something(node)
    ):
        if not _DONE_NOTHING.search(node.name) and not node.name.startswith("__"):
            return Finding(
                _name_of(context, node), f"`{node.name}` does nothing", _HELP, severity=Severity.INFO
            )
    return None


def _is_default(context: Context, node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Tell whether a class that derives from a method's own does in its place what there is to do."""
    cls = context.module.scopes.scope[node].node
    if not isinstance(cls, ast.ClassDef):
        return False
    for other in context.module.scopes.of_type(ast.ClassDef):
        if node.name in context.module.scopes.inner[other].bindings and other is not cls:
            if Class(cls) in members.bases(context.module.values, other):
                return True
    return False


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements that do something: no strings, no ``pass``, no ``...``."""
    return [
        s for s in body
        if s.__class__ not in _MAY_BE_IDLE
        or not (
            isinstance(s, ast.Pass)
            or (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))
            or (isinstance(s, ast.If) and isinstance(s.test, ast.Constant) and not _without_docstring([*s.body, *s.orelse]))
        )
    ]  # fmt: skip


def _is_ellipsis(node: ast.AST) -> bool:
    return node.__class__ is ast.Constant and node.value is Ellipsis


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _takes_something(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    return any(name not in ("self", "cls") for name in names)


def _is_stub(context: Context, node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Abstract methods, overloads and protocol methods have no body by intention."""
    names = {last_name(d.func if isinstance(d, ast.Call) else d) for d in node.decorator_list}
    return bool(names & _STUB_DECORATORS) or _is_protocol(context, context.module.scopes.scope[node].node)


def _is_protocol(context: Context, owner: ast.AST) -> bool:
    if not isinstance(owner, ast.ClassDef):
        return False
    return any(
        isinstance(v, Qual) and v.name.rstrip("[]") in _INTERFACES[:2]
        for base in owner.bases
        for v in context.module.values.of(base)
    )


def _is_interface(context: Context, node: ast.Expr) -> bool:
    """``...`` as the body of a class, or of a function that has none by intention."""
    owner = context.module.scopes.parent.get(node)
    if isinstance(owner, ast.ClassDef):
        return True
    return isinstance(owner, (ast.FunctionDef, ast.AsyncFunctionDef)) and (
        _is_stub(context, owner) or not _without_docstring(owner.body)
    )


def _is_not_implemented(context: Context, node: ast.expr) -> bool:
    return any(isinstance(v, Qual) and v.name in _NOT_IMPLEMENTED for v in context.module.values.of(node))


def _throws(context: Context, node: ast.expr) -> bool:
    """``(_ for _ in ()).throw(NotImplementedError)``, ``_raise(NotImplementedError())``: a raise in an expression."""
    if not isinstance(node, ast.Call):
        return False
    if last_name(node.func) != "throw" and Func not in map(type, context.module.values.of(node.func)):
        return False
    if not any(_is_not_implemented(context, a) for a in (*node.args, *(k.value for k in node.keywords))):
        return False
    if any(isinstance(inner, (ast.FormattedValue, ast.BinOp)) for inner in walk(node)):
        return False
    return last_name(node.func) == "throw" or any(
        isinstance(value, Func) and _raises_argument(context, value.node)
        for value in context.module.values.of(node.func)
    )


def _raises_argument(context: Context, function: FunctionNode) -> bool:
    names = {a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)}
    return any(
        isinstance(statement.exc, ast.Name) and statement.exc.id in names
        for statement in context.module.scopes.within(function, ast.Raise)
    ) or (isinstance(function, ast.Lambda) and last_name(getattr(function.body, "func", function)) == "throw")


def _mentions_argument(node: ast.FunctionDef | ast.AsyncFunctionDef, statement: ast.stmt) -> bool:
    """A message that tells about the argument is meant for the caller: the refusal is the purpose."""
    return any(isinstance(inner, (ast.FormattedValue, ast.BinOp)) for inner in walk(statement))


def _is_replaced(context: Context, node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a class of this file derives from the method's class and has the method."""
    owner = context.module.scopes.scope[node].node
    for cls in context.module.scopes.of_type(ast.ClassDef):
        if node.name in context.module.scopes.inner[cls].bindings and cls is not owner:
            if any(Class(owner) in context.module.values.of(base) for base in cls.bases):  # type: ignore[arg-type]
                return True
    return False


def _refuses_gradient(context: Context, node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    owner = context.module.scopes.scope[node].node
    return (
        node.name in ("backward", "jvp", "vmap")
        and isinstance(owner, ast.ClassDef)
        and any(Qual("torch.autograd.Function") in context.module.values.of(base) for base in owner.bases)
    )


def _hints_in_refusals(context: Context) -> bool:
    """A quick look at all texts of ``raise`` and ``assert`` statements together."""
    statement = context.module.scopes.statement
    said = [
        text.value
        for text in context.module.scopes.texts
        if isinstance(text.value, str) and isinstance(statement(text), (ast.Raise, ast.Assert))
    ]
    whole = "\n".join(said)
    lowered = whole.lower()
    return not whole.isascii() or any(hint in lowered for hint in _HINTS)


def _says_unfinished(context: Context, node: ast.AST) -> bool:
    for inner in walk(node):
        if inner.__class__ is ast.Constant and isinstance(inner.value, str):
            if _UNFINISHED.search(inner.value) or _MARK.search(inner.value):
                return True
    return False


def _name_of(context: Context, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> ast.AST | Span:
    line = context.module.lines[node.lineno - 1] if node.lineno <= len(context.module.lines) else ""
    start = line.find(node.name, node.col_offset)
    return Span(node.lineno, start + 1, node.lineno, start + 1 + len(node.name)) if start >= 0 else node


_HELP = "write what is missing, or remove it"
