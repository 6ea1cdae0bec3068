"""The public functions: package an entry, explain a name."""

from __future__ import annotations

import ast
import contextlib
import functools
import gc
from pathlib import Path

from kernel_lint import TYPE_CHECKING
from kernel_lint.packager.emit import Emitter, Line, has_annotations
from kernel_lint.packager.errors import PackageError
from kernel_lint.packager.graph import Program
from kernel_lint.packager.imports import unused_but_needed
from kernel_lint.packager.load import display_path
from kernel_lint.packager.model import ENTRY, Ext, Module, Sym, Unit
from kernel_lint.packager.plan import Planner
from kernel_lint.packager.prune import prune
from kernel_lint.packager.refuse import refusals, renamed_under_text
from kernel_lint.packager.rename import Namer, Names
from kernel_lint.packager.report import Dropped, PackageReport, PackageResult
from kernel_lint.packager.rewrite import Options, Rewriter
from kernel_lint.packager.settle import is_steady, settle
from kernel_lint.packager.shake import Kept, Shaker
from kernel_lint.packager.shown import shown_modules

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_left: list[Shaker] = []  # what is left to the end of the process to free


def package(
    entry: Path,
    *,
    roots: Sequence[Path] = (),
    inline: Sequence[str] = (),
    keep_comments: bool = False,
    is_last: bool = False,
) -> PackageResult:
    """Return the workspace behind ``entry`` as one module.

    ``roots`` are folders that hold local modules (the entry's own folder always is one);
    ``inline`` names installed packages to take in as if they were local. ``is_last`` says that
    the process ends after this, so that nothing needs to be freed. Raises
    :class:`PackageError` where the result could not behave the same.
    """
    if not entry.is_file():
        raise PackageError("there is no such file", "name the Python file that defines Model", entry)
    with _no_collection(), _nesting(entry):
        return _packaged(entry, roots, inline, keep_comments, is_last)


@contextlib.contextmanager
def _nesting(entry: Path) -> Iterator[None]:
    """Refuse what is nested too deeply for the walks over modules and syntax trees."""
    try:
        yield
    except RecursionError as error:
        raise PackageError(
            "its imports, or an expression, are nested too deeply to be followed",
            "split the expression, or import in the entry what a long chain of modules imports one by one",
            entry,
        ) from error


def _packaged(
    entry: Path, roots: Sequence[Path], inline: Sequence[str], keep_comments: bool, is_last: bool
) -> PackageResult:
    # A function of its own: at its end, before the collector looks again, all that it made is freed.
    program = Program(entry, roots, inline)
    shaker = Shaker(program)
    if is_last:
        # Taking syntax trees apart, object by object, takes a tenth of the time that packaging does.
        _left.append(shaker)
        return _settled(program, shaker, keep_comments)
    try:
        return _settled(program, shaker, keep_comments)
    finally:
        program.release()


def _settled(program: Program, shaker: Shaker, keep_comments: bool) -> PackageResult:
    kept = shaker.run()
    result, has_loaders = _once(program, kept, shaker, keep_comments)
    if not has_loaders and is_steady(program, kept, shaker):
        return result
    return settle(result, functools.partial(_once, keep_comments=keep_comments))


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Let syntax trees be built without the cycle collector, which takes longer than building them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _once(program: Program, kept: Kept, shaker: Shaker, keep_comments: bool) -> tuple[PackageResult, bool]:
    """Package a program that has been shaken; return the result, and whether it has loaders."""
    if not program.has_model:
        unused_but_needed(program, kept)
    problems = refusals(program, kept)
    planner = Planner(program, kept, shaker.finder)
    items = prune(planner.run(), planner.loaders)
    problems += planner.problems
    if problems:
        raise PackageError.group(problems)
    names = Namer(program, kept, items, planner.loaders).run()
    problems = renamed_under_text(program, kept, names)
    if problems:
        raise PackageError.group(problems)
    options, future = _options(program, kept, keep_comments)
    rewriter = Rewriter(program, kept, names, options)
    emitter = Emitter(program, kept, names, rewriter, shown_modules(program, kept))
    lines = emitter.text(items, planner.placed, future)
    if rewriter.problems:
        raise PackageError.group(rewriter.problems)
    text = "".join(line.rstrip("\r") + "\n" for line, _ in lines)
    if not text.strip():
        raise PackageError(
            "nothing of it would be left: it defines no class Model, and importing it does nothing",
            "name the file that defines Model",
            program.entry,
        )
    _check(text, program.entry)
    result = PackageResult(text, _report(program, kept, names, text, rewriter), _provenance(lines))
    return result, bool(planner.loaders)


def _options(program: Program, kept: Kept, keep_comments: bool) -> tuple[Options, bool]:
    """Decide what holds for the whole result: docstrings, and the annotations future."""
    modules = [program.modules[name] for name in kept.modules]
    marks = (".__doc__", '"__doc__"', "'__doc__'", "getdoc(", "doctest")
    docs = any(mark in module.text for module in modules for mark in marks)
    with_future = any(_annotates(module, kept) for module in modules if module.future_annotations)
    without = with_future and any(_annotates(m, kept) for m in modules if not m.future_annotations)
    options = Options(keep_comments, keep_docstrings=docs, quote_annotations=without)
    options.drop_prints = program.has_model
    return options, with_future and not without


