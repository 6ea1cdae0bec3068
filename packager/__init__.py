"""The packager: a multi-file workspace into one readable module.

``package`` goes through :mod:`~kernel_lint.packager.resolve` (where modules live),
:mod:`~kernel_lint.packager.graph` (what each name means), :mod:`~kernel_lint.packager.shake` (what is
needed), :mod:`~kernel_lint.packager.plan` (in which order it runs),
:mod:`~kernel_lint.packager.rename` (one flat name for everything) and
:mod:`~kernel_lint.packager.emit` (the text). :func:`prove` compares the compiled kernels.
"""

from __future__ import annotations

from kernel_lint.packager.api import explain, package
from kernel_lint.packager.errors import PackageError
from kernel_lint.packager.prove import prove
from kernel_lint.packager.report import Dropped, PackageReport, PackageResult

__all__ = ["Dropped", "PackageError", "PackageReport", "PackageResult", "explain", "package", "prove"]
