"""Package the result once more until that changes nothing.

The analysis sees more in one flat module than in a workspace: a statement that had to be kept,
because a name stood between it and what it changes, can turn out to be idle.
"""

from __future__ import annotations

import ast
from pathlib import Path

from kernel_lint import TYPE_CHECKING
from kernel_lint.packager.errors import PackageError
from kernel_lint.packager.graph import Program
from kernel_lint.packager.load import type_only
from kernel_lint.packager.report import PackageResult
from kernel_lint.packager.shake import Kept, Shaker
from kernel_lint.records import replace

if TYPE_CHECKING:
    from collections.abc import Callable

_ROUNDS = 8


def settle(
    result: PackageResult, once: Callable[[Program, Kept, Shaker], tuple[PackageResult, bool]]
) -> PackageResult:
    """Return ``result`` shaken until it stays as it is; ``once`` packages a program that has been shaken."""
    for _ in range(_ROUNDS):
        again = _again(result.text, once)
        if again is None or again.text == result.text:
            return result
        result = _compose(result, again)
    return result


def _again(
    text: str, once: Callable[[Program, Kept, Shaker], tuple[PackageResult, bool]]
) -> PackageResult | None:
    """Package a result; None where all of it would be kept, or where that is refused."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="kernel-lint-package-") as folder:
        entry = Path(folder) / "generated_kernel.py"
        entry.write_text(text, encoding="utf-8", newline="")
        program = Program(entry)
        try:
            shaker = Shaker(program)
            kept = shaker.run()
            return None if _keeps_all(program, kept) else once(program, kept, shaker)[0]
        except PackageError:
            return None  # what the workspace may do under a name, one module may not do: leave it
        finally:
            program.release()


def is_steady(program: Program, kept: Kept, shaker: Shaker) -> bool:
    """Whether one sees without packaging again that it would change nothing.

    What is kept because a kept name reads it is read by the same name in the result; a statement that is
    kept for its effect is kept again where it names what it changes, or what it calls is installed code.
    """
    if kept.namespaces or kept.builtins & {"globals", "locals", "vars", "dir", "eval", "exec"}:
        return False
    if any(not isinstance(use.node, ast.Name) for use in kept.uses):
        return False  # sys.modules[...] and import_module(...) are written out, and need no import any more
    for name in kept.modules:
        for unit in program.modules[name].all_units():
            if not kept.has(unit) or unit.is_import:
                continue
            if kept.reasons[unit][1] not in ("changes it", "runs for its effect"):
                continue
            effects = shaker.finder.unit(unit)
            known = [target for target in effects.direct if target in kept.symbols]
            named = any(kept.reasons[target][0] is not unit for target in known)
            if not named and not shaker.is_root(unit, replace(effects, opaque=False)):
                return False
    return True


def _keeps_all(program: Program, kept: Kept) -> bool:
    for name in kept.modules:
        module = program.modules[name]
        for unit in module.all_units():
            if not unit.is_import and not kept.has(unit):
                return False
        for site in module.sites:
            target = program.site_target(site)
            if site.scope.kind == "module" and not site.unit.conditional and not type_only(site):
                if target not in kept.externals and not kept.has(site.unit):
                    return False
    return True


def _compose(first: PackageResult, second: PackageResult) -> PackageResult:
    """Return ``second``, with places and figures of the workspace instead of those of ``first``'s text."""
    places = {
        line: first.provenance[between]
        for line, (_, between) in second.provenance.items()
        if between in first.provenance
    }
    report = replace(first.report, bytes_out=second.report.bytes_out)
    return PackageResult(second.text, report, places)
