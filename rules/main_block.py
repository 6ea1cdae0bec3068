"""KL101."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import chain

from kernel_lint.diagnostics import Fix
from kernel_lint.rule import Context, Finding, Invalid, Rule, cases
from kernel_lint.rules._edits import removal
from kernel_lint.source.domain import Partial, Qual
from kernel_lint.source.scopes import walk
from kernel_lint.structural import matches

# Sets, because asking whether two sets have anything in common works no hash out anew.
_NAME = frozenset({Qual("__name__")})
_MAIN = frozenset({Qual("__main__")})
_MODULES = frozenset({Qual("sys.modules")})
_OWN_PATHS = frozenset({"__name__", "__main__"})
_TESTS = frozenset({"startswith", "endswith", "__eq__", "__ne__", "find", "index", "count", "__contains__"})


class MainBlock(Rule):
    """
    ## What it does
    Finds code that asks whether the file runs as a script: `if __name__ == "__main__":` in all its forms.

    ## Why is this bad?
    The evaluator imports the file; a script block is test or benchmark code that it never runs and
    that the contract forbids.

    ## What is allowed
    `__name__` of a function or class, the text `"__main__"` in a message, a variable called `main`.

    ## How to fix it
    Remove the block. Keep what it did in a file of its own beside the kernel.

    ## Example
    ```python
    if __name__ == "__main__":
        print(Model(64))
    ```

    ## Fix safety
    Removing the block is safe when it has no `else`: an imported file never enters it.

    ## References
    - Contract clause X1.
    """

    code = "KL101"
    name = "main-block"
    clauses = ("X1",)
    VALID = cases(
        lambda: (
            "def f():\n    return f.__name__ == '__main__'\n",
            "TEXT = 'if __name__ == \"__main__\":'\n",
            "def main(k):\n    main = k\n    return main\n",
            "# if __name__ == '__main__':\nx = 1\n",
            "def g(__name__):\n    return __name__ == '__main__'\n",
        )
    )
    INVALID = cases(
        lambda: (
            Invalid('x = 1\nif __name__ == "__main__":\n    print(1)\n', lines=(2,), fixed="x = 1\n"),
            Invalid("if '__main__' == __name__:\n    pass\n", lines=(1,), fixed=""),
            Invalid("if __name__ != '__main__':\n    x = 1\nelse:\n    y = 1\n", lines=(1,)),
            Invalid("if __name__ in ('__main__', '__mp_main__'):\n    pass\n", lines=(1,), fixed=""),
            Invalid("n = __name__\nif n == '__main__':\n    pass\n", lines=(2,), fixed="n = __name__\n"),
            Invalid("__name__ == '__main__' and f()\n", lines=(1,)),
            Invalid("if globals()['__name__'] == '__main__':\n    pass\n", lines=(1,), fixed=""),
            Invalid("if __name__.startswith('__ma'):\n    pass\n", lines=(1,)),
            Invalid(
                "import functools\nimport sys\nget = functools.partial(sys.modules.get)\nif get('__main__') == 3:\n    x = 1\n",
                lines=(4,),
                fixed="import functools\nimport sys\nget = functools.partial(sys.modules.get)\n",
            ),
            Invalid("match __name__:\n    case '__main__':\n        pass\n", lines=(1,)),
            Invalid("M = {'__main__': f}\nM.get(__name__, g)()\n", lines=(2,)),
            Invalid("x = f() if __name__ == '__main__' else None\n", lines=(1,)),
            Invalid("while __name__ == '__main__':\n    break\n", lines=(1,)),
            Invalid("import sys\nif sys.modules['__main__'].__dict__ is globals():\n    pass\n", lines=(2,)),
        )
    )

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield one finding for each statement that tests the module's name."""
        module = context.module
        seen: set[ast.AST] = set()
        for node in self._tests(context):
            statement = module.scopes.statement(node) or node
            if statement in seen:
                continue
            seen.add(statement)
            where = statement.test if isinstance(statement, (ast.If, ast.While)) else node
            yield Finding(where, _MESSAGE, _HELP, self._fix(context, statement, node))
        if "__main__" in module.text:
            known = {node.lineno for node in seen if isinstance(node, ast.stmt)}
            for span in matches(module, "main-block"):
                if span.line not in known and not _rebound(context):
                    yield Finding(span, _MESSAGE, _HELP)

    def _tests(self, context: Context) -> Iterator[ast.expr]:
        """Expressions whose outcome depends on the module's ``__name__``."""
        survey, paths = context.module.survey, context.module.references.paths
        if paths.isdisjoint(_OWN_PATHS) and not survey.calls_of_kind(Partial):
            # Nothing forms the paths; only a partial function may hand on what nothing in the text forms.
            return
        nodes, values = context.module.scopes.nodes, context.module.values
        for node in nodes.get(ast.Compare, ()):
            assert isinstance(node, ast.Compare)
            operands = [node.left, *node.comparators]
            if not all(_NAME.isdisjoint(values.of(operand)) for operand in operands) or any(
                not _MAIN.isdisjoint(values.of(part))
                for operand in operands
                for part in walk(operand)
                if isinstance(part, ast.expr)
            ):
                yield node
        for match in nodes.get(ast.Match, ()):
            assert isinstance(match, ast.Match)
            if not _NAME.isdisjoint(values.of(match.subject)):
                yield match.subject
        for call in chain.from_iterable(map(values.sites.calls_named, (*_TESTS, "get"))):
            if not isinstance(call.func, ast.Attribute):
                continue
            if call.func.attr in _TESTS and not _NAME.isdisjoint(values.of(call.func.value)):
                yield call
            elif call.func.attr == "get" and call.args:
                if self._is_own_item(context, call.func.value, call.args[0]):
                    yield call
        for item in nodes.get(ast.Subscript, ()):
            assert isinstance(item, ast.Subscript)
            if self._is_own_item(context, item.value, item.slice):
                yield item

    def _is_own_item(self, context: Context, table: ast.expr, key: ast.expr) -> bool:
        """Whether a table other than that of the modules is asked for the name of this one."""
        of = context.module.values.of
        return not _NAME.isdisjoint(of(key)) and _MODULES.isdisjoint(of(table))

    def _fix(self, context: Context, statement: ast.AST, test: ast.expr) -> Fix | None:
        if (
            not isinstance(statement, ast.If)
            or statement.orelse
            or not isinstance(statement.test, ast.Compare)
        ):
            return None
        if not isinstance(statement.test.ops[0], (ast.Eq, ast.In)) or len(statement.test.ops) != 1:
            return None
        parent = context.module.scopes.parent.get(statement)
        if isinstance(parent, ast.If) and statement in parent.orelse:
            return None
        return removal(context.module, statement, "the script block")


def _rebound(context: Context) -> bool:
    """A parameter or variable called ``__name__`` is not the module's name."""
    return any("__name__" in scope.bindings for scope in context.module.scopes.inner.values())


_MESSAGE = "the file asks whether it runs as a script: the evaluator only imports it"
_HELP = "remove the block; keep test and benchmark code in a file of its own"
