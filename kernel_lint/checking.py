"""What ``kernel-lint check`` does with its options; click and the short cut both come here."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from kernel_lint import TYPE_CHECKING, config, engine, reporters
from kernel_lint.errors import KernelLintError
from kernel_lint.files import tidy
from kernel_lint.records import replace
from kernel_lint.terminal import use_color, write, write_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, TypeAlias

    from kernel_lint.answers import Request
    from kernel_lint.source.module import SourceModule
    from kernel_lint.task import TaskFiles

_OVERRIDES = (
    "select",
    "ignore",
    "extend_select",
    "extend_ignore",
    "final",
    "framework",
    "reference",
    "jobs",
    "cache_dir",
)
Options: TypeAlias = "Mapping[str, Any]"


def run(options: Options, request: Request | None = None) -> int:
    """Do what the options ask for and return the exit code; ``request`` remembers the answer."""
    paths = _paths(options["paths"])
    stdin = paths == ["-"]
    settings = read_settings(options, options["stdin_filename"] or "." if stdin else paths[0])
    if options["show_settings"]:
        return _show(settings)
    if options["watch"]:
        from kernel_lint.watch import watch

        return watch(paths, settings, lambda: _run(paths, settings, options))
    return _run_stdin(settings, options) if stdin else _run(paths, settings, options, request)


def _paths(given: Sequence[str]) -> list[str]:
    """Return the paths to lint; raises KernelLintError for what can only be a mistake."""
    if "" in given:
        # What a shell makes of "$FILE" where FILE is not set; it must not become the whole folder.
        raise KernelLintError(
            "one of the paths is empty", "name a file or a directory; '.' is this directory"
        )
    if "-" in given and len(given) > 1:
        raise KernelLintError(
            "'-' (standard input) cannot be linted together with files", "lint them in two runs"
        )
    return [tidy(path) for path in given or (".",)]


def _run(
    paths: list[str], settings: config.Settings, options: Options, request: Request | None = None
) -> int:
    fixed = 0
    if options["fix"] or options["fix_only"] or options["diff"]:
        from kernel_lint.fixing import fix_files

        outcome = fix_files(paths, settings, unsafe=options["unsafe_fixes"], write=not options["diff"])
        if options["diff"]:
            write(outcome.diff)
            return _with_errors(outcome.errors, 1 if outcome.diff and not options["exit_zero"] else 0)
        fixed = outcome.applied
        if options["fix_only"]:
            write(_fixed_line(fixed), error=True)
            return _with_errors(outcome.errors, 0)
    if request is not None:
        request.begin(settings)
    result = engine.check_paths(paths, settings, use_cache=not options["no_cache"])
    text = report(result, options)
    if request is not None and result.files:
        request.remember(text, exit_code(result, options), result, settings)
    _print(text, options["output_file"])
    if not result.files:
        write(f"kernel-lint: warning: no Python files in {', '.join(paths)}\n", error=True)
    if fixed:
        write(_fixed_line(fixed), error=True)
    return _with_errors(result.errors, exit_code(result, options))


def _run_stdin(settings: config.Settings, options: Options) -> int:
    from pathlib import Path

    from kernel_lint.source.module import SourceModule
    from kernel_lint.task import read_task

    name = options["stdin_filename"] or "-"
    if sys.stdin is None:
        raise KernelLintError("standard input is closed", "pipe a file in, or name it instead of '-'")
    module = SourceModule(name, sys.stdin.buffer.read())
    task = read_task(Path(settings.reference)) if settings.reference else None
    try:
        return _check_stdin(module, settings, options, task)
    except (RecursionError, engine.RuleFailureError) as error:
        if options["fix"] or options["fix_only"]:
            # Whoever puts our output in the place of the text must not lose it.
            write_bytes(module.data)
        return _with_errors((engine.unanalysed(name, error),), 2)


def _check_stdin(
    module: SourceModule, settings: config.Settings, options: Options, task: TaskFiles | None
) -> int:
    name = module.path
    if options["fix"] or options["fix_only"] or options["diff"]:
        from kernel_lint.fixing import encoded, fix_module, unified_diff

        fixed = fix_module(module, settings, unsafe=options["unsafe_fixes"], task=task)
        if options["diff"]:
            text = unified_diff(name, module.text, fixed.text)
            write(text)
            return 1 if text and not options["exit_zero"] else 0
        data = encoded(module, fixed.text)
        write_bytes(data)
        left = engine.check_module(type(module)(name, data), settings, task=task)
        result = engine.CheckResult(tuple(left), (), 1)
        return 0 if options["fix_only"] else exit_code(result, options)
    result = engine.CheckResult(tuple(engine.check_module(module, settings, task=task)), (), 1)
    _print(report(result, options, (name, module.text)), options["output_file"])
    return exit_code(result, options)


def report(result: engine.CheckResult, options: Options, source: tuple[str, str] | None = None) -> str:
    """Return the text that a result is reported with; ``source`` as in ReportOptions."""
    if options["statistics"]:
        return _statistics(result, options["output_format"])
    how = reporters.ReportOptions(color=use_color(options["color"]), source=source)
    return reporters.render(options["output_format"], result, how)


def exit_code(result: engine.CheckResult, options: Options) -> int:
    """Return a result's exit code, for which ``--exit-zero`` does not count findings."""
    return 0 if options["exit_zero"] else result.exit_code