def _annotates(module: Module, kept: Kept) -> bool:
    return any(kept.has(unit) and not unit.blocks and has_annotations(unit) for unit in module.all_units())


def _check(text: str, entry: Path) -> None:
    try:
        compile(text, str(entry), "exec", dont_inherit=True)
    except SyntaxError as error:
        lines = text.splitlines()
        line = lines[error.lineno - 1] if error.lineno and error.lineno <= len(lines) else ""
        raise PackageError(
            f"the packager wrote something that is not valid Python ({error.msg}): {line.strip()}",
            "this is a fault of the packager: please report it with the workspace",
            entry,
        ) from error


def _provenance(lines: list[Line]) -> dict[int, tuple[str, int]]:
    return {number: place for number, (_, place) in enumerate(lines, 1) if place is not None}


def _report(program: Program, kept: Kept, names: Names, text: str, rewriter: Rewriter) -> PackageReport:
    modules = [program.modules[name] for name in kept.modules]
    known = {Sym(module.name, name): None for module in modules for name in module.bindings}
    local = [
        symbol for symbol in known if not isinstance(program.resolve_name(symbol.module, symbol.name), Ext)
    ]
    dropped = tuple(
        f"{_shown(program, symbol.module)}.{symbol.name}"
        for symbol in local
        if symbol not in kept.symbols and program.resolve_name(symbol.module, symbol.name) == symbol
    )
    effects = [Dropped(display_path(unit.module.path), unit.line, reason) for unit, reason in kept.dropped]
    effects += [
        Dropped(display_path(unit.module.path), line, "writes output") for unit, line in rewriter.dropped
    ]
    return PackageReport(
        modules=tuple(_shown(program, module.name) for module in modules),
        kept=tuple(f"{_shown(program, symbol.module)}.{symbol.name}" for symbol in kept.symbols),
        dropped=dropped,
        renames={old.replace(ENTRY, program.entry.stem, 1): new for old, new in names.renames().items()},
        effects_dropped=tuple(effects),
        bytes_in=sum(len(module.text.encode()) for module in modules),
        bytes_out=len(text.encode()),
        external=tuple(sorted({external.module for external in kept.externals})),
    )


def _shown(program: Program, module: str) -> str:
    return program.entry.stem if module == ENTRY else module


def explain(entry: Path, name: str, *, roots: Sequence[Path] = (), inline: Sequence[str] = ()) -> str:
    """Say why ``name`` (bare, or ``module.name``) is in the result, or why it is not.

    Raises :class:`PackageError` where no module has such a name.
    """
    with _no_collection(), _nesting(entry):
        program = Program(entry, roots, inline)
        kept = Shaker(program).run()
    module_part, _, bare = name.rpartition(".")
    found = []
    for module in program.modules.values():
        if bare in module.bindings and module_part in ("", _shown(program, module.name), module.last):
            found.append(_explain(program, kept, module, bare))
    if not found:
        raise PackageError(f"no module of the workspace has a name {name!r}", "check the spelling", entry)
    return "\n".join(found)


def _explain(program: Program, kept: Kept, module: Module, name: str) -> str:
    symbol = Sym(module.name, name)
    title = f"{_shown(program, module.name)}.{name}"
    if module.name not in kept.modules:
        return f"{title} is not in the result: nothing that is kept imports its module"
    target = program.resolve_name(module.name, name)
    if isinstance(target, Sym) and target != symbol:
        return f"{title} is another name of {_shown(program, target.module)}.{target.name}"
    if symbol not in kept.symbols and target not in kept.externals:
        readers = _readers(program, symbol)
        who = f"only {', '.join(readers)} read it, and they are not in it" if readers else "nothing reads it"
        return f"{title} is not in the result: {who}"
    steps = [f"{title} is in the result:"]
    node: object = symbol if symbol in kept.symbols else target
    seen: set[int] = set()
    while node in kept.reasons and id(node) not in seen:
        seen.add(id(node))
        parent, text = kept.reasons[node]
        steps.append(
            f"  {_label(program, node)}: {_label(program, parent)} {text}"
            if not isinstance(parent, str)
            else f"  {_label(program, node)}: {text} ({parent})"
        )
        node = parent
    return "\n".join(steps)


def _label(program: Program, node: object) -> str:
    if isinstance(node, Sym):
        return f"{_shown(program, node.module)}.{node.name}"
    if isinstance(node, Unit):
        what = getattr(node.node, "name", None) or type(node.node).__name__.lower()
        return f"{display_path(node.module.path)}:{node.line} ({what})"
    if isinstance(node, Ext):
        return node.alias
    return str(getattr(node, "module", node))


def _readers(program: Program, symbol: Sym) -> list[str]:
    readers: dict[str, None] = {}
    for module in program.modules.values():
        for use in module.uses:
            if program.resolve_use(use)[0] == symbol and not isinstance(use.unit.node, ast.Import):
                own = any(
                    binding.name == symbol.name and module.name == symbol.module
                    for binding in use.unit.bindings
                )
                if not own:
                    names = [binding.name for binding in use.unit.bindings] or [f"line {use.unit.line}"]
                    readers[f"{_shown(program, module.name)}.{names[0]}"] = None
    return sorted(readers)
