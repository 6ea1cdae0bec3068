"""The rule protocol: what a rule is, what it is given and what it gives back.

A rule is a class in a file of its own under ``rules/``. Its docstring is its documentation
page; its VALID and INVALID cases stand beside it and one generic test runs them all.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from kernel_lint import TYPE_CHECKING
from kernel_lint.diagnostics import Fix, Severity, Span
from kernel_lint.records import dataclass, field
from kernel_lint.source.module import SourceModule

if TYPE_CHECKING:
    from typing import Any, ClassVar

    from kernel_lint.config import Settings
    from kernel_lint.frameworks import Framework
    from kernel_lint.task import TaskFiles


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule yields: a place, what is wrong there, and how to put it right.

    ``where`` is a node of the module's tree or a span. ``severity`` replaces the rule's
    own for this finding.
    """

    where: ast.AST | Span
    message: str
    help: str | None = None
    fix: Fix | None = None
    severity: Severity | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """What a rule may look at.

    ``candidate`` tells whether the file is, or is meant to become, the file handed in (it
    defines a model); ``final`` whether it is that file.
    """

    module: SourceModule
    settings: Settings
    framework: Framework
    candidate: bool
    final: bool
    task: TaskFiles | None = None


@dataclass(frozen=True, slots=True)
class Valid:
    """A text that the rule must not flag, although it looks alike."""

    source: str
    filename: str = "generated_kernel.py"
    options: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Invalid:
    """A text that the rule must flag.

    ``lines`` are the lines of the findings (empty: at least one, anywhere); ``fixed`` is
    the text after all its fixes, where it offers any.
    """

    source: str
    lines: tuple[int, ...] = ()
    fixed: str | None = None
    filename: str = "generated_kernel.py"
    options: dict[str, object] = field(default_factory=dict)


class _Cases:
    def __init__(self, make: Callable[[], Sequence[str | Valid | Invalid]]) -> None:
        self._make = make
        self._made: Sequence[str | Valid | Invalid] | None = None

    def __get__(self, instance: object, owner: type) -> Sequence[str | Valid | Invalid]:
        if self._made is None:
            self._made = self._make()
        return self._made


def cases(make: Callable[[], Sequence[str | Valid | Invalid]]) -> Any:
    """Return what stands for ``make()`` in a rule's class, made when somebody looks: no lint does."""
    return _Cases(make)


class Rule:
    """Base of all rules; a subclass sets the attributes and yields findings from ``check``.

    ``code`` is ``KL`` and three digits, ``name`` kebab-case, ``clauses`` the ids of the
    output contract that the rule enforces. A rule without ``needs_tree`` also runs on a file
    that does not parse, whose tree is empty.
    """

    code: ClassVar[str]
    name: ClassVar[str]
    severity: ClassVar[Severity] = Severity.ERROR
    needs_tree: ClassVar[bool] = True
    clauses: ClassVar[tuple[str, ...]] = ()
    VALID: ClassVar[Sequence[str | Valid]] = ()
    INVALID: ClassVar[Sequence[str | Invalid]] = ()

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield what is wrong in ``context.module``."""
        raise NotImplementedError

    @classmethod
    def documentation(cls) -> str:
        """Return the rule's page as Markdown, without its heading."""
        import inspect

        return inspect.cleandoc(cls.__doc__ or "")

    @classmethod
    def summary(cls) -> str:
        """Return the first sentence under "What it does"."""
        text = cls.documentation().partition("## What it does")[2].strip()
        return text.partition("\n\n")[0].replace("\n", " ")
