"""The packager: a multi-file workspace into one readable module.

``package`` goes through :mod:`~kernel_lint.packager.resolve` (where modules live),
:mod:`~kernel_lint.packager.graph` (what each name means), :mod:`~kernel_lint.packager.shake` (what is
needed), :mod:`~kernel_lint.packager.plan` (in which order it runs),
:mod:`~kernel_lint.packager.rename` (one flat name for everything) and
:mod:`~kernel_lint.packager.emit` (the text). :func:`prove` compares the compiled kernels.
"""

from __future__ import annotations

# Type checkers take this for true; importing typing for it would cost as much as all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from kernel_lint.packager.api import explain, package
    from kernel_lint.packager.errors import PackageError
    from kernel_lint.packager.proof import prove
    from kernel_lint.packager.report import Dropped, PackageReport, PackageResult

_PLACES = {
    "Dropped": "report",
    "PackageError": "errors",
    "PackageReport": "report",
    "PackageResult": "report",
    "explain": "api",
    "package": "api",
    "prove": "proof",
}


def __getattr__(name: str) -> object:
    """Import what is asked for: proving loads much that packaging has no need of."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    module = importlib.import_module(f"{__name__}.{_PLACES[name]}")
    found = globals()[name] = getattr(module, name)
    return found


__all__ = ["Dropped", "PackageError", "PackageReport", "PackageResult", "explain", "package", "prove"]
