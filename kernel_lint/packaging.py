"""``kernel-lint package``: its plain command lines, read without click, and the run itself.

Loading click takes longer than packaging a small workspace. What is unusual on a command line,
wrong or asks for help is left to :mod:`kernel_lint.commands.package`.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from kernel_lint import TYPE_CHECKING
from kernel_lint.check_options import Option, parse
from kernel_lint.errors import KernelLintError
from kernel_lint.files import kind_of, replace_file
from kernel_lint.terminal import write

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from kernel_lint.packager.report import PackageResult

FINAL_NAME = "generated_kernel.py"
# Deep enough for a chain of 800 modules; a stack of 8 MB holds as many calls of Python 3.10, at about 1 KB.
RECURSION_LIMIT = 5_000
OPTIONS = (
    Option("-o", "--output", kind="path", text="File to write; - for standard output.", default=FINAL_NAME),
    Option("--root", kind="texts", text="A further folder that holds local modules."),
    Option("--inline", kind="texts", text="An installed package to take in as if it were local."),
    Option("--keep-comments", kind="flag", text="Keep the comments of what is kept."),
    Option("--map", kind="path", text="Write a JSON map: output line to [file, line]."),
    Option("--explain", kind="text", text="Say why a name is in the result, or why not; write nothing."),
    Option(
        "--output-format", kind="choice", text="For the report.", default="text", choices=("text", "json")
    ),
)


def plain(words: Sequence[str]) -> dict[str, Any] | None:
    """Return the options of a command line that needs no click, or None."""
    options: dict[str, Any] | None = parse(words, OPTIONS)
    if options is None or len(options["paths"]) != 1 or "-" in options["paths"]:
        return None
    named = [options["output"], options["map"], *options["paths"], *options["root"]]
    if kind_of(options["output"]) == "directory" or any(map(_is_unreadable, filter(None, named))):
        return None
    return options


def _is_unreadable(path: str) -> bool:
    return os.path.exists(path) and not os.access(path, os.R_OK)


def run_plain(options: Mapping[str, Any]) -> int:
    """Run the command with options as :func:`plain` returns them; the process ends after it."""
    return run(
        Path(options["paths"][0]),
        output=Path(options["output"]),
        roots=tuple(map(Path, options["root"])),
        inline=options["inline"],
        keep_comments=options["keep_comments"],
        map_file=Path(options["map"]) if options["map"] else None,
        explain=options["explain"],
        output_format=options["output_format"],
        is_last=True,
    )


def run(
    entry: Path,
    *,
    output: Path,
    roots: tuple[Path, ...] = (),
    inline: tuple[str, ...] = (),
    keep_comments: bool = False,
    map_file: Path | None = None,
    explain: str | None = None,
    output_format: str = "text",
    is_last: bool = False,
) -> int:
    """Write what ``entry`` needs as one module, print the report, and return the exit code.

    Raises :class:`KernelLintError`; the files that are there stay as they are then.
    """
    from kernel_lint import packager

    if explain:
        with _deep_calls():
            reason = packager.explain(entry, explain, roots=roots, inline=inline)
        write((_json({"explain": explain, "text": reason}) if output_format == "json" else reason) + "\n")
        return 0
    with _deep_calls():
        result = packager.package(
            entry, roots=roots, inline=inline, keep_comments=keep_comments, is_last=is_last
        )
    if str(output) == "-":
        write(result.text)
    else:
        _replace(output, result.text, entry)
        if output.name == FINAL_NAME:
            from kernel_lint.gate_record import remember_packaging

            remember_packaging(output, entry, roots, inline, keep_comments)
    if map_file is not None:
        lines = {str(line): list(place) for line, place in sorted(result.provenance.items())}
        _replace(map_file, _json({"output": str(output), "lines": lines}, indent=1) + "\n", entry)
    _report(result, output, output_format)
    return 0


@contextlib.contextmanager
def _deep_calls() -> Iterator[None]:
    """Let calls nest deeply: a chain of imports is followed by recursion, several calls for each module."""
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(max(usual, RECURSION_LIMIT))
    try:
        yield
    finally:
        sys.setrecursionlimit(usual)


def _report(result: PackageResult, output: Path, output_format: str) -> None:
    if output_format == "json":
        text = _json({"output": str(output), **result.report.to_json()}, indent=2)
        write(text + "\n", error=str(output) == "-")
    else:
        write(f"{output}: {result.report.to_text()}\n", error=True)


def _json(data: object, indent: int | None = None) -> str:
    import json

    return json.dumps(data, indent=indent)


def _replace(path: Path, text: str, entry: Path) -> None:
    """Write a file whole or not at all; the one that is there stays until then."""
    if path.exists() and entry.exists() and path.samefile(entry):
        raise KernelLintError(
            f"{path} is the entry itself", "choose another file with -o, so that the source is not lost"
        )
    try:
        replace_file(path, text)
    except OSError as error:
        raise KernelLintError(
            f"cannot write {path}: {error.strerror}", "give a file in a folder that exists and can be written"
        ) from error
