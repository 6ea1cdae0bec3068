"""The options of ``kernel-lint check`` as one table, and a reader of plain command lines.

click makes the command from the table (:mod:`kernel_lint.commands.check`). Loading click
costs more than linting from the cache, so a command line without anything unusual is read
here, with the same outcome; whatever is unusual, wrong or asks for help is left to click.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class Option:
    """One option: its spellings, what it takes, and its line of help.

    ``kind`` is "flag", "switch" (``--x/--no-x``, None when absent), "text", "path", "count"
    (a whole number), "choice", "texts" (many times) or "codes" (many times, each split at commas).
    """

    def __init__(
        self,
        *names: str,
        kind: str,
        text: str,
        default: str | None = None,
        choices: tuple[str, ...] = (),
        metavar: str | None = None,
    ) -> None:
        self.names, self.kind, self.text = names, kind, text
        self.default, self.choices, self.metavar = default, choices, metavar

    @property
    def key(self) -> str:
        """The option's name in the options' dictionary."""
        return self.names[-1].lstrip("-").replace("-", "_")


def _codes(name: str, text: str) -> Option:
    return Option(name, kind="codes", text=text, metavar="CODES")


def _flag(name: str, text: str) -> Option:
    return Option(name, kind="flag", text=text)


_LEAVE_OUT = "Leave rules out in matching files."
_STDIN = "The name of what '-' reads from standard input."
_FORMATS = "full, concise, grouped, json, json-lines, sarif, junit, github, gitlab, azure, pylint or rdjson."
_COLORS = ("auto", "always", "never")
OPTIONS = (
    _codes("--select", "Run only these rules (codes, prefixes or names, with commas)."),
    _codes("--ignore", "Leave these rules out."),
    _codes("--extend-select", "Run these rules too."),
    _codes("--extend-ignore", "Leave these rules out too."),
    Option("--per-file-ignores", kind="texts", text=_LEAVE_OUT, metavar="PATTERN:CODES"),
    _flag("--fix", "Apply safe fixes."),
    _flag("--unsafe-fixes", "With --fix or --diff: unsafe fixes too."),
    _flag("--fix-only", "Fix, and report nothing that is left."),
    _flag("--diff", "Print what --fix would change; change nothing."),
    Option("--final", kind="switch", text="Treat files as the one handed in [by name]."),
    Option("--framework", kind="choice", text="The kernel language.", choices=("flydsl", "cutedsl")),
    Option("--reference", kind="path", text="The task's reference.py, to sharpen rules."),
    Option("--output-format", kind="text", text=_FORMATS, default="full"),
    Option("--output-file", kind="path", text="Write the report there instead."),
    _flag("--statistics", "Count the findings of each rule instead; also as json."),
    Option("--config", kind="path", text="Read settings from this TOML file."),
    _flag("--isolated", "Ignore all configuration files."),
    _flag("--exit-zero", "Exit 0 even with findings."),
    _flag("--show-settings", "Print the settings and stop."),
    Option("-j", "--jobs", kind="count", text="Processes for many files (0: one a core)."),
    _flag("--no-cache", "Neither read nor write the cache."),
    Option("--cache-dir", kind="path", text="Where the cache lies."),
    _flag("--watch", "Lint again whenever a file changes."),
    Option("--stdin-filename", kind="text", text=_STDIN, metavar="PATH"),
    Option("--color", kind="choice", text="Colour.", default="auto", choices=_COLORS),
)


def split_codes(values: Sequence[str]) -> tuple[str, ...]:
    """Return the codes of values such as ``KL1,KL203``."""
    return tuple(part.strip() for value in values for part in value.split(",") if part.strip())


def parse(words: Sequence[str], table: Sequence[Option] = OPTIONS) -> dict[str, object] | None:
    """Return the options that click would give the command, or None where click should say.

    ``table`` holds the options of the command, by default those of ``check``. Left to click: options
    that the table does not know, values that are missing, wrong or look like options, ``--`` and empty
    words.
    """
    spellings = {name: option for option in table for name in option.names}
    spellings.update((f"--no-{o.key}", o) for o in table if o.kind == "switch")
    given: dict[str, object] = {}
    lists: dict[str, list[str]] = {o.key: [] for o in table if o.kind in ("texts", "codes")}
    paths: list[str] = []
    rest = iter(words)
    for word in rest:
        if not word or word == "--":
            return None
        if word == "-" or not word.startswith("-"):
            paths.append(word)
            continue
        name, equals, value = word.partition("=")
        option = spellings.get(name)
        if option is None:
            return None
        if option.kind in ("flag", "switch"):
            if equals:
                return None
            given[option.key] = not name.startswith("--no-") or option.kind == "flag"
            continue
        if not equals:
            value = next(rest, "")
        if not value or value.startswith("-") or (equals and not name.startswith("--")):
            return None
        if option.key in lists:
            lists[option.key].append(value)
        elif option.kind == "count":
            if not (value.isascii() and value.isdigit()):
                return None
            given[option.key] = int(value)
        elif option.choices and value not in option.choices:
            return None
        else:
            given[option.key] = value
    options: dict[str, object] = {"paths": tuple(paths)}
    for option in table:
        key, values = option.key, lists.get(option.key, [])
        if option.kind == "codes":
            options[key] = split_codes(values)
        elif option.kind == "texts":
            options[key] = tuple(values)
        else:
            options[key] = given.get(key, False if option.kind == "flag" else option.default)
    return options
