"""Runs rules over modules: selection, suppression, order, many files in parallel."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from operator import attrgetter

from kernel_lint import TYPE_CHECKING, registry
from kernel_lint.config import Settings
from kernel_lint.diagnostics import Diagnostic, Severity, Span
from kernel_lint.files import python_files, tidy
from kernel_lint.frameworks import FRAMEWORKS, Framework
from kernel_lint.parallel import Checked, FileError, check_all
from kernel_lint.records import dataclass, field
from kernel_lint.rule import Context, Finding, Rule
from kernel_lint.source.collector import CollectorPaused
from kernel_lint.source.domain import Qual
from kernel_lint.source.module import SourceError, SourceModule
from kernel_lint.suppressions import Suppression, find_suppressions

if TYPE_CHECKING:
    from pathlib import Path

    from kernel_lint.cache import Cache
    from kernel_lint.task import TaskFiles

FINAL_NAME = "generated_kernel.py"
# The evaluator's own files: what they do is theirs.
TASK_NAMES = frozenset({"reference.py", "input.py"})
SYNTAX_CODE = "KL001"
SUPPRESSION_CODE = "KL003"
_PLACE = attrgetter("sort_key")
# Starting a pool of processes costs about as much as linting this many files.
PARALLEL_FROM = 24


@dataclass(frozen=True, slots=True)
class CheckResult:
    """All findings and errors of a run, in a fixed order."""

    diagnostics: tuple[Diagnostic, ...]
    errors: tuple[FileError, ...]
    files: int
    # What rules asked about other files, and the answers: path to "file", "directory" or "".
    neighbours: dict[str, str] = field(default_factory=dict, compare=False)

    @property
    def exit_code(self) -> int:
        """2 when a file could not be checked, 1 with an error or warning, else 0."""
        if self.errors:
            return 2
        return 1 if any(d.severity is not Severity.INFO for d in self.diagnostics) else 0


def selected_rules(settings: Settings, path: str) -> tuple[type[Rule], ...]:
    """Return the rules that run on a file."""
    key = (settings.select, settings.extend_select, settings.ignore, settings.extend_ignore)
    return _selected(key, settings.ignored_for(path))


@lru_cache(maxsize=64)
def _selected(key: tuple[tuple[str, ...], ...], file_ignores: tuple[str, ...]) -> tuple[type[Rule], ...]:
    select, extend_select, ignore, extend_ignore = key
    wanted = registry.expand(select) - registry.expand(ignore)
    wanted = (
        (wanted | registry.expand(extend_select))
        - registry.expand(extend_ignore)
        - registry.expand(file_ignores)
    )
    return tuple(rule for rule in registry.all_rules() if rule.code in wanted)


def is_final(settings: Settings, path: str) -> bool:
    """Tell whether a file is the one handed in: by its name unless the settings say."""
    return os.path.basename(path) == FINAL_NAME if settings.final is None else settings.final


def is_candidate(module: SourceModule, framework: Framework, final: bool) -> bool:
    """Tell whether a module is, or is meant to become, the file that is handed in.

    It is when it is final, binds ``Model`` or ``forward`` at module level, subclasses
    ``torch.nn.Module``, or defines kernels and imports ``torch.nn`` to wrap them.
    """
    if final:
        return True
    if os.path.basename(module.path) in TASK_NAMES:
        return False
    bindings = module.scopes.module.bindings
    if "Model" in bindings or "forward" in bindings:
        return True
    for node in module.scopes.nodes.get(ast.ClassDef, ()):
        assert isinstance(node, ast.ClassDef)
        if any(Qual("torch.nn.Module") in module.values.of(base) for base in node.bases):
            return True
    imports_nn = any(b.target in ("torch.nn", "torch.nn.Module") for bs in bindings.values() for b in bs)
    return imports_nn and bool(module.flow.kernels(framework))


def check_module(
    module: SourceModule,
    settings: Settings,
    *,
    rules: Sequence[type[Rule]] | None = None,
    task: TaskFiles | None = None,
) -> list[Diagnostic]:
    """Return the findings of one module, sorted; suppressed ones are left out."""
    chosen = selected_rules(settings, module.path) if rules is None else rules
    with CollectorPaused():
        return _check(module, settings, chosen, task)


def _check(
    module: SourceModule, settings: Settings, chosen: Sequence[type[Rule]], task: TaskFiles | None
) -> list[Diagnostic]:
    framework = FRAMEWORKS[settings.framework]
    final = is_final(settings, module.path)
    if module.problem is not None:
        chosen = [rule for rule in chosen if rule.code == SYNTAX_CODE or not rule.needs_tree]
        candidate = final
    else:
        candidate = is_candidate(module, framework, final)
    context = Context(module, settings, framework, candidate, final, task)
    found = _run(chosen, context)
    if module.problem is None:
        found = _suppress(found, context, chosen)
    return _in_order(found)


def _in_order(found: list[Diagnostic]) -> list[Diagnostic]:
    """Sort findings and drop those that are there twice."""
    ordered: list[Diagnostic] = []
    for _, group in groupby(sorted(found, key=_PLACE), _PLACE):
        alike = list(group)
        # Hashing a finding costs more than placing it, and few share a place and a message.
        ordered.extend(alike if len(alike) == 1 else dict.fromkeys(alike))
    return ordered


class RuleFailureError(Exception):
    """A rule raised: a fault of ours, which must not pass for "nothing found"."""


def _run(rules: Iterable[type[Rule]], context: Context) -> list[Diagnostic]:
    found: list[Diagnostic] = []
    rule = None
    try:
        for rule in rules:
            for finding in rule().check(context):
                found.append(_diagnostic(rule, finding, context))
    except RecursionError:
        raise
    except Exception as error:
        code = rule.code if rule is not None else "selection"
        raise RuleFailureError(f"{code} failed with {type(error).__name__}: {error}") from error
    return found


def _diagnostic(rule: type[Rule], finding: Finding, context: Context) -> Diagnostic:
    where = finding.where
    span = where if isinstance(where, Span) else context.module.span(where)
    return Diagnostic(
        code=rule.code,
        name=rule.name,
        severity=finding.severity or rule.severity,
        message=finding.message,
        path=context.module.path,
        span=span,
        clauses=rule.clauses,
        help=finding.help,
        fix=finding.fix,
    )


def _suppress(found: list[Diagnostic], context: Context, chosen: Sequence[type[Rule]]) -> list[Diagnostic]:
    """Drop what comments allow; in a final file drop nothing and report the comments."""
    comments = find_suppressions(context.module)
    if not comments:
        return found
    rule = next((rule for rule in chosen if rule.code == SUPPRESSION_CODE), None)
    kept = list(found)
    used: set[tuple[int, str]] = set()
    if not context.final:
        kept = []
        for diagnostic in found:
            covering = [
                c for c in comments if diagnostic.span.line in c.covers and diagnostic.code in c.codes
            ]
            used.update((c.line, diagnostic.code) for c in covering)
            if not any(not c.problem for c in covering):
                kept.append(diagnostic)
    if rule is not None:
        ran = {rule.code for rule in chosen}
        for comment in comments:
            kept.extend(
                _diagnostic(rule, f, context) for f in _comment_findings(comment, context.final, used, ran)
            )
    return kept


def _comment_findings(
    comment: Suppression, final: bool, used: set[tuple[int, str]], ran: set[str]
) -> Iterator[Finding]:
    span = Span(comment.line, comment.column, comment.line, comment.end_column)
    if final:
        yield Finding(
            span,
            "suppressions do not count in the file that is handed in",
            "mend the finding itself, then remove the comment",
        )
    elif comment.problem:
        yield Finding(span, comment.problem)
    else:
        for code in comment.codes:
            if code in ran and (comment.line, code) not in used:
                yield Finding(
                    span, f"nothing here breaks {code}: the suppression is unused", "remove the comment"
                )


# -- files ---------------------------------------------------------------------------


def expand_paths(paths: Iterable[Path | str], settings: Settings) -> Iterator[str]:
    """Yield the files to check: named ones as they are, directories walked for ``*.py``."""
    seen: set[str] = set()
    excluded = frozenset(settings.exclude)
    for path in map(str, paths):
        for file in python_files(path, excluded) if os.path.isdir(path) else (path,):
            name = tidy(file)
            if name not in seen:
                seen.add(name)
                yield name


def check_file(
    path: Path | str, settings: Settings, task: TaskFiles | None = None, cache: Cache | None = None
) -> list[Diagnostic] | FileError:
    """Check one file; one that cannot be read or analysed gives its error."""
    return _check_file(str(path), settings, task, cache).outcome


def _check_file(path: str, settings: Settings, task: TaskFiles | None, cache: Cache | None) -> Checked:
    module, known = _recall(path, settings, cache)
    if module is None:
        return known
    try:
        found = check_module(module, settings, task=task)
    except (RecursionError, RuleFailureError) as error:
        return Checked(unanalysed(path, error))
    if cache is not None:
        cache.put(cache.key(module.path, module.data), found, module.neighbours)
    return Checked(found, module.neighbours)


def unanalysed(path: str, error: RecursionError | RuleFailureError) -> FileError:
    """Say that a file could not be analysed, and what can be done."""
    if isinstance(error, RecursionError):
        return FileError(path, "is nested too deeply to analyse", "split the deepest expression")
    remedy = f"this is a fault of kernel-lint: report it; --ignore {str(error)[:5]} checks the rest"
    return FileError(path, f"could not be checked: rule {error}", remedy)


def _recall(path: str, settings: Settings, cache: Cache | None) -> tuple[SourceModule | None, Checked]:
    """Return a module that must be checked, or None and what is known without."""
    try:
        module = SourceModule.read(path, max_bytes=settings.max_file_size)
    except SourceError as error:
        return None, Checked(FileError(path, error.message, error.remedy))
    known = cache.get(cache.key(module.path, module.data)) if cache is not None else None
    return (module, Checked([])) if known is None else (None, Checked(*known))


def check_paths(paths: Sequence[Path | str], settings: Settings, *, use_cache: bool = False) -> CheckResult:
    """Check files and directories; many files in parallel."""
    files = list(expand_paths(paths, settings))
    task = _task(settings)
    # With a reference a result depends on the task's files too.
    cache = _cache(settings) if use_cache and task is None else None
    if len(files) >= PARALLEL_FROM and task is None:
        checked = _check_many(files, settings, cache)
    else:
        checked = [_check_file(path, settings, task, cache) for path in files]
    results = [item.outcome for item in checked]
    diagnostics = [d for result in results if not isinstance(result, FileError) for d in result]
    errors = [result for result in results if isinstance(result, FileError)]
    return CheckResult(
        tuple(sorted(diagnostics, key=lambda d: d.sort_key)),
        tuple(sorted(errors, key=lambda e: e.path)),
        len(files),
        {path: kind for item in checked for path, kind in item.neighbours.items()},
    )


def _check_many(files: list[str], settings: Settings, cache: Cache | None) -> list[Checked]:
    """Take from the cache what is there, and check the rest, by several processes where that pays."""
    checked: dict[int, Checked] = {}
    if cache is not None:
        for index, path in enumerate(files):
            module, known = _recall(path, settings, cache)
            if module is None:
                checked[index] = known
    rest = [index for index in range(len(files)) if index not in checked]
    paths = [files[index] for index in rest]
    jobs = min(settings.jobs or os.cpu_count() or 1, len(paths) // 8)
    if jobs > 1 and len(paths) >= PARALLEL_FROM:
        checked.update(zip(rest, _in_parallel(paths, settings, jobs, cache), strict=True))
    else:
        checked.update((index, _check_file(files[index], settings, None, cache)) for index in rest)
    return [checked[index] for index in range(len(files))]


def _in_parallel(files: list[str], settings: Settings, jobs: int, cache: Cache | None) -> list[Checked]:
    from functools import partial

    check = partial(_check_file, settings=settings, task=None, cache=cache)
    return check_all(check, files, jobs, relax_collector)


def relax_collector() -> None:
    """Let the garbage collector of a process that only lints look less often, and not at what stays."""
    import gc

    gc.freeze()
    # A file of 1,000 lines leaves some 300,000 objects behind, which only the two higher generations free.
    gc.set_threshold(50_000, 10, 10)


def _cache(settings: Settings) -> Cache:
    from kernel_lint.cache import Cache

    return Cache(settings)


def _task(settings: Settings) -> TaskFiles | None:
    if not settings.reference:
        return None
    from pathlib import Path

    from kernel_lint.task import read_task

    return read_task(Path(settings.reference))


__all__ = ["CheckResult", "FileError", "check_file", "check_module", "check_paths"]