def read_settings(options: Options, start: str) -> config.Settings:
    """Return the settings for ``start``: the configuration's, changed by the command line's."""
    file = None
    if options["config"]:
        from pathlib import Path

        file = Path(options["config"])
        if not file.is_file():
            raise KernelLintError(f"--config: {file} is not a file", "check the path")
    settings = config.load(start, config=file, isolated=options["isolated"])
    given = {name: options[name] for name in _OVERRIDES if options[name] not in (None, ())}
    for item in options["per_file_ignores"]:
        pattern, colon, codes = item.rpartition(":")
        if not colon or not pattern:
            raise KernelLintError(
                f"--per-file-ignores: '{item}' is not PATTERN:CODES", "write e.g. 'ops/*.py:KL104'"
            )
        known = given.get("per_file_ignores", settings.per_file_ignores)
        given["per_file_ignores"] = {**known, pattern: tuple(codes.split(","))}
    return replace(settings, **given) if given else settings


def _fixed_line(count: int) -> str:
    return f"Fixed {count} finding{'' if count == 1 else 's'}.\n"


def _with_errors(errors: tuple[engine.FileError, ...], code: int) -> int:
    for error in errors:
        write(f"kernel-lint: error: {error}\n", error=True)
    return 2 if errors else code


def _statistics(result: engine.CheckResult, form: str) -> str:
    from collections import Counter

    if form not in ("full", "json"):
        raise KernelLintError(
            f"--statistics has no form '{form}'", "take --output-format json, or none for a table"
        )

    counts = Counter((d.code, d.name) for d in result.diagnostics)
    fixable = Counter(d.code for d in result.diagnostics if d.fix is not None)
    rows = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    if form == "json":
        import json

        counted = [{"code": c, "name": name, "count": n, "fixable": fixable[c] > 0} for (c, name), n in rows]
        return json.dumps(counted, indent=2) + "\n"
    lines = [f"{n:6}  {code}  [{'*' if fixable[code] else ' '}] {name}" for (code, name), n in rows]
    return "".join(line + "\n" for line in lines)


def _show(settings: config.Settings) -> int:
    """Print the settings as a configuration file would say them; what is not set, as a comment."""
    import json

    from kernel_lint.records import fields

    lines = [f"# from {settings.source or 'the defaults and the command line; no configuration file counts'}"]
    lines.extend(f"# which extends {base}" for base in settings.bases)
    for item in fields(settings):
        name, value = item.name.replace("_", "-"), getattr(settings, item.name)
        if name in ("source", "bases"):
            continue
        if isinstance(value, dict):
            pairs = (f"{json.dumps(key)} = {json.dumps(codes)}" for key, codes in value.items())
            text = f"{{ {', '.join(pairs)} }}" if value else "{}"
        else:
            text = json.dumps(value)
        lines.append(f"# {name} is not set" if value is None else f"{name} = {text}")
    write("".join(f"{line}\n" for line in lines))
    return 0


def _print(text: str, file: str | None) -> None:
    if file is None:
        write(text)
        return
    try:
        with open(file, "w", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise KernelLintError(
            f"--output-file: {file} cannot be written: {error.strerror}", "choose another path"
        ) from error
