"""Write the report where it is wanted, so that no stale or half-written one can mislead."""

from __future__ import annotations

import sys
from pathlib import Path
from types import TracebackType

from kernel_lint.errors import KernelLintError
from kernel_lint.files import replace_file
from kernel_lint.verify.render import RENDERERS
from kernel_lint.verify.report import Verdict, VerifyReport


class ReportFile:
    """A report's destination: a file, or standard output when ``path`` is None.

    On entry a file is replaced by a report that says INCOMPLETE: should this process be
    killed, what lies there is neither an older verdict nor a part of the new one.
    """

    def __init__(self, path: Path | None, style: str) -> None:
        self._path = path
        self._style = style

    def __enter__(self) -> ReportFile:
        if self._path is not None:
            empty = VerifyReport(Verdict.INCOMPLETE, "", "", "", "the run has not finished", (), (), ())
            self._replace(RENDERERS[self._style](empty))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the file as it is: written, or INCOMPLETE."""

    def write(self, report: VerifyReport) -> None:
        """Write the finished report."""
        text = RENDERERS[self._style](report)
        if self._path is None:
            sys.stdout.write(text)
        else:
            self._replace(text)

    def _replace(self, text: str) -> None:
        assert self._path is not None
        try:
            replace_file(self._path, text)
        except OSError as error:
            raise KernelLintError(f"{self._path} cannot be written ({error.strerror})") from None
