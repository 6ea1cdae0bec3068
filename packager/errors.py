"""What the packager refuses, always with a place and a way out."""

from __future__ import annotations

from pathlib import Path

from kernel_lint import TYPE_CHECKING
from kernel_lint.errors import KernelLintError

if TYPE_CHECKING:
    from collections.abc import Sequence


class PackageError(KernelLintError):
    """A construct that cannot be packaged without changing what the program does.

    ``problems`` holds every refusal of the run (at least this one), so that one run
    shows all that has to be put right.
    """

    def __init__(self, message: str, remedy: str, path: Path | None = None, line: int | None = None) -> None:
        self.path = path
        self.line = line
        self.detail = message
        self.problems: tuple[PackageError, ...] = (self,)
        place = "" if path is None else f"{path}:{line}: " if line is not None else f"{path}: "
        super().__init__(place + message, remedy)

    @classmethod
    def group(cls, problems: Sequence[PackageError]) -> PackageError:
        """Return one error that carries all ``problems``; the first one if there is only one."""
        if len(problems) == 1:
            return problems[0]
        ordered = sorted(problems, key=lambda problem: (str(problem.path), problem.line or 0))
        text = "".join(f"\n{index}. {problem}" for index, problem in enumerate(ordered, 1))
        error = cls(f"{len(problems)} things cannot be packaged:{text}", "")
        error.problems = tuple(ordered)
        return error
